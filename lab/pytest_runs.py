"""pytest in a separate process: which tests carry a marker, and how those of one file end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict


# The newer form of the report has no room for what tests say of themselves (the fixture ``tell``).
_OPTIONS = ("-p", "no:cacheprovider", "-o", "junit_family=xunit1")
_PATIENCE = 60.0  # seconds in which an interrupted pytest ends what its tests have started
_TESTS_FAILED, _NONE_LEFT = 1, 5  # exit codes of pytest

Outcome = Literal["passed", "failed", "skipped"]


class Ended(BaseModel):
    """How a test has ended.

    :param seconds: It took, with its fixtures.
    """

    model_config = ConfigDict(frozen=True)

    outcome: Outcome
    seconds: float = 0.0


class Collected(BaseModel):
    """What pytest found.

    :param tests: File -> node ids of its tests with the marker.
    :param broken: Files that mention the marker and could not be imported, or have no test with it.
    """

    model_config = ConfigDict(frozen=True)

    tests: dict[str, list[str]] = {}
    broken: list[str] = []


def collect(
    root: Path, marker: str, log: Path, *, folders: Sequence[str] = ("lab", "tests"), without: str = ""
) -> Collected:
    """Collect the tests that carry a marker. Only files that mention it are imported: that takes seconds.

    :param root: Node ids begin below it.
    :param log: Gets what pytest writes.
    :param folders: Folders below *root* that are searched.
    :param without: Files that mention this word are left out; empty for none.
    """
    every = ((file, file.read_text("utf-8")) for folder in folders for file in (root / folder).rglob("test_*.py"))
    found = (file for file, text in every if f"mark.{marker}" in text and not (without and without in text))
    files = sorted(str(file.relative_to(root)) for file in found)
    if not files:
        return Collected()
    command = [*_pytest(root, marker), "--collect-only", "-q", *files]
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(command, cwd=root, stdout=output, stderr=subprocess.STDOUT, check=False)
    said = log.read_text(encoding="utf-8").splitlines()
    tests = {file: [line for line in dict.fromkeys(said) if line.startswith(f"{file}::")] for file in files}
    failed = set() if done.returncode in {0, _NONE_LEFT} else {*_errors(said)} & {*files} or {*files}
    broken = [file for file in files if file in failed or not tests[file]]
    return Collected(tests={file: tests[file] for file in files if file not in broken}, broken=broken)


def _errors(said: Sequence[str]) -> Iterator[str]:
    """Return each file that the summary of pytest names with an error, in itself or in a class of it."""
    return (line.split()[1].partition("::")[0] for line in said if line.startswith("ERROR ") and line.split()[1:])


def run(
    root: Path,
    marker: str,
    tests: Sequence[str],
    *,
    report: Path,
    log: Path,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> bool:
    """Run tests to their end; an interruption ends pytest first, which then writes what it has.

    :param report: Gets the report, in the format of JUnit; none is there when pytest could not write one.
    :param log: Gets what pytest writes.
    :param timeout: Seconds for each test that does not set its own.
    :param environment: Variables for the tests.
    :returns: Whether pytest came to the end of the tests.
    """
    report.unlink(missing_ok=True)
    command = [*_pytest(root, marker), f"--junitxml={report}", f"--timeout={timeout:g}", *tests]
    with log.open("w", encoding="utf-8") as output:
        # In a separate session: a terminal would interrupt the servers of the tests together with the tests.
        process = subprocess.Popen(
            command,
            cwd=root,
            env=os.environ | (environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            return process.wait() in {0, _TESTS_FAILED}
        finally:
            _end(process)


def outcomes(report: Path, tests: Sequence[str], *, whole: bool) -> dict[str, Ended]:
    """Return how tests have ended, of those that the report names.

    :param whole: Whether pytest came to the end. Otherwise the last test of the report does not count: its fixtures
        may not have ended.
    """
    if not report.exists():
        return {}
    cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314  # pytest's own
    found: dict[tuple[str, str], list[ET.Element]] = {}
    for case in cases if whole else cases[:-1]:
        found.setdefault((case.get("classname", ""), case.get("name", "")), []).append(case)
    # A test that fails, and whose fixtures then fail, is in the report twice.
    return {test: _ended(found[_address(test)]) for test in tests if _address(test) in found}


def _pytest(root: Path, marker: str) -> list[str]:
    return [sys.executable, "-m", "pytest", f"--rootdir={root}", "-m", marker, *_OPTIONS]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what still runs: politely, then with all that it has started in its session."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_PATIENCE)
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _address(test: str) -> tuple[str, str]:
    """Return class and name that a report gives a test."""
    place, bracket, parameters = test.partition("[")
    file, *names = place.split("::")
    *classes, name = names
    return ".".join([file.removesuffix(".py").replace("/", "."), *classes]), name + bracket + parameters


def _ended(cases: Sequence[ET.Element]) -> Ended:
    kinds = {child.tag for case in cases for child in case}
    outcome: Outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    return Ended(outcome=outcome, seconds=sum(float(case.get("time", 0)) for case in cases))
