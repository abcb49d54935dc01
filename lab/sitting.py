"""One sitting of a suite: it plays for a while what is left, and keeps each outcome as soon as it is known."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from lab.suite import Proof
from tests.support.judged import Judged


OutcomeT = TypeVar("OutcomeT", bound=Judged)
RESULTS = (
    "docs/reference/proofs.md",
    "docs/reference/verdicts.md",
    "lab/hours.json",
    "lab/standbys.json",
    "lab/standbys-alive.json",
)
"""What proofs write."""


class Done(BaseModel, Generic[OutcomeT]):
    """What was seen, and in which state of the sources.

    :param commit: Short id; with a plus sign where files were changed.
    """

    commit: str
    outcome: OutcomeT


class Progress(BaseModel, Generic[OutcomeT]):
    """Name of a cell -> what was seen."""

    cells: dict[str, Done[OutcomeT]] = {}


class Sitting(Generic[OutcomeT]):
    """Goes on where the last one ended. A cell in which something did not hold is played again.

    :param folder: Keeps the progress.
    :param kind: Progress of the suite.
    :param done: A cell in it.
    :param seconds: After which no cell is begun.
    :param tell: Shows progress, one line each.
    :ivar failed: Cells that were not played to their end.
    """

    def __init__(
        self,
        folder: Path,
        kind: type[Progress[OutcomeT]],
        done: type[Done[OutcomeT]],
        seconds: float,
        tell: Callable[[str], None],
    ) -> None:
        self._file = folder / "progress.json"
        self._end = time.monotonic() + seconds
        self._tell = tell
        self._progress = kind.model_validate_json(self._file.read_bytes()) if self._file.exists() else kind()
        self._progress.cells = {name: each for name, each in self._progress.cells.items() if not each.outcome.wrong}
        self._done = done
        self.failed: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._progress.cells

    def attempt(self, name: str, play: Callable[[], OutcomeT]) -> None:
        """Play a cell, unless the time is over."""
        if time.monotonic() > self._end:
            return
        self._tell(f"{name} begins")
        try:
            outcome = play()
        except (AssertionError, TimeoutError) as error:
            self.failed.append(name)
            self._tell(f"{name} was not played to its end: {error}")
            return
        self._progress.cells[name] = self._done(commit=commit(), outcome=outcome)
        self._file.write_text(self._progress.model_dump_json(indent=2), encoding="utf-8")
        self._tell(f"{name}, {outcome.seconds:.1f} s: {' '.join(outcome.wrong) or 'holds'}")

    def attempt_all(self, plays: Mapping[str, Callable[[], OutcomeT]]) -> None:
        """Play the cells that are left, in this order."""
        for name, play in plays.items():
            if name not in self:
                self.attempt(name, play)

    def proof(
        self,
        names: Sequence[str],
        columns: Sequence[str],
        row: Callable[[str, Done[OutcomeT]], Sequence[str]],
        remark: Callable[[Mapping[str, Done[OutcomeT]], Sequence[str]], str],
    ) -> Proof:
        """Return the table of the cells that were played.

        :param row: Returns the line of a cell.
        :param remark: Returns the text beside the table, from these cells and the names of the cells not begun.
        """
        cells = self.cells(names)
        lines = [row(name, done) for name, done in cells.items()]
        return Proof(columns, lines, untrue(cells, self.failed), remark(cells, self.rest(names)))

    def cells(self, names: Iterable[str]) -> dict[str, Done[OutcomeT]]:
        """Return those of *names* that were played, in this order."""
        return {name: self._progress.cells[name] for name in names if name in self}

    def rest(self, names: Iterable[str]) -> list[str]:
        """Return those of *names* that were not begun."""
        return [name for name in names if name not in self and name not in self.failed]


def emptied(place: Path) -> Path:
    """Return a folder without what an earlier sitting left there."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return place


def untrue(cells: Mapping[str, Done[OutcomeT]], failed: Sequence[str]) -> list[str]:
    """Return what does not hold. Pure."""
    wrong = [f"{name}: {sentence}" for name, done in cells.items() for sentence in done.outcome.wrong]
    return [*wrong, *(f"{name} was not played to its end." for name in failed)]


def commits(cells: Mapping[str, Done[OutcomeT]]) -> str:
    """Return the states of the sources in which cells were played. Pure."""
    return ", ".join(sorted({done.commit for done in cells.values()}))


def commit(root: Path = Path(__file__).parents[1]) -> str:
    """Return the short id of the commit of *root*; with a plus sign where files were changed since, but for results."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--", ".", *(f":(exclude){each}" for each in RESULTS))
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
