"""One random change, tried: the tests that execute its line are run on a copy until one of them fails."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import accumulate
from pathlib import Path
from time import monotonic

from pydantic import BaseModel, ConfigDict

from lab.random_changes.changes import Change
from lab.random_changes.covering import Covering
from tests.mutants.bench import Bench
from tests.mutants.outcome import Testimony


# Some quick tests first: most changes are seen by one of them, and pytest need not collect the others.
_STAGES = (0, 15, 120)
_ENOUGH_SECONDS = 400.0  # of tests, for a line that a thousand tests execute
_PATIENCE = 10.0  # times what the tests took when they were recorded
_START_SECONDS = 60.0


class Fate(str, Enum):
    """What became of a change."""

    KILLED = "killed"
    SURVIVED = "survived"
    NOT_COVERED = "not covered by quick tests"
    EQUIVALENT = "equivalent"


class Trial(BaseModel):
    """The result of one change.

    :param id: Of the change.
    :param digest: Of the file that was changed, before the change.
    :param tests_digest: Of all tests: a survivor is tried again when they have changed.
    :param by: The test that failed, or why there is none.
    :param tests: How many tests were run at most.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    digest: str
    tests_digest: str
    file: str
    number: int
    line: str
    kind: str
    fate: Fate
    by: str = ""
    tests: int = 0
    seconds: float = 0.0

    @property
    def left(self) -> bool:
        """Whether it still needs a test, or a reason."""
        return self.fate in (Fate.SURVIVED, Fate.NOT_COVERED)


def selected(change: Change, covering: Covering) -> list[str]:
    """Return the tests that execute what is changed, the quickest first, as many as there is time for."""
    lines = range(change.first, change.last + 1)
    found = [] if change.at_import else covering.of_lines(change.file, lines)
    if change.at_import or (not found and covering.imported(change.file, lines)):
        found = covering.of_file(change.file)
    spent = accumulate(covering.seconds[test] for test in found)
    return [test for test, seconds in zip(found, spent, strict=True) if seconds <= _ENOUGH_SECONDS]


def tried(change: Change, covering: Covering, bench: Bench, copy: Path) -> tuple[Fate, str, int, float]:
    """Return what became of a change, the test that failed, how many could have failed, and the seconds.

    :param copy: Of this repository; it is as it was afterwards.
    """
    began, tests = monotonic(), selected(change, covering)
    if not tests:
        return Fate.NOT_COVERED, "", 0, 0.0
    file = copy / change.file
    source = file.read_text(encoding="utf-8")
    _write(file, change.apply(source))
    try:
        for first, last in zip(_STAGES, (*_STAGES[1:], len(tests)), strict=True):
            killer = _killer(tests[first:last], covering, bench, copy)
            if killer:
                return Fate.KILLED, killer, len(tests), round(monotonic() - began, 1)
    finally:
        _write(file, source)
    return Fate.SURVIVED, "", len(tests), round(monotonic() - began, 1)


def _killer(tests: Sequence[str], covering: Covering, bench: Bench, copy: Path) -> str:
    """Return the first of the tests that fails; empty when all pass."""
    if not tests:
        return ""
    limit = _START_SECONDS + _PATIENCE * sum(covering.seconds[test] for test in tests)
    asked, told = copy / "tests.txt", copy / "witness.json"
    asked.write_text("\n".join(tests), encoding="utf-8")
    told.unlink(missing_ok=True)
    testimony = bench.pytest(copy, ["-x", f"@{asked}"], limit)
    if testimony is None:
        return f"no end within {limit:.0f} s"
    return _first_failure(testimony, copy)


def _first_failure(testimony: Testimony, copy: Path) -> str:
    if testimony.package and not Path(testimony.package).is_relative_to(copy):
        raise RuntimeError(f"the tests imported {testimony.package} instead of the copy {copy}")
    failed = next((report.test for report in testimony.reports if report.outcome == "failed"), None)
    if failed is not None:
        return failed
    if not any(report.phase == "call" for report in testimony.reports):
        return "the import of the tests, or the process"
    return ""


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink()
