"""Which batches a ``foreachBatch`` function gets again when its query starts. pyspark's own side is stood in for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import GivenBatches, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import RestorePlan
from airflow_provider_ha.checkpoints.sinks.unread_sinks import FOREACH_BATCH, ForeachBatchLog
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.context import DriverContext
from airflow_provider_ha.driver.ending.stop_job import NonEmptyBatchFunction
from airflow_provider_ha.driver.queries.checked_writer import check_writer
from airflow_provider_ha.driver.queries.writer_notes import notes
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import RestoreRefusedError
from tests.support.checkpoints.writer_helpers import writer_of
from tests.support.spark.started_queries import OFFSETS, Rows, Started, plan_of, starter_of


def leader(folder: Path, *, run: int = 1, epoch: int = 1) -> DriverContext:
    return DriverContext(
        "j", run, epoch, "", lambda: 5.0, lambda query: ForeachBatchLog(LocalTree(folder / "given" / query))
    )


def function_of(folder: Path, query: str = "q", *, run: int = 1, epoch: int = 1, repeatable: bool = False) -> Any:
    made: Any = leader(folder, run=run, epoch=epoch).fenced(lambda *_: None, repeatable=repeatable)
    made.belongs_to(query)
    return made


def writer(folder: Path, function: Any) -> Any:
    made = writer_of("q", folder)
    notes(made).sink, notes(made).function = FOREACH_BATCH, function
    return made


def in_flight(directory: Path, batch: int) -> None:
    """Plan batches up to one that is not committed."""
    for each in range(batch + 1):
        for log in ("offsets", *(["commits"] if each < batch else [])):
            (directory / log).mkdir(parents=True, exist_ok=True)
            (directory / log / str(each)).write_text(OFFSETS)


def plan(replay: int, *, given: GivenBatches | None = None, repeatable: bool = False) -> RestorePlan:
    made = plan_of("q", replay=replay)
    sink = QuerySink(kind=SinkKind.FOREACH_BATCH, format=FOREACH_BATCH, repeatable=repeatable)
    return made.model_copy(
        update={"queries": {"q": made.queries["q"].model_copy(update={"sink": sink, "given": given})}}
    )


def into(folder: Path, function: Any, made: RestorePlan | None = None, **options: Any) -> list[tuple[int, str]]:
    """Return the batches that are executed before the query starts, and into which sink."""
    starter = starter_of(Started(), folder, Lifecycle(), made, **options)
    checked = check_writer(writer(folder, function), None, folder.as_uri(), frozenset())
    return [(step.batch, step.into) for step in starter._prepare(checked, LocalTree(folder / "q"))]


def test_a_recovery_discards_the_batch_in_flight_that_the_function_has_finished(tmp_path: Path) -> None:
    function_of(tmp_path)(None, 2)
    in_flight(tmp_path / "q", 2)

    assert into(tmp_path, function_of(tmp_path, epoch=2)) == [(2, "noop")]


def test_a_recovery_gives_the_batch_in_flight_that_the_function_has_begun_again(tmp_path: Path) -> None:
    function_of(tmp_path)(None, 1)
    ForeachBatchLog(LocalTree(tmp_path / "given" / "q")).begin(1, 2)
    in_flight(tmp_path / "q", 2)

    assert into(tmp_path, function_of(tmp_path, epoch=2)) == []  # Spark itself gives it


def test_a_batch_of_that_number_which_another_run_has_finished_is_another_batch(tmp_path: Path) -> None:
    function_of(tmp_path, run=1)(None, 9)
    in_flight(tmp_path / "q", 2)

    assert into(tmp_path, function_of(tmp_path, run=2, epoch=2)) == []


def test_a_repeatable_function_gets_what_it_has_finished(tmp_path: Path) -> None:
    function_of(tmp_path)(None, 2)
    in_flight(tmp_path / "q", 2)

    assert into(tmp_path, function_of(tmp_path, epoch=2, repeatable=True)) == []
    assert into(tmp_path, function_of(tmp_path, epoch=3), repeatable=("q",)) == []


def test_a_restore_discards_what_its_plan_knows_to_be_finished(tmp_path: Path) -> None:
    made = plan(3, given=GivenBatches(begun=2, finished=1))

    for function in (function_of(tmp_path, run=2), lambda *_: None):  # also when the script fences it no more
        assert into(tmp_path, function, made) == [(0, "noop"), (1, "noop"), (2, "sink")]


def test_a_restore_that_was_planned_for_a_repeatable_function_needs_one(tmp_path: Path) -> None:
    made = plan(2, repeatable=True)

    with pytest.raises(RestoreRefusedError, match="'q' was planned for a function that is declared repeatable"):
        into(tmp_path, lambda *_: None, made)

    for options in ({"repeatable": ("q",)}, {"accept_duplicates": True}):
        assert into(tmp_path, lambda *_: None, made, **options) == [(0, "sink"), (1, "sink")]
    assert into(tmp_path, function_of(tmp_path, repeatable=True), made) == [(0, "sink"), (1, "sink")]


def test_the_batch_of_a_drain_is_not_finished(tmp_path: Path) -> None:
    """The next run executes other rows under its number: discarded, they would be lost."""
    function = function_of(tmp_path)
    function(None, 1)

    NonEmptyBatchFunction(function)(Rows(3), 2)

    note = ForeachBatchLog(LocalTree(tmp_path / "given" / "q")).epochs()[1]
    assert (note.begun, note.finished, function.finished()) == (2, 1, 1)
