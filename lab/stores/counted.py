"""Runs tests in a separate process, and counts."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from tests.support.judged import Judged


ROOT = Path(__file__).resolve().parents[2]
_LAST_WORDS = 1000  # characters


class Count(Judged):
    """How tests have ended.

    :param passed: How many held.
    :param wrong: Name and first line of each that failed, or was left out: what is not run shows nothing.
    :param seconds: They took.
    """

    passed: int
    wrong: list[str] = []
    seconds: float = 0.0


def run(tests: Sequence[str], folder: Path) -> Count:
    """Run tests, and return how they have ended.

    :param tests: As pytest names them.
    :param folder: Gets the report.
    """
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    # The newer form of the report has no room for what tests say of themselves (the fixture ``tell``).
    options = ["-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", f"--junitxml={report}"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if not report.exists():
        return Count(passed=0, wrong=[f"nothing was run: {(done.stdout + done.stderr)[-_LAST_WORDS:]}"])
    return counted(report.read_text(encoding="utf-8"))


def counted(report: str) -> Count:
    """Return what a report of pytest says. Pure.

    :param report: In the format of JUnit.
    """
    cases = list(ET.fromstring(report).iter("testcase"))  # noqa: S314  # pytest's own
    wrong = [sentence for case in cases if (sentence := _problem(case))]
    seconds = sum(float(case.get("time", 0)) for case in cases)
    if not cases:
        return Count(passed=0, wrong=["there is no such test"])
    return Count(passed=len(cases) - len(wrong), wrong=wrong, seconds=seconds)


def _problem(case: ET.Element) -> str:
    for kind in ("failure", "error", "skipped"):
        found = case.find(kind)
        if found is not None:
            said = (found.get("message") or "").partition("\n")[0]
            return f"{case.get('name')}: {kind}: {said}".replace("|", "/")
    return ""
