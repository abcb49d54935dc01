"""A pytest plugin that continues an interrupted run: ``pytest -p lab.resume --resume FILE``.

The file names the tests that have passed. It is valid for one state of the repository: results of two states prove
nothing about either.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.sitting import RESULTS


_PASSED = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare ``--resume``."""
    parser.addoption("--resume", type=Path, metavar="FILE", help="record passed tests in FILE and leave them out")


def pytest_configure(config: pytest.Config) -> None:
    """Read the tests that have passed; a worker of xdist gets them from its controller."""
    worker = getattr(config, "workerinput", None)
    config.stash[_PASSED] = set(worker["passed"]) if worker else _read(config.option.resume, config.rootpath)
    if worker is None:
        config.pluginmanager.register(_Recorder(config.option.resume), "resume-recorder")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has passed. Tests of a whole Airflow build on each other: their file runs again as a whole."""
    passed = config.stash[_PASSED]
    again = {item.path for item in items if item.nodeid not in passed and item.get_closest_marker("system")}
    left_out = [item for item in items if item.nodeid in passed and item.path not in again]
    items[:] = [item for item in items if item.nodeid not in passed or item.path in again]
    if left_out:
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a worker of xdist the tests that have passed."""
    node.workerinput["passed"] = sorted(node.config.stash[_PASSED])


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Report success if every test has passed before."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.stash[_PASSED]:
        session.exitstatus = pytest.ExitCode.OK


def pytest_report_header(config: pytest.Config) -> str:
    """Report how many tests an earlier run has passed."""
    return f"resume: {len(config.stash[_PASSED])} tests have passed in this state of the repository"


class _Recorder:
    """Append each test that passes, with its fixtures."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._called: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._called.add(report.nodeid)
        if report.when == "teardown" and report.passed and report.nodeid in self._called:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")


def _read(file: Path, root: Path) -> set[str]:
    """Return the tests that have passed; start the file again if it belongs to another state of the repository."""
    state = state_of(root)
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    if lines[:1] == [state]:
        return set(lines[1:])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{state}\n", "utf-8")
    return set()


def state_of(root: Path) -> str:
    """Return the digest of all files that git has or would add, but for the results of proofs."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    digest = hashlib.sha256()
    for name in sorted(set(listed) - {"", *RESULTS}):
        file = root / name
        content = file.read_bytes() if file.is_file() else b""
        digest.update(f"{name}\0".encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()
