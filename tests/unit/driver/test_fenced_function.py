"""A fenced ``foreachBatch`` function: what it refuses, and what it leaves behind for a restore."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchLog, summary
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.context import DriverContext, FencedFunction
from airflow_provider_ha.errors import ApplicationRefusedError, JobStateError, LeadershipLostError


def context(folder: Path, *, epoch: int = 3, lease: float = 5.0) -> DriverContext:
    return DriverContext(
        job_id="job",
        run=1,
        epoch=epoch,
        restored_from="",
        lease_left=lambda: lease,
        given=lambda query: ForeachBatchLog(LocalTree(folder / query)),
    )


def fenced(leader: DriverContext, function: Any, query: str = "q") -> FencedFunction:
    made = leader.fenced(function)
    assert isinstance(made, FencedFunction)
    made.belongs_to(query)
    return made


def test_a_batch_is_noted_before_the_function_sees_it_and_after_it_has_returned(tmp_path: Path) -> None:
    seen = []
    function = fenced(
        context(tmp_path), lambda _, batch: seen.append(ForeachBatchLog(LocalTree(tmp_path / "q")).epochs()[3])
    )

    function(None, 7)

    after = ForeachBatchLog(LocalTree(tmp_path / "q")).epochs()[3]
    assert [(note.begun, note.finished) for note in (*seen, after)] == [(7, -1), (7, 7)]


def test_a_function_that_fails_has_begun_and_not_finished(tmp_path: Path) -> None:
    function = fenced(context(tmp_path), lambda _, batch: 1 / (batch - 8))
    function(None, 7)

    with pytest.raises(ZeroDivisionError):
        function(None, 8)

    given = summary(ForeachBatchLog(LocalTree(tmp_path / "q")).epochs())
    assert given is not None
    assert (given.begun, given.finished) == (8, 7)


def test_a_replay_does_not_take_back_what_was_given(tmp_path: Path) -> None:
    function = fenced(context(tmp_path), lambda *_: None)

    for batch in (7, 8, 6):
        function(None, batch)

    assert ForeachBatchLog(LocalTree(tmp_path / "q")).epochs()[3].begun == 8


def test_without_a_lease_nothing_is_noted_and_nothing_is_called(tmp_path: Path) -> None:
    called = []
    function = fenced(context(tmp_path, lease=0.0), lambda _, batch: called.append(batch))

    with pytest.raises(LeadershipLostError, match="epoch 3"):
        function(None, 7)

    assert called == []
    assert ForeachBatchLog(LocalTree(tmp_path / "q")).epochs()[3].begun == -1


def test_an_epoch_keeps_notes_from_its_start_and_touches_no_other_epochs(tmp_path: Path) -> None:
    fenced(context(tmp_path, epoch=3), lambda *_: None)(None, 9)

    fenced(context(tmp_path, epoch=4), lambda *_: None)

    notes = ForeachBatchLog(LocalTree(tmp_path / "q")).epochs()
    assert {epoch: note.begun for epoch, note in notes.items()} == {3: 9, 4: -1}


def test_one_fenced_function_is_that_of_one_query(tmp_path: Path) -> None:
    function = fenced(context(tmp_path), lambda *_: None, query="a")
    function.belongs_to("a")

    with pytest.raises(ApplicationRefusedError, match="'a' and 'b' share one fenced function"):
        function.belongs_to("b")


def test_a_query_without_a_fenced_function_has_no_notes(tmp_path: Path) -> None:
    assert summary(ForeachBatchLog(LocalTree(tmp_path / "q")).epochs()) is None


def test_a_query_has_the_id_of_its_past_once_it_is_started(tmp_path: Path) -> None:
    ids: dict[str, str] = {}
    leader = replace(context(tmp_path), past=ids.get)

    with pytest.raises(JobStateError, match="query 'q' of job 'job' has no id before it is started"):
        leader.query_id("q")

    ids["q"] = "an-id"
    assert leader.query_id("q") == "an-id"
    ids["Flattened~20Orders"] = "another-id"
    assert leader.query_id("Flattened Orders") == "another-id"
