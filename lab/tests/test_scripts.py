"""Third-party scripts under a driver: what counts as a difference, and what of it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.scripts.cases import CASES, SPARK, Case
from lab.scripts.play import Outcome, Seen, only, wrong
from lab.scripts.proof import Done, remark, row


SCRIPT = Case("owner/name", "app.py", shown="Batch: 1")
REFUSED = Case("owner/name", "other.py", refused="relative path", why="another directory in every attempt")
RUNS_ON = Seen("runs on", "Batch: 1\n| apache| 2|\n", frozenset())
FINISHED = Seen("FINISHED: suspended", RUNS_ON.text, frozenset())


def judged(case: Case, plain: Seen, managed: Seen) -> list[str]:
    return list(wrong(case, plain, managed, only(managed.text, plain.text, "driver")))


def test_the_scripts_of_spark_are_those_of_the_installed_release() -> None:
    assert all(case.file(Path()).is_file() for case in CASES if case.origin == SPARK)
    assert len({case.name for case in CASES}) == len(CASES) >= 20


@pytest.mark.parametrize(
    "line",
    [
        "| apache| 3|",
        "26/11/28 03:50:01 WARN ProcessingTimeExecutor: Current batch is falling behind",
        "2026-11-28 03:50:01,123 INFO airflow_provider_ha.driver.checkpointing.publisher: checkpoint 1",
        "\tat org.apache.spark.sql.Dataset.show(Dataset.scala:1)",
    ],
)
def test_numbers_late_batches_and_the_log_of_the_driver_are_no_difference(line: str) -> None:
    assert only(f"{RUNS_ON.text}{line}\n", RUNS_ON.text, "driver") == []


@pytest.mark.parametrize(
    ("line", "difference"),
    [("ready", "driver alone: ready"), ("26/11/28 03:50:01 WARN Shell: interrupted", "driver alone: WARN Shell")],
)
def test_a_line_or_a_logger_of_one_side_is_a_difference(line: str, difference: str) -> None:
    assert only(f"{RUNS_ON.text}{line}\n", RUNS_ON.text, "driver") == [difference]


def test_a_script_that_shows_the_same_and_is_stopped_holds() -> None:
    assert judged(SCRIPT, RUNS_ON, FINISHED) == []


@pytest.mark.parametrize(
    ("managed", "sentence"),
    [
        (Seen("FAILED: no", RUNS_ON.text, frozenset()), "its run ends FAILED: no"),
        (Seen("FINISHED: ", "", frozenset()), "under a driver it does not print 'Batch: 1': FINISHED: "),
        (Seen("FINISHED: ", f"{RUNS_ON.text}ready\n", frozenset()), "what it prints differs: driver alone: ready"),
    ],
)
def test_another_end_or_another_line_does_not_hold(managed: Seen, sentence: str) -> None:
    assert judged(SCRIPT, RUNS_ON, managed) == [sentence]


def test_a_refusal_holds_with_its_reason_only() -> None:
    said = Seen("FAILED: the script reads a stream from the relative path 'in'", "", frozenset())

    assert judged(REFUSED, RUNS_ON, said) == []
    assert judged(REFUSED, RUNS_ON, FINISHED) == ["it is not refused with 'relative path': FINISHED: suspended"]


def test_the_page_has_the_lines_that_differ_and_the_variables() -> None:
    outcome = Outcome(
        seconds=1.0,
        wrong=[],
        plain="runs on",
        managed="FINISHED: a",
        differences=["|"],
        variables=["+SPARK_HOME", "-X"],
    )
    done = Done(commit="abc", outcome=outcome)

    assert row(SCRIPT, done) == ("owner/name: `app.py`", "runs on", "FINISHED: a", "`\\|`", "-")
    said = remark({SCRIPT.name: done}, ["later.py"])
    assert "Variables that only a driver has: `SPARK_HOME`" in said
    assert "**Not run yet:** later.py" in said
