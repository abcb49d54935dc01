"""The mutants, as ``tests/mutants/*.toml`` lists them: a change of one statement, and the test that must notice."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tests.mutants.guards import GuardError, Source, guarded_files


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it along


ROOT = Path(__file__).parents[2]
LISTS = ROOT / "tests" / "mutants"


def read_toml(file: Path) -> dict[str, Any]:
    """Return what a TOML file says."""
    return tomllib.loads(file.read_text(encoding="utf-8"))


class CatalogueError(Exception):
    """A list of mutants cannot be used as it is."""


class Mutant(BaseModel):
    """One change that a named test must notice.

    :param id: lower case words, unique over all lists
    :param guard: what marks the statement, see :mod:`tests.mutants.guards`; in a list the id unless it says otherwise
    :param file: path from the repository's root; found by the guard, empty when no statement has it
    :param old: text that begins exactly once in the statement
    :param new: what is put in its place
    :param test: pytest node id; without its parameters all of them are run and one has to fail
    :param why: one sentence, with the code of its rule or contract in brackets: ``(H3)``
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    guard: str = Field(min_length=1)
    file: str
    old: str = Field(min_length=1)
    new: str
    test: str = Field(pattern=r"^tests/.*\.py::")
    why: str = Field(min_length=1)

    @property
    def fingerprint(self) -> str:
        """Changes when the mutant does: a result belongs to one of them. Without the file, so modules may move."""
        return hashlib.sha256(repr((self.guard, self.old, self.new, self.test)).encode()).hexdigest()[:12]

    def places(self, source: Source) -> list[int]:
        """Return where its text stands in its file: once, or it cannot be tried."""
        return source.places(self.old, self.guard)

    def apply(self, source: Source) -> str:
        """Return the file's changed text."""
        (place,) = self.places(source)
        return source.text[:place] + self.new + source.text[place + len(self.old) :]


def load(folder: Path = LISTS, lists: str = "*.toml", root: Path = ROOT) -> list[Mutant]:
    """Every mutant of a folder's lists, in the order of files and lines.

    :raises CatalogueError: a list cannot be read, two mutants have one id, or two statements one guard
    """
    try:
        guarded = guarded_files(root)
    except GuardError as error:
        raise CatalogueError(str(error)) from error
    mutants = [mutant for file in sorted(folder.glob(lists)) for mutant in _listed(file, guarded)]
    twice = [name for name, number in Counter(mutant.id for mutant in mutants).items() if number > 1]
    if twice:
        raise CatalogueError(f"Two mutants have one id: {', '.join(twice)}")
    return mutants


def _listed(file: Path, guarded: Mapping[str, str]) -> list[Mutant]:
    try:
        return [_mutant(table, guarded) for table in read_toml(file)["mutant"]]
    except (ValueError, KeyError, TypeError) as error:
        raise CatalogueError(f"{file.name}: {error}") from error


def _mutant(table: dict[str, Any], guarded: Mapping[str, str]) -> Mutant:
    guard = table.get("guard", table["id"])
    return Mutant(**{**table, "guard": guard}, file=guarded.get(guard, ""))  # refuses a list that names a file
