"""A pytest plugin that tells the runner of mutants what happened. It is copied beside the mutated package.

The exit code would not do: it is 1 for a failed assertion and for a server that did not start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest


_reports: list[dict[str, str]] = []

# Such a failure says that the mutant is no program, not that a test noticed it.
_BROKEN = (ImportError, SyntaxError, NameError)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember how each phase of each test ended, and by which kind of error."""
    report = yield
    error = "" if call.excinfo is None else f"{call.excinfo.typename}: {call.excinfo.value}"
    kind = "none"
    if report.outcome == "failed":
        kind = _kind_of(call.excinfo)
    _reports.append(
        {"test": report.nodeid, "phase": report.when, "outcome": report.outcome, "kind": kind, "error": error[:300]}
    )
    return report


def pytest_sessionfinish() -> None:
    """Write it down, with the place that the package was really imported from."""
    import airflow_provider_ha

    told = {"package": airflow_provider_ha.__file__, "reports": _reports}
    Path(os.environ["MUTANT_WITNESS"]).write_text(json.dumps(told), encoding="utf-8")


def _kind_of(failure: pytest.ExceptionInfo[BaseException] | None) -> str:
    if failure is None or failure.errisinstance(_BROKEN):
        return "broken"
    if failure.typename == "Failed" and str(failure.value).startswith("Timeout"):
        return "timeout"
    return "noticed"
