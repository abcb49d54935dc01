"""When a job is called RUNNING: its queries work, and not only its script. Spark's handles are stood in for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.checkpointing.publish_loop import PublishLoop
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import (
    ApplicationRefusedError,
    CheckpointError,
    HaError,
    LeadershipLostError,
    NotConnectedError,
)
from airflow_provider_ha.jobs.model import JobState
from tests.support.spark.started_queries import trigger_report


SINK = QuerySink(kind=SinkKind.FOREACH_BATCH)
Said = list[tuple[JobState, str]]


class Handle:
    """What pyspark returns for a query, as far as it is asked."""

    def __init__(self, run: str) -> None:
        self.runId = run
        self.isActive = True
        self.error: str | None = None
        self.progress: Any = None
        self._jsq = SimpleNamespace(lastProgress=lambda: self.progress)

    def exception(self) -> str | None:
        return self.error


@pytest.fixture
def registry() -> QueryRegistry:
    """The registry of a script that waits."""
    registry = QueryRegistry(SystemClock())
    registry.script_waits()
    return registry


def started(directory: Path, name: str = "first", *, before: int = -1) -> StartedQuery:
    return StartedQuery(
        name, Handle(name), SinkSpec(SinkKind.OTHER, "noop"), LocalTree(directory / name), committed_before=before
    )


def commit(directory: Path, batch: int) -> None:
    (directory / "commits").mkdir(parents=True, exist_ok=True)
    (directory / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def commits(query: StartedQuery, batch: int) -> None:
    """Let a query commit a batch and report it."""
    commit(Path(str(query.directory)), batch)
    query.handle.progress = trigger_report(batch, executed=True)


def loop_of(
    registry: QueryRegistry,
    said: Said,
    refusal: HaError | None = None,
    *,
    running: Callable[[], None] = lambda: None,
) -> PublishLoop:
    """Return a loop that notes each state, and whose publisher refuses with *refusal*."""

    def tick() -> None:
        if refusal is not None:
            raise refusal

    def set_message(message: str) -> None:
        said.append((said[-1][0], message))

    writer: Any = SimpleNamespace(
        set_state=lambda *words: said.append(words), set_message=set_message, publish_status=lambda _: None
    )
    publisher: Any = SimpleNamespace(tick=tick, latest=None)
    return PublishLoop(
        publisher,
        writer,
        registry,
        Lifecycle(),
        lambda _: None,
        settled=lambda: None,
        running=running,
        clean=lambda _: True,
    )


def test_a_query_without_a_batch_keeps_the_job_starting(registry: QueryRegistry, tmp_path: Path) -> None:
    registry.add(started(tmp_path))
    said: Said = []

    loop_of(registry, said).tick()

    assert said == [(JobState.STARTING, "waiting for the first batch of 'first'")]


def test_every_query_is_waited_for(registry: QueryRegistry, tmp_path: Path) -> None:
    first, second = started(tmp_path), started(tmp_path, "second")
    registry.add(first)
    registry.add(second)
    commits(first, 0)

    assert registry.not_working() == "waiting for the first batch of 'second'"
    commits(second, 0)
    assert registry.not_working() == ""


def test_a_batch_of_an_earlier_epoch_is_none_of_this_one(registry: QueryRegistry, tmp_path: Path) -> None:
    query = started(tmp_path, before=4)
    registry.add(query)
    commits(query, 4)

    assert registry.not_working() == "waiting for the first batch of 'first'"
    commits(query, 5)
    assert registry.not_working() == ""


def test_a_session_that_keeps_no_reports_runs_once_a_look_finds_a_batch(
    registry: QueryRegistry, tmp_path: Path
) -> None:
    """``spark.sql.streaming.numRecentProgressUpdates`` can be 0."""
    registry.add(started(tmp_path, before=4))

    registry.note_commits({"first": 4})
    assert registry.not_working() == "waiting for the first batch of 'first'"
    registry.note_commits({"first": 5})
    assert registry.not_working() == ""


def test_the_directory_of_a_query_is_not_read_before_spark_reports_a_trigger(
    registry: QueryRegistry, tmp_path: Path
) -> None:
    """The question comes several times a second, and an answer of a store costs six requests."""
    looks: list[tuple[str, ...]] = []

    class NotedTree(LocalTree):
        def fresh(self, *places: str) -> LocalTree:
            looks.append(places)
            return super().fresh(*places)

    query = replace(started(tmp_path), directory=NotedTree(tmp_path / "first"))
    registry.add(query)

    assert registry.not_working() == "waiting for the first batch of 'first'"
    assert looks == []
    commits(query, 0)
    assert registry.not_working() == ""
    assert looks == [("offsets", "commits")]


def test_a_first_trigger_that_found_no_data_is_enough(registry: QueryRegistry, tmp_path: Path) -> None:
    query = started(tmp_path)
    registry.add(query)

    query.handle.progress = object()  # Spark has none before the end of the first trigger

    assert registry.not_working() == ""


def test_a_first_trigger_without_data_names_the_batch_that_comes_next(registry: QueryRegistry, tmp_path: Path) -> None:
    query = started(tmp_path, before=4)
    registry.add(query)

    query.handle.progress = trigger_report(5)

    assert registry.not_working() == ""


@pytest.mark.parametrize(("batch", "executed"), [(0, False), (0, True), (4, True), (5, True), (6, False)])
def test_a_batch_that_the_working_directory_does_not_have_is_no_first_batch(
    registry: QueryRegistry, tmp_path: Path, batch: int, executed: bool
) -> None:
    commit(tmp_path / "first", 4)
    query = started(tmp_path, before=4)
    registry.add(query)

    query.handle.progress = trigger_report(batch, executed=executed)

    assert registry.not_working() == "waiting for the first batch of 'first'"


@pytest.mark.parametrize(("batch", "committed"), [(0, 4), (5, 4), (7, 6)])
def test_a_query_that_commits_elsewhere_is_refused(tmp_path: Path, batch: int, committed: int) -> None:
    query = started(tmp_path, before=4)
    query.handle.progress = trigger_report(batch, executed=True)

    with pytest.raises(
        ApplicationRefusedError, match=f"'first' has committed batch {batch} in another directory.*up to"
    ):
        query.check_commit(query.reported(), committed)


@pytest.mark.parametrize(("batch", "executed"), [(5, True), (6, True), (7, False), (0, False)])
def test_a_query_whose_batches_are_in_its_directory_is_not_refused(tmp_path: Path, batch: int, executed: bool) -> None:
    query = started(tmp_path, before=4)
    query.handle.progress = trigger_report(batch, executed=executed)

    query.check_commit(query.reported(), 6)


def test_a_run_whose_query_commits_elsewhere_ends_at_once(registry: QueryRegistry, tmp_path: Path) -> None:
    registry.add(started(tmp_path))
    said: Said = []
    ended: list[tuple[JobState, str]] = []
    loop = loop_of(registry, said, ApplicationRefusedError("it commits elsewhere"))
    writer: Any = loop._writer
    writer.end = lambda state, *, reason: ended.append((state, reason))

    with pytest.raises(ApplicationRefusedError):
        loop.tick()

    assert ended == [(JobState.FAILED, "it commits elsewhere.")]


def test_a_query_that_ended_without_a_batch_has_done_its_work_and_one_that_failed_has_not(tmp_path: Path) -> None:
    query = started(tmp_path)
    query.handle.isActive = False

    assert query.first_trigger_is_over()
    query.handle.error = "the source is gone"
    assert not query.first_trigger_is_over()


def test_a_jvm_that_does_not_answer_says_nothing(tmp_path: Path) -> None:
    query = started(tmp_path)
    query.handle._jsq = None

    assert not query.first_trigger_is_over()


def test_a_query_that_the_script_starts_later_is_named_and_not_waited_for(
    registry: QueryRegistry, tmp_path: Path
) -> None:
    registry.expect([RestingQuery("later", LocalTree(tmp_path / "later"), SINK)], complete=True)
    query = started(tmp_path)
    registry.add(query)
    commits(query, 0)
    said: Said = []

    loop_of(registry, said).tick()

    assert said == [(JobState.RUNNING, "the script has not started 'later', which the run had before")]


def test_a_script_that_waits_without_a_query_does_not_run(registry: QueryRegistry, tmp_path: Path) -> None:
    registry.expect([RestingQuery("later", LocalTree(tmp_path / "later"), SINK)], complete=True)
    said: Said = []

    loop_of(registry, said).tick()

    assert said == [(JobState.STARTING, "the script has not started 'later', which the run had before")]


def test_a_running_run_stays_running_while_the_script_starts_another_query(
    registry: QueryRegistry, tmp_path: Path
) -> None:
    query = started(tmp_path)
    registry.add(query)
    commits(query, 0)
    said: Said = []
    loop = loop_of(registry, said)
    loop.tick()

    registry.add(started(tmp_path, "second"))
    loop.tick()

    assert said == [(JobState.RUNNING, ""), (JobState.RUNNING, "")]


def test_the_driver_notes_once_that_its_job_is_running(registry: QueryRegistry, tmp_path: Path) -> None:
    query = started(tmp_path)
    registry.add(query)
    noted: list[bool] = []
    loop = loop_of(registry, [], running=lambda: noted.append(True))
    loop.tick()
    assert noted == []

    commits(query, 0)
    loop.tick()
    loop.tick()

    assert noted == [True]


def test_a_checkpoint_that_fails_does_not_make_a_starting_job_run(registry: QueryRegistry, tmp_path: Path) -> None:
    registry.add(started(tmp_path))
    said: Said = []

    loop_of(registry, said, CheckpointError("the disk is full")).tick()

    assert said[-1] == (JobState.STARTING, "no checkpoint: the disk is full")


def test_the_loop_notes_that_the_script_is_set_up_before_its_queries_work(tmp_path: Path) -> None:
    registry = QueryRegistry(SystemClock())
    registry.add(started(tmp_path))
    settled: list[bool] = []
    writer: Any = SimpleNamespace(set_state=lambda *_: None, publish_status=lambda _: None)
    publisher: Any = SimpleNamespace(tick=lambda: None, latest=None)
    loop = PublishLoop(
        publisher,
        writer,
        registry,
        Lifecycle(),
        lambda _: None,
        settled=lambda: settled.append(True),
        running=lambda: None,
        clean=lambda _: True,
    )

    loop.tick()
    assert settled == []
    registry.script_waits()
    loop.tick()

    assert settled == [True]


def test_a_loop_that_leads_no_more_does_not_go_on(registry: QueryRegistry, tmp_path: Path) -> None:
    said: Said = []

    with pytest.raises(LeadershipLostError):
        loop_of(registry, said, LeadershipLostError("the lease ran out")).tick()

    assert [message for _, message in said if "no checkpoint" in message] == []


@pytest.mark.parametrize(
    ("trouble", "ends"), [(NotConnectedError("cut"), False), (LeadershipLostError("the lease ran out"), True)]
)
def test_the_reason_of_a_checkpoint_that_failed_is_tried_again_with_the_next_tick_unless_another_one_leads(
    registry: QueryRegistry, tmp_path: Path, caplog: pytest.LogCaptureFixture, trouble: HaError, ends: bool
) -> None:
    loop = loop_of(registry, [], CheckpointError("it could not be pinned"))

    def unwritten(_: object) -> None:
        raise trouble

    writer: Any = loop._writer
    writer.publish_status = unwritten

    if ends:
        with pytest.raises(LeadershipLostError):
            loop.tick()
    else:
        assert loop.tick() > 0
        assert "the status could not be written; the next tick tries again: cut" in caplog.text
