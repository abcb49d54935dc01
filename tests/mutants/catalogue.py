"""The mutants, as ``tests/mutants/*.toml`` lists them: one change of one file, and the test that must notice it."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


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
    :param rule: what the change breaks: ``H3``, ``design 4.2``
    :param file: path from the repository's root
    :param old: text that stands exactly once in the file
    :param new: what is put in its place
    :param test: pytest node id; without its parameters all of them are run and one has to fail
    :param why: one sentence
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    rule: str = Field(min_length=1)
    file: str = Field(pattern=r"^airflow_provider_ha/.*\.py$")
    old: str = Field(min_length=1)
    new: str
    test: str = Field(pattern=r"^tests/.*\.py::")
    why: str = Field(min_length=1)

    @property
    def fingerprint(self) -> str:
        """Changes when the mutant does: a result belongs to one of them."""
        told = repr((self.file, self.old, self.new, self.test))
        return hashlib.sha256(told.encode()).hexdigest()[:12]


def load(folder: Path = LISTS, lists: str = "*.toml") -> list[Mutant]:
    """Every mutant of a folder's lists, in the order of files and lines.

    :raises CatalogueError: a list cannot be read, or two mutants have one id
    """
    mutants = [mutant for file in sorted(folder.glob(lists)) for mutant in _listed(file)]
    twice = [name for name, number in Counter(mutant.id for mutant in mutants).items() if number > 1]
    if twice:
        raise CatalogueError(f"Two mutants have one id: {', '.join(twice)}")
    return mutants


def _listed(file: Path) -> list[Mutant]:
    try:
        return [Mutant(**table) for table in read_toml(file)["mutant"]]
    except (ValueError, KeyError, TypeError) as error:
        raise CatalogueError(f"{file.name}: {error}") from error
