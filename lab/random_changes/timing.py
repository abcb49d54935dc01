"""A pytest plugin that writes how each test of a run ended and how long it took, for the process that started it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


_seconds: dict[str, float] = {}
_not_passed: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the phase to its test; with several processes the first one hears of all of them."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.outcome != "passed":
        _not_passed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write it, in the first process only."""
    if not hasattr(session.config, "workerinput"):
        passed = {test: round(seconds, 4) for test, seconds in _seconds.items() if test not in _not_passed}
        Path(os.environ["MUTANT_TIMES"]).write_text(json.dumps(passed), encoding="utf-8")
