"""Changes that a trial cannot judge, as ``equivalent.toml`` lists them, each with its reason.

Either no test can see them, or the test that does starts Spark or another process, where a trial with the quick tests
that execute the line does not look.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from lab.random_changes.changes import Change
from tests.mutants.catalogue import read_toml


LIST = Path(__file__).with_name("equivalent.toml")


class Equivalent(BaseModel):
    """Some changes of one line of text.

    :param file: Path from the root of the repository.
    :param line: The line, without its indentation.
    :param kind: What is done to it, as in the table of a run; empty for all of it.
    :param why: Why no trial can see it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(pattern=r"^airflow_provider_ha/.*\.py$")
    line: str = Field(min_length=1)
    kind: str = ""
    why: str = Field(min_length=1)

    def covers(self, change: Change) -> bool:
        """Whether a change is one of these."""
        return (change.file, change.line) == (self.file, self.line) and self.kind in ("", change.kind)


def equivalents(file: Path = LIST) -> list[Equivalent]:
    """Read the list."""
    return [Equivalent(**table) for table in read_toml(file).get("equivalent", [])]


def listed(change: Change, known: Sequence[Equivalent]) -> Equivalent | None:
    """Return the entry about a change; ``None`` when it is to be tried."""
    return next((one for one in known if one.covers(change)), None)
