"""Name and start of a query, before Spark is asked for anything."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchLog
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.context import DriverContext
from airflow_provider_ha.driver.queries.query_naming import StartLedger, name_query, refuse_other_case, refuse_taken
from airflow_provider_ha.driver.queries.writer_notes import WriterNotes, begins_anew, notes
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import ApplicationRefusedError, JobStateError, RestoreRefusedError
from airflow_provider_ha.query_names import query_directory
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


def writer(sink: str | None, **options: str) -> Any:
    """Return a writer of a query without a name."""
    made = writer_of("", Path("/managed"))
    noted = notes(made)
    noted.name, noted.sink = None, sink
    noted.options |= options
    return made


def line_of(test: Callable[..., None], text: str) -> int:
    """Return the line of this file where *test* says *text*."""
    lines, first = inspect.getsourcelines(test)
    return first + next(number for number, line in enumerate(lines) if text in line)


@pytest.mark.parametrize(
    ("sink", "options", "begin"),
    [
        ("json", {"path": "/data/daily totals"}, "daily-totals-"),
        (None, {"path": "file:/data/out/"}, "out-"),
        ("delta", {"path": "s3a://bucket/tables/orders"}, "orders-"),
        ("kafka", {"topic": "orders.v1"}, "orders.v1-"),
        ("parquet", {"path": "/data/..."}, "output-"),
    ],
)
def test_a_query_without_a_name_gets_one_from_its_output(sink: str, options: dict[str, str], begin: str) -> None:
    first, again = writer(sink, **options), writer(sink, **options)

    name = name_query(first, None)

    assert name.startswith(begin)
    assert name_query(again, None) == name
    assert notes(first).name == name, "the writer has it, and pyspark's own has"


def test_two_spellings_of_one_output_are_one_name() -> None:
    assert name_query(writer("json"), "file:///data/out") == name_query(writer("csv"), "/data/x/../out/")


def test_outputs_of_one_last_name_have_different_names() -> None:
    assert name_query(writer("json"), "/a/out") != name_query(writer("json"), "/b/out")


def test_the_brokers_of_a_topic_are_no_part_of_its_name() -> None:
    names = {name_query(writer("kafka", topic="t", **{"kafka.bootstrap.servers": at}), None) for at in ("a:1", "b:1")}

    assert len(names) == 1


def test_the_name_of_the_script_counts() -> None:
    named = writer("json", path="/data/out")
    notes(named).name = "hourly"

    assert name_query(named, None) == "hourly"


@pytest.mark.parametrize("sink", ["foreachBatch", "foreach", "noop", "console", "memory", "kafka"])
def test_a_sink_that_gives_no_name_is_refused_with_the_line_to_change(sink: str) -> None:
    unnamed = writer(sink)

    with pytest.raises(ApplicationRefusedError, match=f"a {sink} sink gives it none") as refused:
        name_query(unnamed, None)

    at = line_of(test_a_sink_that_gives_no_name_is_refused_with_the_line_to_change, "        name_query(")
    assert refused.value.next_step == f'Add .queryName("...") to its writeStream ({Path(__file__).name}, line {at})'


@pytest.mark.parametrize("sink", ["foreachBatch", "foreach", "kafka"])
def test_a_sink_that_gives_no_name_is_named_after_the_checkpoint_location_of_the_script(sink: str) -> None:
    first, again, other = (writer(sink, checkpointlocation=f"/chk/{place}") for place in ("orders", "orders", "sums"))

    name = name_query(first, None)

    assert name.startswith("orders-")
    assert name_query(again, None) == name != name_query(other, None)
    with pytest.raises(ApplicationRefusedError, match="set the same checkpoint location"):
        refuse_taken(notes(again), frozenset({name}))


def test_two_queries_without_names_on_one_output_are_refused_with_the_line() -> None:
    name = name_query(writer("json"), "/data/out")
    second = writer("json")
    name_query(second, "/data/out")

    with pytest.raises(ApplicationRefusedError, match="write to the same output, or set the same") as refused:
        refuse_taken(notes(second), frozenset({name}))

    at = line_of(test_two_queries_without_names_on_one_output_are_refused_with_the_line, "        refuse_taken(")
    assert f"a separate output and name ({Path(__file__).name}, line {at});" in str(refused.value.next_step)


@pytest.mark.parametrize(("name", "other"), [("orders", "Orders"), ("Flattened Orders", "flattened orders")])
def test_a_name_that_differs_from_another_one_in_case_only_is_refused(name: str, other: str) -> None:
    written, known = query_directory(name), query_directory(other)

    with pytest.raises(ApplicationRefusedError, match="on a file system that ignores case"):
        refuse_other_case(written, [known])
    refuse_other_case(written, [written, query_directory("sums")])


@pytest.mark.parametrize("name", ["a/b", "..", "sinks", "manifest.json", "-a", "Flattened Orders"])
def test_a_name_that_cannot_be_a_directory_is_written_as_one_and_stays_the_name_for_spark(name: str) -> None:
    named = writer("noop")
    notes(named).name = name

    assert name_query(named, None) == query_directory(name) != name
    assert notes(named).name == name


@pytest.mark.parametrize(
    ("name", "sink", "mode", "anew"),
    [
        (None, "console", "append", True),
        (None, "Console", "", True),
        (None, "noop", "", True),
        ("seen", "memory", "append", True),
        ("seen", "memory", "", True),
        ("counts", "memory", "Complete", False),
        ("look", "console", "append", False),
        ("rows", "noop", "append", False),
        (None, "json", "append", False),
        (None, "foreachBatch", "append", False),
        (None, None, "", False),
    ],
)
def test_a_query_for_a_look_at_rows_that_spark_or_its_name_cannot_find_again_begins_anew(
    name: str | None, sink: str | None, mode: str, *, anew: bool
) -> None:
    assert begins_anew(WriterNotes(name=name, sink=sink, mode=mode), "parquet") is anew
