"""The numbers of tests of each target, in CONTRIBUTING and README."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
CONTRIBUTING, README = ROOT / "CONTRIBUTING.md", ROOT / "README.md"
TARGETS = ("make test", "make test-long", "make proof SUITE=tests")
PLUGIN = """
import json

def pytest_collection_finish(session):
    marks = lambda item: {mark.name for mark in item.iter_markers()}
    print("COUNTED" + json.dumps([[item.nodeid.partition("[")[0], sorted(marks(item))] for item in session.items]))
"""


def target(marks: set[str]) -> int:
    """Return the position of the target that runs a test."""
    return 2 if "hours" in marks else 1 if marks & {"long", "system"} else 0


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, int]]:
    """Test functions of each target, and those with a real Spark; of parameters in two targets, the first counts."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "counted.py").write_text(PLUGIN)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "counted", "-p", "no:cacheprovider"],
        env=os.environ | {"PYTHONPATH": str(folder)},
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("COUNTED")]
    first: dict[str, tuple[int, bool]] = {}
    for name, marks in json.loads(line.removeprefix("COUNTED")):
        here = (target(set(marks)), "spark" in marks)
        first[name] = min(first.get(name, here), here)
    found = list(first.values())
    return [
        (sum(at == number for at, _ in found), sum(at == number and spark for at, spark in found))
        for number in range(len(TARGETS))
    ]


def is_about(stated: str, counted: int) -> bool:
    """Whether a number on a page is the counted one, or a rounder one below it."""
    number = int(stated.replace(",", ""))
    return 0.9 * counted <= number <= counted


@pytest.mark.long
@pytest.mark.timeout(600)
def test_contributing_counts_the_tests_of_each_target(counts: list[tuple[int, int]]) -> None:
    text = CONTRIBUTING.read_text(encoding="utf-8")

    for name, (tests, spark) in zip(TARGETS, counts, strict=True):
        row = re.search(rf"^\| `{re.escape(name)}` \| ([\d,]+) \| (\d+) \|", text, re.MULTILINE)
        assert row is not None
        assert is_about(row[1], tests), (name, tests)
        assert is_about(row[2], spark), (name, spark)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_first_page_counts_the_functions_with_a_real_spark(counts: list[tuple[int, int]]) -> None:
    text = " ".join(README.read_text(encoding="utf-8").split())
    found = re.search(r"more than ([\d,]+) test functions, ([\d,]+) of them with a real Spark", text)

    assert found is not None
    assert is_about(found[1], counts[0][0]), counts[0]
    assert is_about(found[2], counts[0][1]), counts[0]
