"""What keeps a query from being started, before Spark is asked for anything. pyspark's own side is stood in for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.format.layout import Progress, progress
from airflow_provider_ha.checkpoints.model import BatchEntry, QueryPlan, QuerySink, RestorePlan, SinkKind, Verdict
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.lifecycle import Lifecycle
from airflow_provider_ha.driver.origin import Origin, OriginKind
from airflow_provider_ha.driver.queries import QueryRegistry
from airflow_provider_ha.driver.query_start import QueryStarter, WriterCalls
from airflow_provider_ha.driver.start_ledger import StartLedger
from airflow_provider_ha.driver.writer_notes import notes
from airflow_provider_ha.errors import ApplicationRefusedError, RestoreRefusedError
from airflow_provider_ha.pointers.ownership import AdoptedCheckpoint
from tests.support.checkpoints.writer_helpers import writer_of


OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n0'


class Started:
    """pyspark's calls, and the handles that they returned."""

    def __init__(self) -> None:
        self.handles: list[SimpleNamespace] = []
        self.during_replay: Callable[[], None] = lambda: None

    def calls(self, directory: Path) -> WriterCalls:
        """Return calls that start a query which commits a batch at once."""

        def start(writer: Any, _: str | None) -> SimpleNamespace:
            name = notes(writer).name
            assert name is not None
            commit(directory / name)
            handle = SimpleNamespace(runId=len(self.handles), isActive=True, exception=lambda: None)
            thread = SimpleNamespace(isAlive=lambda: handle.isActive, join=lambda _: None)
            execution = SimpleNamespace(queryExecutionThread=lambda: thread)
            handle._jsq = SimpleNamespace(streamingQuery=lambda: execution)
            self.handles.append(handle)
            return handle

        def ignored(*_: Any, **__: Any) -> None:
            pass

        return WriterCalls(start, ignored, ignored, ignored, lambda _: self.during_replay())


def commit(directory: Path) -> None:
    """Commit the planned batch, or the next one."""
    (directory / "offsets").mkdir(parents=True, exist_ok=True)
    (directory / "commits").mkdir(exist_ok=True)
    now = progress(LocalTree(directory))
    batch = now.planned if now.in_flight else now.planned + 1
    (directory / "offsets" / str(batch)).write_text(OFFSETS)
    (directory / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


@pytest.fixture
def spark() -> Started:
    return Started()


def starter_of(
    spark: Started, directory: Path, lifecycle: Lifecycle, plan: RestorePlan | None = None, **allowed: bool
) -> QueryStarter:
    kind = OriginKind.RESTORE if plan else OriginKind.FRESH
    origin = Origin(kind, "live/e1-a", LocalTree(directory), directory.as_uri(), plan=plan)
    registry = QueryRegistry(SystemClock())
    ledger = StartLedger(LocalTree(directory))
    return QueryStarter(origin, registry, lifecycle, spark.calls(directory), ledger, **allowed)


def plan_of(query: str, *, replay: int = 0, adopted: bool = False) -> RestorePlan:
    place = AdoptedCheckpoint(path="/data/windows", query_id="id", planned=2, committed=2)
    entries = tuple(BatchEntry(batch=batch, offsets=OFFSETS) for batch in range(replay))
    return RestorePlan(
        job_id="j",
        source_job="j",
        source="path",
        source_id="s",
        directory="",
        verdict=Verdict.SAFE,
        queries={query: QueryPlan(batch=-1, sink=QuerySink(kind=SinkKind.OTHER), replay=entries)},
        age_seconds=0,
        created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        adopted={query: place} if adopted else {},
    )


def test_a_query_that_was_not_adopted_is_refused_before_it_starts(spark: Started, tmp_path: Path) -> None:
    """Its name was mistyped: it would begin from nothing, and write again what its checkpoint says it has written."""
    lifecycle = Lifecycle()
    starter = starter_of(spark, tmp_path, lifecycle, plan_of("windows", adopted=True))

    with pytest.raises(RestoreRefusedError, match="starts query 'window'"):
        starter.start(writer_of("window", tmp_path), None)

    assert spark.handles == []
    assert lifecycle.refusal is not None  # also when the script swallows the error


def test_a_query_that_has_ended_is_started_again_under_its_name(spark: Started, tmp_path: Path) -> None:
    starter = starter_of(spark, tmp_path, Lifecycle())
    starter.start(writer_of("q", tmp_path), None).isActive = False

    again = starter.start(writer_of("q", tmp_path), None)

    assert again is spark.handles[1]
    assert progress(LocalTree(tmp_path / "q")) == Progress(1, 1)


def test_batches_that_were_executed_again_are_not_the_first_of_the_epoch(spark: Started, tmp_path: Path) -> None:
    """They are in the sink already: the job works once the query has committed one after them."""
    starter = starter_of(spark, tmp_path, Lifecycle(), plan_of("q", replay=2))

    starter.start(writer_of("q", tmp_path), None)

    (query,) = starter._registry.started
    assert (query.committed_before, progress(LocalTree(tmp_path / "q")).committed) == (1, 2)


def test_a_query_that_runs_is_not_started_a_second_time(spark: Started, tmp_path: Path) -> None:
    starter = starter_of(spark, tmp_path, Lifecycle())
    starter.start(writer_of("q", tmp_path), None)

    with pytest.raises(ApplicationRefusedError, match="two streaming queries"):
        starter.start(writer_of("q", tmp_path), None)

    assert len(spark.handles) == 1


def test_a_query_is_not_started_again_while_its_last_batch_still_runs(
    spark: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark calls a query terminated as soon as it was asked to be."""
    monkeypatch.setattr("airflow_provider_ha.driver.stopper.ENDING_SECONDS", 0.0)
    starter = starter_of(spark, tmp_path, Lifecycle())
    handle = starter.start(writer_of("q", tmp_path), None)
    thread = handle._jsq.streamingQuery().queryExecutionThread()
    thread.isAlive = lambda: True
    handle.isActive = False

    with pytest.raises(ApplicationRefusedError, match="two streaming queries"):
        starter.start(writer_of("q", tmp_path), None)


def test_a_name_that_changes_with_every_start_is_refused_unless_it_is_allowed(spark: Started, tmp_path: Path) -> None:
    ledger = StartLedger(LocalTree(tmp_path))
    ledger.note("q_1", QuerySink(kind=SinkKind.OTHER))
    ledger.complete()

    with pytest.raises(ApplicationRefusedError, match="starts query 'q_2'"):
        starter_of(spark, tmp_path, Lifecycle()).start(writer_of("q_2", tmp_path), None)

    assert spark.handles == []
    starter_of(spark, tmp_path, Lifecycle(), allow_new=True).start(writer_of("q_2", tmp_path), None)
    assert len(spark.handles) == 1


def test_where_a_query_writes_is_noted_before_it_is_started(spark: Started, tmp_path: Path) -> None:
    starter = starter_of(spark, tmp_path, Lifecycle(), plan_of("q", replay=1))
    noted: list[Any] = []
    spark.during_replay = lambda: noted.append(StartLedger(LocalTree(tmp_path)).before.sinks["q"].format)

    starter.start(writer_of("q", tmp_path), None)

    assert noted == ["noop"]


def test_no_query_is_started_once_a_stop_is_under_way_and_the_script_is_over(spark: Started, tmp_path: Path) -> None:
    """An error that a script catches would be tried again, in a loop."""
    lifecycle = Lifecycle()
    starter = starter_of(spark, tmp_path, lifecycle)
    lifecycle.begin_stop()
    lifecycle.ended.set()

    with pytest.raises(SystemExit) as over:
        starter.start(writer_of("q", tmp_path), None)

    assert (over.value.code, spark.handles) == (0, [])
    assert StartLedger(LocalTree(tmp_path)).names == frozenset()


@pytest.mark.parametrize("replay", [1, 3])
def test_a_stop_waits_for_a_start_that_is_under_way_and_ends_its_replay_after_the_batch(
    spark: Started, tmp_path: Path, replay: int
) -> None:
    """Taken before the start and not looked at again, it let a query run while the lock was given back."""
    lifecycle = Lifecycle()
    starter = starter_of(spark, tmp_path, lifecycle, plan_of("q", replay=replay))
    over: list[bool] = []

    def stop() -> None:
        lifecycle.begin_stop()
        over.append(lifecycle.starts_are_over(0))
        lifecycle.ended.set()

    spark.during_replay = stop

    with pytest.raises(SystemExit):
        starter.start(writer_of("q", tmp_path), None)

    assert over == [False]
    assert lifecycle.starts_are_over(0)
    assert progress(LocalTree(tmp_path / "q")) == Progress(0, 0)
    assert starter._registry.started == ()


def test_a_query_with_a_relative_output_is_refused_before_it_starts(spark: Started, tmp_path: Path) -> None:
    writer = writer_of("q", tmp_path)
    notes(writer).sink = "json"
    lifecycle = Lifecycle()

    with pytest.raises(ApplicationRefusedError, match="query 'q' writes to the relative path 'out'"):
        starter_of(spark, tmp_path, lifecycle).start(writer, "out")

    assert spark.handles == []
    assert lifecycle.refusal is not None


def test_a_script_that_chooses_a_remote_master_is_refused(spark: Started, tmp_path: Path) -> None:
    starter = starter_of(spark, tmp_path, Lifecycle())

    with pytest.raises(ApplicationRefusedError, match="the Spark master is 'spark://host:7077'"):
        starter.start(writer_of("q", tmp_path, master="spark://host:7077"), None)

    assert spark.handles == []


def test_a_remote_master_that_is_allowed_by_name_is_taken(spark: Started, tmp_path: Path) -> None:
    starter = starter_of(spark, tmp_path, Lifecycle(), remote_allowed=True)

    starter.start(writer_of("q", tmp_path, master="spark://host:7077"), None)

    assert len(spark.handles) == 1
