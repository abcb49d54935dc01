"""What the proof of the stores counts, what it calls untrue, and what it does again."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.stores import proof
from lab.stores.counted import ROOT, Count, counted
from lab.stores.promises import PROMISES, Promise, Server
from lab.stores.proof import Done, Progress, Stores


EXCLUSIVE = Promise("one wins", {Server.S3: ("a::s3",), Server.HDFS: ("a::hdfs", "b::hdfs")})
ON_S3, ON_HDFS = EXCLUSIVE.cells


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The tests that are run; the second one on HDFS fails."""
    asked: list[Sequence[str]] = []

    def run(tests: Sequence[str], _: Path) -> Count:
        asked.append(tests)
        return Count(passed=1, wrong=["b: failure: two have won"] if len(tests) > 1 else [])

    monkeypatch.setattr(proof, "run", run)
    return asked


def test_a_cell_that_held_is_not_run_again_and_one_that_did_not_is(tmp_path: Path, ran: list[Sequence[str]]) -> None:
    for _ in range(2):
        found = Stores([EXCLUSIVE]).run(tmp_path, lambda _: None)

    assert ran == [("a::s3",), ("a::hdfs", "b::hdfs"), ("a::hdfs", "b::hdfs")]
    assert found.rows == [("one wins", "\u2013", "1 of 1", "1 of 2")]
    assert found.untrue == [f"{ON_HDFS}: b: failure: two have won"]


@pytest.mark.usefixtures("ran")
def test_what_was_not_begun_in_its_time_is_named(tmp_path: Path) -> None:
    held = Progress(cells={ON_S3: Done(commit="abc", outcome=Count(passed=1))})
    (tmp_path / "progress.json").write_text(held.model_dump_json())

    found = Stores([EXCLUSIVE], sitting=-1).run(tmp_path, lambda _: None)

    assert found.rows == [("one wins", "\u2013", "1 of 1", "not run yet")]
    assert f"**Not run yet:** {ON_HDFS}." in found.remark
    assert "Commit abc." in found.remark


def test_only_what_passed_has_held() -> None:
    report = """<testsuites><testsuite>
    <testcase name="held" time="1.5"/>
    <testcase name="failed" time="2"><failure message="assert 1 == 2&#10;more"/></testcase>
    <testcase name="left_out" time="0"><skipped message="no jars"/></testcase>
    </testsuite></testsuites>"""

    found = counted(report)

    assert (found.passed, found.seconds) == (1, 3.5)
    assert found.wrong == ["failed: failure: assert 1 == 2", "left_out: skipped: no jars"]


def test_a_report_without_a_test_shows_nothing() -> None:
    assert counted("<testsuites><testsuite/></testsuites>").wrong == ["there is no such test"]


@pytest.mark.parametrize(
    "test", sorted({test for promise in PROMISES for each in promise.cells.values() for test in each})
)
def test_every_test_of_a_promise_exists(test: str) -> None:
    file, _, name = test.partition("::")
    defined = {
        node.name
        for node in ast.parse((ROOT / file).read_text()).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }

    assert name.partition("[")[0] in defined


def test_every_server_shows_what_takeovers_rely_on() -> None:
    assert all(set(promise.shown) == set(Server) for promise in PROMISES if promise.text.startswith("Of several"))
