"""Suites of ordinary tests that take hours, one file after the other.

They take longer than a session on one machine, so each result is kept in the repository, with its commit and date. A
test that has passed is not run again until ``--again``; the table shows the commits, and a reader judges their age.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from pathlib import Path

from pydantic import BaseModel

from lab import pytest_runs
from lab.pytest_runs import Collected, Ended
from lab.sitting import commit
from lab.suite import Proof
from tests.support.spark.added_standbys import ADDED_STANDBY


ROOT = Path(__file__).resolve().parents[1]
_TIMEOUT = 1800.0  # seconds for each test that does not set its own
_SITTING = 55 * 60.0  # seconds; afterwards no file is begun


@dataclass(frozen=True)
class Selection:
    """Which tests a suite runs.

    :param about: What is done and what has to hold.
    :param marker: Of the tests.
    :param kept: File with the results.
    :param folders: Where they are.
    :param without: Files that mention this word do not belong to it; empty for none.
    :param environment: Variables for the tests.
    """

    name: str
    title: str
    about: str
    marker: str
    kept: Path
    folders: tuple[str, ...] = ("lab", "tests")
    without: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


HOURS = Selection(
    "tests",
    "Tests that take hours",
    "Each test with the marker `hours`, which `make test-long` has no time for: one file after the other, each in a"
    " separate process. No test fails, and each file runs one test at least. The commit says what a test ran on: one"
    " that has passed is not run again by itself.",
    "hours",
    Path("lab", "hours.json"),
)
DYING_STANDBYS = Selection(
    "standbys",
    "The driver's fault tests beside a standby driver that dies",
    "Each fault test of a driver whose job has no standby driver, with one that is killed every 5 s from the submission"
    " on. A standby driver can only help: no test may fail for it.",
    "spark",
    Path("lab", "standbys.json"),
    folders=("tests/fault/driver",),
    without="standby",
    environment={ADDED_STANDBY: "5"},
)
LIVING_STANDBYS = replace(
    DYING_STANDBYS,
    name="standbys-alive",
    title="The driver's fault tests beside a standby driver",
    about="Each fault test of a driver whose job has no standby driver, with one. A standby driver can only help: no"
    " test may fail for it.",
    kept=Path("lab", "standbys-alive.json"),
    environment={ADDED_STANDBY: "0"},
)


class Recorded(Ended):
    """How a test has ended, and where it ran.

    :param commit: Short id of what was tested; with a plus sign where files were changed.
    """

    commit: str
    on: date


class Progress(BaseModel):
    """How the tests have ended so far, by node id."""

    ended: dict[str, Recorded] = {}

    def left(self, tests: Sequence[str]) -> list[str]:
        """Return those of the tests that have not passed."""
        return [test for test in tests if test not in self.ended or self.ended[test].outcome != "passed"]


class HourTests:
    """A suite of tests that are too long for `make test-long`.

    :param root: The repository: it has the folders of the tests, and git knows it.
    :param seconds: Length of a sitting; no file is begun after it.
    """

    def __init__(self, root: Path = ROOT, seconds: float = _SITTING, *, selection: Selection = HOURS) -> None:
        self.name, self.title, self.about = selection.name, selection.title, selection.about
        self._of = selection
        self._root = root
        self._seconds = seconds

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Run the tests that have not passed yet, for the length of a sitting.

        :param folder: Gets the logs.
        """
        (folder / "logs").mkdir(exist_ok=True)
        end, file = time.monotonic() + self._seconds, self._root / self._of.kept
        progress = Progress.model_validate_json(file.read_bytes()) if file.exists() else Progress()
        collected = pytest_runs.collect(
            self._root,
            self._of.marker,
            folder / "logs" / "collection.log",
            folders=self._of.folders,
            without=self._of.without,
        )
        known = {test for tests in collected.tests.values() for test in tests}
        progress.ended = {test: ended for test, ended in progress.ended.items() if test in known or collected.broken}
        # Files without a result come first: each sitting shows more.
        for name in sorted(collected.tests, key=lambda name: any(t in progress.ended for t in collected.tests[name])):
            tests = collected.tests[name]
            left = progress.left(tests)
            if left and time.monotonic() < end:
                tell(f"{name}: runs {len(left)} of {len(tests)} tests")
                self._run(name, left, progress, folder)
                tell(f"{name}: {_in_words(name, tests, progress)}")
        return Proof(_COLUMNS, rows(collected, progress), self._untrue(collected, progress, folder))

    def forget(self) -> None:
        """Forget the results of earlier sittings."""
        (self._root / self._of.kept).unlink(missing_ok=True)

    def _run(self, name: str, tests: Sequence[str], progress: Progress, folder: Path) -> None:
        """Run tests of one file and write down how they have ended, also when that is interrupted."""
        report, at = folder / "report.xml", commit(self._root)
        try:
            whole = pytest_runs.run(
                self._root,
                self._of.marker,
                tests,
                report=report,
                log=_log(folder, name),
                timeout=_TIMEOUT,
                environment=self._of.environment,
            )
        except KeyboardInterrupt:
            self._keep(progress, pytest_runs.outcomes(report, tests, whole=False), at)
            raise
        never = dict.fromkeys(tests, Ended(outcome="failed"))  # what pytest does not name did not run
        self._keep(progress, never | pytest_runs.outcomes(report, tests, whole=whole), at)

    def _keep(self, progress: Progress, ended: Mapping[str, Ended], at: str) -> None:
        """Write down results."""
        on = datetime.now(timezone.utc).date()
        for test, one in ended.items():
            progress.ended[test] = Recorded(outcome=one.outcome, seconds=round(one.seconds, 1), commit=at, on=on)
        file = self._root / self._of.kept
        new = file.with_suffix(".new")
        new.write_text(progress.model_dump_json(indent=1) + "\n", encoding="utf-8")
        new.replace(file)  # a process that is killed in between leaves the earlier ones

    def _untrue(self, collected: Collected, progress: Progress, folder: Path) -> list[str]:
        def shown(name: str) -> str:
            log = _log(folder, name)
            return f"`{log.relative_to(self._root) if log.is_relative_to(self._root) else log}`"

        if not collected.tests and not collected.broken:
            return [f"No test carries the marker `{self._of.marker}`."]
        said = [
            f"`{name}` cannot be collected, or no test of it has the marker, see {shown('collection')}."
            for name in collected.broken
        ]
        every = [test for tests in collected.tests.values() for test in tests]
        if waiting := sum(test not in progress.ended for test in every):
            said.append(f"{waiting} of {len(every)} tests have not run yet; the next sitting begins with them.")
        for name, tests in collected.tests.items():
            ended = [(test, progress.ended[test].outcome) for test in tests if test in progress.ended]
            said += [f"`{test}` failed, see {shown(name)}." for test, outcome in ended if outcome == "failed"]
            if ended and all(outcome == "skipped" for _, outcome in ended):
                said.append(f"Every test of `{name}` was skipped, see {shown(name)}.")
        return said


def _log(folder: Path, name: str) -> Path:
    """Return where the output of a file of tests is kept."""
    return folder / "logs" / f"{name.removesuffix('.py').replace('/', '.')}.log"


_COLUMNS = ("file", "tests", "passed", "failed", "skipped", "minutes", "commit", "last run")


def rows(collected: Collected, progress: Progress) -> list[tuple[str, ...]]:
    """Return one row for each file, and one for all. Pure."""
    by_file = collected.tests | {name: [] for name in collected.broken}
    every = [test for tests in by_file.values() for test in tests]
    return [_row(name, by_file[name], progress) for name in sorted(by_file)] + [_row("all", every, progress)]


def _row(name: str, tests: Sequence[str], progress: Progress) -> tuple[str, ...]:
    ended = [progress.ended[test] for test in tests if test in progress.ended]
    counts = [str(sum(one.outcome == kind for one in ended)) for kind in ("passed", "failed", "skipped")]
    commits = ", ".join(dict.fromkeys(one.commit for one in sorted(ended, key=lambda one: one.on)))
    last = max((one.on.isoformat() for one in ended), default="never")
    return (name, str(len(tests)), *counts, f"{sum(one.seconds for one in ended) / 60:.1f}", commits or "none", last)


def _in_words(name: str, tests: Sequence[str], progress: Progress) -> str:
    _, _, passed, failed, skipped, minutes, *_ = _row(name, tests, progress)
    return f"{passed} passed, {failed} failed, {skipped} skipped, {minutes} minutes"
