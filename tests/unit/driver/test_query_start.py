"""What keeps a query from being started, before Spark is asked for anything. pyspark's own side is stood in for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.foreach_batch import ForeachBatchLog
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.context import DriverContext
from airflow_provider_ha.driver.queries.query_naming import StartLedger
from airflow_provider_ha.driver.queries.writer_notes import notes
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import ApplicationRefusedError, JobStateError, RestoreRefusedError
from tests.support.checkpoints.writer_helpers import writer_of
from tests.support.spark.started_queries import Started, commit, file_writer, plan_of, starter_of


def test_a_query_that_was_not_adopted_is_refused_before_it_starts(spark: Started, tmp_path: Path) -> None:
    """Its name was mistyped: it would begin from nothing, and write again what its checkpoint says it has written."""
    lifecycle = Lifecycle()
    starter = starter_of(spark, tmp_path, lifecycle, plan_of("windows", adopted=True))

    with pytest.raises(RestoreRefusedError, match="starts query 'window'"):
        starter.start(writer_of("window", tmp_path), None)

    assert spark.handles == []
    assert lifecycle.refusal is not None  # also when the script swallows the error


class Refusing:
    """A component that refuses a session, or the query that was started."""

    def __init__(self, what: str) -> None:
        self._what = what

    def check_session(self, _: Any) -> None:
        if self._what == "session":
            raise ApplicationRefusedError("another manager")

    def check_query(self, handle: Any, _: str) -> None:
        if self._what == "query":
            handle.isActive = False
            raise ApplicationRefusedError("another manager")


def test_a_session_that_the_component_refuses_starts_nothing(spark: Started, tmp_path: Path) -> None:
    lifecycle = Lifecycle()
    starter = starter_of(spark, tmp_path, lifecycle, component=Refusing("session"))

    with pytest.raises(ApplicationRefusedError, match="another manager"):
        starter.start(writer_of("q", tmp_path), None)

    assert spark.handles == []
    assert lifecycle.refusal is not None


def test_a_query_that_the_component_refuses_is_no_query_of_the_job(spark: Started, tmp_path: Path) -> None:
    lifecycle = Lifecycle()
    starter = starter_of(spark, tmp_path, lifecycle, component=Refusing("query"))

    with pytest.raises(ApplicationRefusedError, match="another manager"):
        starter.start(writer_of("q", tmp_path), None)

    assert starter._registry.started == ()
    assert lifecycle.refusal is not None


def test_the_component_knows_what_the_sink_has_before_the_query_starts(spark: Started, tmp_path: Path) -> None:
    """A request of the lost driver may still be on its way into the sink's log."""
    order: list[tuple[str, int, int]] = []

    class Watching(Refusing):
        def watch_sink(self, output: str, reached: int) -> None:
            order.append((output, reached, len(spark.handles)))

    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    (log / "0").write_bytes(b"v1")
    commit(tmp_path / "q")
    starter = starter_of(spark, tmp_path, Lifecycle(), component=Watching("nothing"))

    starter.start(file_writer("q", tmp_path, f"{tmp_path}/out"), None)
    starter.start(writer_of("other", tmp_path), None)

    assert order == [(f"{tmp_path}/out", 0, 0)]


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
    monkeypatch.setattr("airflow_provider_ha.driver.queries.query_stop.ENDING_SECONDS", 0.0)
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


def test_a_script_that_chooses_a_remote_master_is_refused(spark: Started, tmp_path: Path) -> None:
    starter = starter_of(spark, tmp_path, Lifecycle())

    with pytest.raises(ApplicationRefusedError, match="the Spark master is 'spark://host:7077'"):
        starter.start(writer_of("q", tmp_path, master="spark://host:7077"), None)

    assert spark.handles == []


def test_a_remote_master_that_is_allowed_by_name_is_taken(spark: Started, tmp_path: Path) -> None:
    starter = starter_of(spark, tmp_path, Lifecycle(), remote_allowed=True)

    starter.start(writer_of("q", tmp_path, master="spark://host:7077"), None)

    assert len(spark.handles) == 1


def test_a_replay_that_does_not_end_at_its_batch_is_refused(
    spark: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starter = starter_of(spark, tmp_path, Lifecycle(), plan_of("windows", replay=1))
    spark.during_replay = lambda: commit(tmp_path / "windows")  # one batch more than was recorded

    with pytest.raises(RestoreRefusedError, match=r"after batch 0 was executed again.*older checkpoint"):
        starter.start(writer_of("windows", tmp_path), None)


def test_a_query_that_failed_while_another_one_replayed_is_not_forgotten(
    spark: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark forgets all failures when it is told to forget the runs of a replay."""
    starter = starter_of(spark, tmp_path, Lifecycle(), plan_of("windows", replay=1))
    monkeypatch.setattr(starter._registry, "failure", lambda: "query 'other' failed")

    with pytest.raises(JobStateError, match="query 'other' failed"):
        starter.start(writer_of("windows", tmp_path), None)


def test_a_fenced_function_learns_whose_batches_it_is_given(spark: Started, tmp_path: Path) -> None:
    leader = DriverContext(
        "j", 1, 1, "", lambda: 5.0, lambda query: ForeachBatchLog(LocalTree(tmp_path / "given" / query))
    )
    writer = writer_of("windows", tmp_path)
    notes(writer).sink = "foreachBatch"
    notes(writer).function = leader.fenced(lambda *_: None)

    starter_of(spark, tmp_path, Lifecycle()).start(writer, None)

    notes(writer).function(None, 7)
    assert list(ForeachBatchLog(LocalTree(tmp_path / "given" / "windows")).epochs()) == [1]
