"""How Spark's answers are read, and how they are compared with verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.verdicts.answers import Line, outcome, read, short, write
from lab.verdicts.cases import cases, damages
from lab.verdicts.known import Known, judged


def start(*keys: str, error: str | None = None) -> dict[str, Any]:
    """Return one start that says some rows, or fails."""
    return {"error": error, "rows": [{"key": key} for key in keys]}


def line(spark: str = "right", verdict: str = "yes") -> Line:
    """Return a case that was answered."""
    return Line("4.2.0", "hdfs", "metadata removed", "00", spark, verdict, "")


CONTROL = {"starts": [start("a", "b"), start("c")]}


@pytest.mark.parametrize(
    ("starts", "same_id", "said"),
    [
        ([start("b", "a"), start("c")], True, "right"),
        ([start("a", "b")], True, "right"),
        ([start("a", "b"), start("d")], True, "wrong at start 2"),
        ([start("a", "a", "b")], True, "wrong at start 1"),
        ([start("a", "b"), start(error="[SOME_CLASS] no")], True, "failed at start 2: [SOME_CLASS] no"),
        ([start("a", "b"), start("c")], False, "another query id"),
    ],
)
def test_an_answer_is_right_if_every_start_equals_a_start_of_the_whole_checkpoint(
    starts: list[dict[str, Any]], same_id: bool, said: str
) -> None:
    assert outcome({"starts": starts, "same_id": same_id}, CONTROL) == said


def test_the_words_of_an_error_that_differ_from_run_to_run_are_left_out() -> None:
    error = "[STREAM_FAILED] Query [id = 1] terminated with exception: Failed to read file:/x/scratch/17/offsets/3 now"

    assert short(error) == "Failed to read offsets/3 now"


@pytest.mark.parametrize(
    ("spark", "verdict", "agreement"),
    [
        ("right", "yes", "agree"),
        ("failed at start 1: x", "no", "agree"),
        ("another query id", "yes", "missed"),
        ("wrong at start 2", "yes", "missed"),
        ("right", "no", "false alarm"),
        ("right", "unknown", "unknown"),
        ("wrong at start 1", "unknown", "unknown"),
    ],
)
def test_a_verdict_agrees_if_it_predicts_spark(spark: str, verdict: str, agreement: str) -> None:
    assert line(spark, verdict).agreement == agreement


def test_kept_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    lines = [line(), line("wrong at start 1", "no")]

    write(lines, tmp_path)

    assert read(tmp_path) == lines


def test_a_disagreement_without_a_reason_is_named() -> None:
    result = judged([line("right", "no")], [])

    assert result.unexplained == (line("right", "no"),)


def test_a_false_alarm_with_a_reason_is_cautious() -> None:
    reason = Known(("4.? hdfs: metadata*", "4.2.0 hdfs: metadata*"), "cautious", "because")

    result = judged([line("right", "no")], [reason])

    assert (result.kinds, result.unexplained, result.idle) == (("cautious",), (), ())


def test_a_reason_that_explains_nothing_is_named() -> None:
    reason = Known(("*",), "missed", "because")

    assert judged([line()], [reason]).idle == (reason,)


def test_every_case_has_one_name_and_a_control() -> None:
    every = cases()
    names = {(case.release, case.shape, case.damage.name) for case in every}

    assert len(names) == len(every)
    assert [case.name for case in every if (case.release, case.shape, case.damage.control) not in names] == []


def test_a_control_is_started_as_often_as_its_damaged_checkpoint() -> None:
    starts = {(case.release, case.shape, case.damage.name): case.damage.starts for case in cases()}

    few = [case.name for case in cases() if starts[case.release, case.shape, case.damage.control] < case.damage.starts]

    assert few == []


def test_there_are_more_than_forty_kinds_of_damage() -> None:
    assert len({damage.name for damage in damages()}) > 40


def test_a_pattern_chooses_cases_with_their_controls() -> None:
    chosen = cases(["4.2.0 hdfs: metadata removed"])

    assert [case.name for case in chosen] == ["4.2.0 hdfs: whole, rewound 0, open 0", "4.2.0 hdfs: metadata removed"]
