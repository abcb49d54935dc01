"""One copy of the package, one change in it, one run of pytest on it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.mutants.catalogue import Mutant
from tests.mutants.guards import Source
from tests.mutants.outcome import Outcome, Result, Testimony, judge


WITNESS = Path(__file__).with_name("witness.py")

# The tests are copied too: pytest puts their root before everything else, and processes that they start do the same.
_COPIED = ("airflow_provider_ha", "java", "tests", "dags", "pyproject.toml")
_CACHE = Path("build") / "test-cache"  # recorded Spark checkpoints: the same for every mutant


class Bench:
    """Where mutants are tried.

    :param root: the repository
    :param place: folder for the copies
    :param limit: seconds that one run of pytest may take
    """

    def __init__(self, root: Path, place: Path, limit: float = 300.0) -> None:
        self._root = root
        self._place = place
        self._limit = limit

    def try_out(self, mutant: Mutant) -> Result:
        """Apply one mutant and see whether its test notices."""
        began = time.monotonic()
        outcome, detail = self._tried(mutant)
        return Result(mutant, outcome, round(time.monotonic() - began, 1), detail)

    def control(self, name: str, tests: list[str]) -> set[str]:
        """Those of the tests that pass on an unchanged copy."""
        copy = self.copy(f"control-{os.getpid()}-{name}")  # two runs may go on beside each other
        testimony = self.pytest(copy, tests, self._limit * len(tests))
        passed = set() if testimony is None else {test for test in tests if testimony.passed(test)}
        if len(passed) == len(tests):
            shutil.rmtree(copy)
        return passed

    def _tried(self, mutant: Mutant) -> tuple[Outcome, str]:
        if not mutant.file:
            return Outcome.NOT_FOUND, f"no statement is marked as `{mutant.guard}`"
        found = len(mutant.places(Source.read(self._root / mutant.file)))
        if found != 1:
            return (Outcome.AMBIGUOUS if found else Outcome.NOT_FOUND), f"{mutant.file}: {found} times"
        copy = self.copy(mutant.id)
        _change(copy / mutant.file, mutant)
        testimony = self.pytest(copy, ["-x", mutant.test], self._limit)
        if testimony is None:
            return Outcome.TIMEOUT, f"more than {self._limit:g} s"
        outcome, detail = judge(mutant, testimony, copy)
        if outcome is Outcome.KILLED:
            shutil.rmtree(copy)  # what was not killed stays for inspection
        return outcome, detail

    def copy(self, name: str) -> Path:
        """Return a fresh copy of the package and of its tests."""
        copy = (self._place / name).resolve()
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir(parents=True)
        for part in filter(Path.exists, (self._root / name for name in _COPIED)):
            if part.is_dir():
                shutil.copytree(part, copy / part.name, ignore=shutil.ignore_patterns("*.pyc.*"))
            else:
                shutil.copy2(part, copy)
        if (self._root / _CACHE).is_dir():
            (copy / _CACHE).parent.mkdir()
            (copy / _CACHE).symlink_to((self._root / _CACHE).resolve())
        shutil.copy2(WITNESS, copy / "mutant_witness.py")
        return copy

    @staticmethod
    def pytest(copy: Path, arguments: list[str], limit: float) -> Testimony | None:
        """``None`` when it did not end in time."""
        told = copy / "witness.json"
        environment = os.environ | {
            "PYTHONPATH": str(copy),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MUTANT_WITNESS": str(told),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "mutant_witness", "-p", "no:cacheprovider", *arguments]
        with (copy / "pytest.log").open("w", encoding="utf-8") as log:
            run = subprocess.Popen(command, cwd=copy, env=environment, stdout=log, stderr=log, start_new_session=True)
            try:
                run.wait(limit)
            except subprocess.TimeoutExpired:
                return None
            finally:
                _end_group(run)
        return Testimony.read(told)


def _change(file: Path, mutant: Mutant) -> None:
    file.write_text(mutant.apply(Source.read(file)), encoding="utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink()


def _end_group(run: subprocess.Popen[bytes]) -> None:
    """Nothing that a test started outlives it, least of all one whose cleanup was mutated."""
    try:
        os.killpg(run.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        run.wait()
