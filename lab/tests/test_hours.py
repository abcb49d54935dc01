"""``make proof SUITE=tests``: what it runs, runs again, keeps and calls untrue, with a real pytest on tiny tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.testing.waiting import wait_until
from lab.hours import HourTests
from lab.suite import Proof
from lab.tests.tiny_tests import Clone


pytestmark = pytest.mark.long

GOOD = """
@pytest.mark.parametrize("case", ["a b", "c::d"])
def test_good(case):
    ran("good")
"""
BAD = """
def test_holds():
    ran("holds")

class TestInside:
    def test_bad(self):
        ran("bad")
        assert (HERE / "repaired").exists()
"""
HALF_BROKEN = f"""
{GOOD}
class TestBroken:
    @pytest.mark.parametrize("unknown", [1])
    def test_broken(self):
        pass
"""
BLOCKED = """
def test_first():
    ran("first")

def block():
    (HERE / "pid").write_text(str(os.getpid()))
    threading.Event().wait(100)

@pytest.fixture
def server():
    try:
        yield
        PLACE == "fixture" and block()
    finally:
        (HERE / "ended").touch()

def test_second(server):
    PLACE == "test" and block()

def test_third():
    ran("third")
"""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    monkeypatch.setenv("HOURS_TEST", str(tmp_path))
    # Without the plugins of the project pytest starts in a third of the time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")
    return Clone.make(tmp_path)


def counts(proof: Proof) -> list[tuple[str, ...]]:
    """Return the rows without minutes, commits and dates."""
    assert proof.columns[5:] == ("minutes", "commit", "last run")
    return [tuple(row[:5]) for row in proof.rows]


def test_failed_tests_are_named_and_they_alone_run_again(clone: Clone) -> None:
    clone.add("test_a_good.py", GOOD)
    clone.add("test_b_bad.py", BAD)

    proof = clone.run()

    assert counts(proof) == [
        ("tests/test_a_good.py", "2", "2", "0", "0"),
        ("tests/test_b_bad.py", "2", "1", "1", "0"),
        ("all", "4", "3", "1", "0"),
    ]
    log = clone.folder / "logs" / "tests.test_b_bad.log"
    assert proof.untrue == [f"`tests/test_b_bad.py::TestInside::test_bad` failed, see `{log}`."]
    assert "assert (HERE" in log.read_text()
    assert clone.told == [
        "tests/test_a_good.py: runs 2 of 2 tests",
        "tests/test_a_good.py: 2 passed, 0 failed, 0 skipped, 0.0 minutes",
        "tests/test_b_bad.py: runs 2 of 2 tests",
        "tests/test_b_bad.py: 1 passed, 1 failed, 0 skipped, 0.0 minutes",
    ]
    assert clone.ran() == ["good", "good", "holds", "bad"]

    (clone.place / "repaired").touch()
    again = clone.run()

    assert clone.ran() == ["bad"]
    assert (counts(again)[-1], again.untrue) == (("all", "4", "4", "0", "0"), [])


def test_a_run_continues_after_an_interruption_between_files(clone: Clone) -> None:
    clone.add("test_a_good.py", GOOD)
    clone.add("test_b_also.py", GOOD.replace('ran("good")', 'ran("also")'))
    clone.stop_at = "tests/test_b_also.py: runs"

    with pytest.raises(KeyboardInterrupt):
        clone.run()
    assert clone.ran() == ["good", "good"]
    clone.stop_at = "-"
    proof = clone.run()

    assert clone.ran() == ["also", "also"]
    assert (counts(proof)[-1], proof.untrue) == (("all", "4", "4", "0", "0"), [])


def test_results_show_their_commit_and_outlive_the_folder_of_the_proof(clone: Clone) -> None:
    clone.add("test_a_good.py", GOOD)
    first = clone.commit()
    clone.run()
    assert clone.ran() == ["good", "good"]
    shutil.rmtree(clone.folder)
    clone.folder.mkdir()

    clone.add("test_b_also.py", GOOD.replace('ran("good")', 'ran("also")'))
    second = clone.commit()
    proof = clone.run()

    assert clone.ran() == ["also", "also"]
    assert [row[6] for row in proof.rows] == [first, second, f"{first}, {second}"]
    assert {row[7] for row in proof.rows} == {datetime.now(timezone.utc).date().isoformat()}


def test_a_commit_with_changed_files_is_marked(clone: Clone) -> None:
    clone.add("test_a_good.py", GOOD)
    at = clone.commit()
    (clone.root / "source.py").touch()

    assert [row[6] for row in clone.run().rows] == [f"{at}+"] * 2


def test_forgotten_results_are_run_again(clone: Clone) -> None:
    clone.add("test_a_good.py", GOOD)
    clone.run()
    clone.ran()

    HourTests(clone.root).forget()
    clone.run()

    assert clone.ran() == ["good", "good"]


def test_tests_that_a_sitting_has_no_time_for_are_untrue_and_come_first_in_the_next_one(clone: Clone) -> None:
    clone.add("test_a_bad.py", BAD)
    clone.run()
    clone.ran()
    clone.add("test_b_good.py", GOOD)

    proof = HourTests(clone.root, seconds=0).run(clone.folder, print)

    assert counts(proof)[1:] == [("tests/test_b_good.py", "2", "0", "0", "0"), ("all", "4", "1", "1", "0")]
    assert proof.rows[1][6:] == ("none", "never")
    assert proof.untrue[0] == "2 of 4 tests have not run yet; the next sitting begins with them."

    clone.run()
    assert clone.ran() == ["good", "good", "bad"]


def test_files_without_a_test_that_ran_are_untrue(clone: Clone) -> None:
    clone.add("test_a_broken.py", "import not_there\n" + GOOD)
    clone.add("test_a_half.py", HALF_BROKEN)
    clone.add("test_b_dies.py", GOOD + "    os._exit(0)\n")
    clone.add("test_c_none.py", "")
    clone.add("test_d_skipped.py", 'def test_left_out():\n    pytest.skip("no server")\n')
    clone.add("test_e_good.py", GOOD)

    proof = clone.run()

    logs = clone.folder / "logs"
    uncollected = f"cannot be collected, or no test of it has the marker, see `{logs / 'collection.log'}`."
    assert proof.untrue == [
        f"`tests/test_a_broken.py` {uncollected}",
        f"`tests/test_a_half.py` {uncollected}",
        f"`tests/test_c_none.py` {uncollected}",
        f"`tests/test_b_dies.py::test_good[a b]` failed, see `{logs / 'tests.test_b_dies.log'}`.",
        f"`tests/test_b_dies.py::test_good[c::d]` failed, see `{logs / 'tests.test_b_dies.log'}`.",
        f"Every test of `tests/test_d_skipped.py` was skipped, see `{logs / 'tests.test_d_skipped.log'}`.",
    ]
    assert counts(proof) == [
        ("tests/test_a_broken.py", "0", "0", "0", "0"),
        ("tests/test_a_half.py", "0", "0", "0", "0"),
        ("tests/test_b_dies.py", "2", "0", "2", "0"),
        ("tests/test_c_none.py", "0", "0", "0", "0"),
        ("tests/test_d_skipped.py", "1", "0", "0", "1"),
        ("tests/test_e_good.py", "2", "2", "0", "0"),
        ("all", "5", "2", "2", "1"),
    ]
    assert "not_there" in (logs / "collection.log").read_text()


def test_without_a_marked_test_nothing_is_shown(clone: Clone) -> None:
    (clone.root / "tests" / "test_other.py").write_text("def test_other(): pass\n", encoding="utf-8")

    proof = clone.run()

    assert proof.untrue == ["No test carries the marker `hours`."]
    assert counts(proof) == [("all", "0", "0", "0", "0")]


PROGRAM = """
import sys
from pathlib import Path
from lab import run

place = Path(sys.argv[1])
run.SUITES, run.PAGE = (run.HourTests(place / "clone"),), place / "page.md"
sys.exit(run.main(["tests", "--folder", str(place)]))
"""


@pytest.mark.parametrize("place", ["test", "fixture"])
def test_a_signal_ends_the_test_and_keeps_what_passed(clone: Clone, place: str) -> None:
    clone.add("test_blocked.py", BLOCKED.replace("PLACE", repr(place)))
    pid, root = clone.place / "pid", Path(__file__).parents[2]
    # As a shell does with what it starts in the background.
    ignoring = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-c", PROGRAM, str(clone.place)]
    with subprocess.Popen(ignoring, cwd=root, env=os.environ) as proving:
        wait_until(lambda: pid.exists() and pid.read_text(), timeout=60, what="the second test")
        test = int(pid.read_text())
        proving.send_signal(signal.SIGTERM)

        assert proving.wait(50) == 130

    assert not psutil.pid_exists(test)
    assert (clone.place / "ended").exists()
    assert clone.ran() == ["first"]
    ended = json.loads((clone.root / "lab" / "hours.json").read_text())["ended"]
    assert [(name, how["outcome"]) for name, how in ended.items()] == [("tests/test_blocked.py::test_first", "passed")]
