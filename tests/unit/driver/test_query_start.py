"""What keeps a query from being started, before Spark is asked for anything. pyspark's own side is stood in for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.connectors import sinks
from airflow_provider_ha.checkpoints.connectors.delta import DeltaLog
from airflow_provider_ha.checkpoints.connectors.foreach_batch import GivenLog
from airflow_provider_ha.checkpoints.format.layout import Progress, progress
from airflow_provider_ha.checkpoints.model import BatchEntry, QueryPlan, QuerySink, RestorePlan, SinkKind, Verdict
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.context import DriverContext
from airflow_provider_ha.driver.lifecycle import Lifecycle
from airflow_provider_ha.driver.origin import Origin, OriginKind
from airflow_provider_ha.driver.queries import QueryRegistry
from airflow_provider_ha.driver.query_start import QueryStarter, WriterCalls
from airflow_provider_ha.driver.start_ledger import StartLedger
from airflow_provider_ha.driver.writer_notes import notes
from airflow_provider_ha.errors import ApplicationRefusedError, JobStateError, RestoreRefusedError
from airflow_provider_ha.jobs.model import OutputMode
from airflow_provider_ha.pointers.ownership import AdoptedCheckpoint
from tests.support.checkpoints.ledger_sink import LedgerSink
from tests.support.checkpoints.writer_helpers import writer_of


OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n0'


class Started:
    """pyspark's calls, and the handles that they returned."""

    def __init__(self) -> None:
        self.handles: list[SimpleNamespace] = []
        self.during_replay: Callable[[], None] = lambda: None
        self.tables: list[str] = []

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

        def into_table(writer: Any, name: str) -> SimpleNamespace:
            self.tables.append(name)
            return start(writer, None)

        def ignored(*_: Any, **__: Any) -> None:
            pass

        return WriterCalls(start, into_table, ignored, ignored, ignored, lambda _: self.during_replay(), ignored)


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
    spark: Started, directory: Path, lifecycle: Lifecycle, plan: RestorePlan | None = None, **more: Any
) -> QueryStarter:
    kind = OriginKind.RESTORE if plan else OriginKind.FRESH
    origin = Origin(kind, "live/e1-a", LocalTree(directory), directory.as_uri(), plan=plan)
    registry = QueryRegistry(SystemClock())
    ledger = StartLedger(LocalTree(directory))
    return QueryStarter(origin, registry, lifecycle, spark.calls(directory), ledger, **more)


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


def file_writer(name: str, directory: Path, path: str) -> Any:
    """Return a writer of a file sink."""
    writer = writer_of(name, directory)
    notes(writer).sink = "json"
    notes(writer).options["path"] = path
    return writer


def test_files_on_s3_are_refused_where_spark_does_not_create_them_exclusively(spark: Started, tmp_path: Path) -> None:
    starter = starter_of(spark, tmp_path, Lifecycle())

    with pytest.raises(ApplicationRefusedError, match=r"writes files to s3://bucket/out: .* not create .* exclusively"):
        starter.start(file_writer("q", tmp_path, "s3a://bucket/out"), None)

    assert spark.handles == []


def test_two_queries_with_one_output_are_refused(spark: Started, tmp_path: Path) -> None:
    starter = starter_of(spark, tmp_path, Lifecycle())
    starter.start(file_writer("first", tmp_path, f"{tmp_path}/out"), None)

    with pytest.raises(ApplicationRefusedError, match=r"/out, and so does query 'first' of this job"):
        starter.start(file_writer("second", tmp_path, f"file://{tmp_path}/./out/"), None)

    assert len(spark.handles) == 1


def test_an_output_is_claimed_before_the_query_starts(spark: Started, tmp_path: Path) -> None:
    class Claims:
        def claim(self, place: str, query: str) -> None:
            raise ApplicationRefusedError(f"{place} of {query} is another job's")

    lifecycle = Lifecycle()
    starter = starter_of(spark, tmp_path, lifecycle, claims=Claims())

    with pytest.raises(ApplicationRefusedError, match="out of q is another job's"):
        starter.start(file_writer("q", tmp_path, f"{tmp_path}/out"), None)

    assert spark.handles == []
    assert lifecycle.refusal is not None


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


def a_table(directory: Path, query_id: str, version: int) -> Path:
    """Make a Delta table whose log says that the query with that id has written batch *version*."""
    log = directory / "_delta_log"
    log.mkdir(parents=True)
    entry = {"txn": {"appId": query_id, "version": version, "lastUpdated": 0}}
    (log / f"{0:020}.json").write_text(json.dumps(entry) + "\n")
    return directory


def table_plan(*, max_batch: int, query_id: str | None = None) -> RestorePlan:
    sink = QuerySink(kind=SinkKind.OTHER, format="delta", table="/somewhere", max_batch=max_batch)
    return plan_of("rows").model_copy(update={"queries": {"rows": QueryPlan(batch=2, sink=sink, query_id=query_id)}})


def test_a_table_says_what_it_has_of_a_query_by_its_id(spark: Started, tmp_path: Path) -> None:
    live = tmp_path / "live"
    commit(live / "rows")
    (live / "rows" / "metadata").write_text('{"id":"00000000-0000-4000-8000-000000000001"}')
    own = a_table(tmp_path / "own", "00000000-0000-4000-8000-000000000001", 7)
    other = a_table(tmp_path / "other", "other-id", 7)
    starter = starter_of(spark, live, Lifecycle())

    assert starter._in_table("rows", DeltaLog(own)) == 7
    assert starter._in_table("rows", DeltaLog(other)) == -1


def test_an_output_of_a_type_that_was_added_is_asked_what_it_has(
    spark: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "SINK_TYPES", (LedgerSink(), *sinks.SINK_TYPES))
    identity = "00000000-0000-4000-8000-000000000001"
    commit(tmp_path / "rows")
    (tmp_path / "rows" / "metadata").write_text(json.dumps({"id": identity}))
    (tmp_path / "ledger").write_text(json.dumps({identity: 1}))
    writer = writer_of("rows", tmp_path)
    writer._spark.conf.set("ledger.locked", "yes")
    notes(writer).sink, notes(writer).options["path"] = "ledger", str(tmp_path / "ledger")

    with pytest.raises(RestoreRefusedError, match="batches up to 1, but"):
        starter_of(spark, tmp_path, Lifecycle()).start(writer, None)

    assert spark.handles == []


def test_a_query_that_gets_a_fresh_id_is_asked_about_under_the_one_that_it_had(spark: Started, tmp_path: Path) -> None:
    """The plan knows up to where the table has its batches; the fresh id is made when it starts."""
    starter = starter_of(spark, tmp_path / "live", Lifecycle(), table_plan(max_batch=2, query_id="fresh"))

    assert starter._in_table("rows", DeltaLog(tmp_path / "unread")) == 2


def test_a_table_that_cannot_be_read_leaves_what_the_plan_knew(
    spark: Started, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live = tmp_path / "live"
    commit(live / "rows")
    (live / "rows" / "metadata").write_text('{"id":"00000000-0000-4000-8000-000000000001"}')
    table = a_table(tmp_path / "table", "00000000-0000-4000-8000-000000000001", 7)
    (table / "_delta_log" / f"{0:020}.json").write_text("{")
    starter = starter_of(spark, live, Lifecycle(), table_plan(max_batch=2, query_id="fresh"))

    assert starter._in_table("rows", DeltaLog(table)) == 2
    assert "query rows starts without knowing what its table has" in caplog.text


class Log:
    """The connector of a file sink, which has written up to a batch."""

    def __init__(self, reached: int) -> None:
        self._reached = reached
        self.seeded: list[tuple[int, str, Path]] = []

    def reached(self) -> int:
        return self._reached

    def seed(self, batch: int, mode: str, source: Path) -> None:
        self.seeded.append((batch, mode, source))


def seeded(spark: Started, directory: Path, log: Any, **changes: Any) -> list[tuple[int, str, Path]]:
    """Start from batch 2 of a query that wrote to /old, into /new; returns what the new output was given."""
    sink = QuerySink(kind=SinkKind.FILE, format="json", path="/old", max_batch=2)
    plan = plan_of("rows").model_copy(
        update={"queries": {"rows": QueryPlan(batch=2, sink=sink, sink_gone=changes.get("gone", False))}}
    )
    starter = starter_of(spark, directory, Lifecycle(), plan)
    starter._origin = replace(starter._origin, sinks=changes.get("sinks", Path("/kept")), output=OutputMode.CONTINUE)
    starter._seed("rows", log, "/new")
    found: list[tuple[int, str, Path]] = log.seeded
    return found


def test_a_new_output_gets_the_log_that_was_kept_with_the_cut(spark: Started, tmp_path: Path) -> None:
    ((batch, mode, source),) = seeded(spark, tmp_path, Log(-1))

    assert (batch, mode) == (2, "continue")
    assert source.is_relative_to("/kept")


def test_a_new_output_of_one_that_is_gone_begins_without_the_old_files(spark: Started, tmp_path: Path) -> None:
    assert [mode for _, mode, _ in seeded(spark, tmp_path, Log(-1), gone=True)] == ["fresh"]


def test_an_output_that_was_written_to_since_is_not_given_a_log_again(spark: Started, tmp_path: Path) -> None:
    assert seeded(spark, tmp_path, Log(3)) == []


def test_a_new_output_without_a_log_to_begin_with_is_refused(spark: Started, tmp_path: Path) -> None:
    with pytest.raises(RestoreRefusedError, match=r"output /new of query 'rows' is new, .* was not named.*--sink"):
        seeded(spark, tmp_path, Log(-1), sinks=None)


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
    leader = DriverContext("j", 1, 1, "", lambda: 5.0, lambda query: GivenLog(LocalTree(tmp_path / "given" / query)))
    writer = writer_of("windows", tmp_path)
    notes(writer).sink = "foreachBatch"
    notes(writer).function = leader.fenced(lambda *_: None)

    starter_of(spark, tmp_path, Lifecycle()).start(writer, None)

    notes(writer).function(None, 7)
    assert list(GivenLog(LocalTree(tmp_path / "given" / "windows")).epochs()) == [1]
