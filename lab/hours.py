"""The tests with the marker ``hours``, one file after the other.

What passed is not run again, as long as no file of the repository has changed: a proof that mixes the results of two
states shows nothing of either.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import BaseModel

from lab import pytest_runs
from lab.pytest_runs import Collected, Ended
from lab.suite import Proof


ROOT = Path(__file__).resolve().parents[1]
MARKER = "hours"
_TIMEOUT = 1800.0  # seconds for each test that does not set its own
_WRITTEN_BY_PROOFS = ("docs/reference/proofs.md", "docs/reference/verdicts.md")


class Progress(BaseModel):
    """How the tests have ended so far.

    :param state: Digest of the repository that they tested.
    :param ended: Node id -> how that test has ended.
    """

    state: str = ""
    ended: dict[str, Ended] = {}

    def left(self, tests: Sequence[str]) -> list[str]:
        """Return those of the tests that have not passed."""
        return [test for test in tests if test not in self.ended or self.ended[test].outcome != "passed"]


class HourTests:
    """The tests that are too long for `make test-long`.

    :param root: The repository: it has the folders ``lab`` and ``tests``, and git knows it.
    """

    name = "tests"
    title = "Tests that take hours"

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root

    @property
    def about(self) -> str:
        """What is done and what has to hold."""
        return (
            f"Each test with the marker `{MARKER}`, which `make test-long` has no time for: one file after the other,"
            " each in a separate process. No test fails, and each file runs one test at least."
        )

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Run the tests that have not passed yet."""
        (folder / "logs").mkdir(exist_ok=True)
        file, state = folder / "progress.json", state_of(self._root)
        progress = Progress.model_validate_json(file.read_bytes()) if file.exists() else Progress()
        if progress.state != state:
            if progress.ended:
                tell(f"the repository has changed: {len(progress.ended)} results of its earlier state are dropped")
            progress = Progress(state=state)
        collected = pytest_runs.collect(self._root, MARKER, folder / "logs" / "collection.log")
        for name, tests in collected.tests.items():
            left = progress.left(tests)
            if not left:
                continue
            tell(f"{name}: runs {len(left)} of {len(tests)} tests")
            if not self._run(name, left, progress, folder):
                changed = f"The repository has changed while `{name}` ran; the next call begins again."
                return Proof(_COLUMNS, rows(collected, progress), [*self._untrue(collected, progress, folder), changed])
            tell(f"{name}: {_in_words(name, tests, progress)}")
        return Proof(_COLUMNS, rows(collected, progress), self._untrue(collected, progress, folder))

    def _run(self, name: str, tests: Sequence[str], progress: Progress, folder: Path) -> bool:
        """Run tests of one file and write down how they have ended, also when that is interrupted.

        :returns: Whether the repository is what it was; otherwise nothing is written down.
        """
        report = folder / "report.xml"
        try:
            whole = pytest_runs.run(self._root, MARKER, tests, report=report, log=_log(folder, name), timeout=_TIMEOUT)
        except KeyboardInterrupt:
            self._keep(progress, pytest_runs.outcomes(report, tests, whole=False), folder)
            raise
        never = dict.fromkeys(tests, Ended(outcome="failed"))  # what pytest does not name did not run
        return self._keep(progress, never | pytest_runs.outcomes(report, tests, whole=whole), folder)

    def _keep(self, progress: Progress, ended: dict[str, Ended], folder: Path) -> bool:
        """Write down results of the state that *progress* is about; returns whether they are."""
        if state_of(self._root) != progress.state:
            return False
        progress.ended |= ended
        new = folder / "progress.new"
        new.write_text(progress.model_dump_json(indent=2), encoding="utf-8")
        new.replace(folder / "progress.json")  # a process that is killed in between leaves the earlier ones
        return True

    def _untrue(self, collected: Collected, progress: Progress, folder: Path) -> list[str]:
        def shown(name: str) -> str:
            log = _log(folder, name)
            return f"`{log.relative_to(self._root) if log.is_relative_to(self._root) else log}`"

        if not collected.tests and not collected.broken:
            return [f"No test carries the marker `{MARKER}`."]
        said = [
            f"`{name}` cannot be collected, or no test of it has the marker, see {shown('collection')}."
            for name in collected.broken
        ]
        for name, tests in collected.tests.items():
            ended = [(test, progress.ended[test].outcome) for test in tests if test in progress.ended]
            said += [f"`{test}` failed, see {shown(name)}." for test, outcome in ended if outcome == "failed"]
            if ended and all(outcome == "skipped" for _, outcome in ended):
                said.append(f"Every test of `{name}` was skipped, see {shown(name)}.")
        return said


def state_of(root: Path) -> str:
    """Return the digest of all files that git has or would add, but for what a proof writes."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    told = hashlib.sha256()
    for name in sorted(set(listed) - {"", *_WRITTEN_BY_PROOFS}):
        file = root / name
        content = file.read_bytes() if file.is_file() else b""
        told.update(f"{name}\0".encode() + hashlib.sha256(content).digest())
    return told.hexdigest()


def _log(folder: Path, name: str) -> Path:
    """Return where the output of a file of tests is kept."""
    return folder / "logs" / f"{name.removesuffix('.py').replace('/', '.')}.log"


_COLUMNS = ("file", "tests", "passed", "failed", "skipped", "minutes")


def rows(collected: Collected, progress: Progress) -> list[tuple[str, ...]]:
    """Return one row for each file, and one for all. Pure."""
    by_file = collected.tests | {name: [] for name in collected.broken}
    every = [test for tests in by_file.values() for test in tests]
    return [_row(name, by_file[name], progress) for name in sorted(by_file)] + [_row("all", every, progress)]


def _row(name: str, tests: Sequence[str], progress: Progress) -> tuple[str, ...]:
    ended = [progress.ended[test] for test in tests if test in progress.ended]
    counts = [str(sum(one.outcome == kind for one in ended)) for kind in ("passed", "failed", "skipped")]
    return (name, str(len(tests)), *counts, f"{sum(one.seconds for one in ended) / 60:.1f}")


def _in_words(name: str, tests: Sequence[str], progress: Progress) -> str:
    _, _, passed, failed, skipped, minutes = _row(name, tests, progress)
    return f"{passed} passed, {failed} failed, {skipped} skipped, {minutes} minutes"
