"""What the proof of kills calls untrue, and how it compares what the job wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.kills import SCHEDULER, Kill, Progress, untrue
from tests.system.harness.first_dag import Output


def kill(**found: object) -> Kill:
    """Return a kill that everything survived, but for what is given."""
    values = {"kind": SCHEDULER, "seconds": 30.0, "drivers": 1, "dag_run": "running"}
    return Kill.model_validate(values | found)


def written(folder: Path, *values: int) -> Output:
    """Return an output of one file, with the sink's log."""
    (folder / "_spark_metadata").mkdir(parents=True)
    part = folder / "part-0.json"
    part.write_text("".join(f"{json.dumps({'value': value})}\n" for value in values), encoding="utf-8")
    entry = json.dumps({"path": part.as_uri(), "action": "add"})
    (folder / "_spark_metadata" / "0").write_text(f"v1\n{entry}\n", encoding="utf-8")
    return Output(folder)


def test_a_job_that_recovers_in_time_causes_no_remark() -> None:
    assert untrue(Progress(kills=[kill(), kill(seconds=59.9)])) == []


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"seconds": 61.0}, "the next commit took 61 s"),
        ({"drivers": 2}, "2 drivers were alive at once"),
        ({"dag_run": "failed"}, "the DAG run had failed"),
    ],
)
def test_what_a_kill_has_cost_is_named(found: dict[str, object], sentence: str) -> None:
    [said] = untrue(Progress(kills=[kill(**found)]))

    assert said == f"After kill 1 ({SCHEDULER}) {sentence}."


def test_numbers_that_are_each_there_once_are_right(tmp_path: Path) -> None:
    assert written(tmp_path, 0, 1, 2).compare() == (3, [])


def test_lost_and_duplicated_numbers_are_counted(tmp_path: Path) -> None:
    assert written(tmp_path, 0, 1, 1, 3).compare() == (4, ["1 rows are duplicated.", "1 rows are lost."])


def test_an_output_without_a_row_is_wrong(tmp_path: Path) -> None:
    assert written(tmp_path).compare() == (0, ["Nothing was written."])
