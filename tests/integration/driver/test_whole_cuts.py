"""A cut holds every query of the run, also one that the script has not started: real directories, a real ZooKeeper."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import CheckpointKind, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.file_sink_log import sink_log
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.checkpointing.publisher import Provenance, Publisher
from airflow_provider_ha.driver.checkpointing.savepoint_job import SavepointJob
from airflow_provider_ha.driver.ending.stop_job import MainThread, StopJob
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import CheckpointError, OperationFailedError
from airflow_provider_ha.jobs.model import Operation, OperationKind
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.names import short_name
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.coordination_helpers import JOB
from tests.support.spark.recorded_job import QUERY, copy_live


LATE, LAST = "late", 13
PROVENANCE = Provenance(JOB, 1, "g", "4.2.0")
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def live(job: Job, tmp_path: Path) -> Path:
    """The directory of a new epoch: one query runs, the other has a batch that was planned and not committed."""
    live = copy_live(job.config.work_path / f"jobs/{JOB}/live/e2-a")
    copy_live(tmp_path / "other").joinpath(QUERY).rename(live / LATE)
    (live / LATE / "commits" / str(LAST)).unlink()
    assert progress(LocalTree(live / LATE)) == Progress(LAST, LAST - 1)
    return live


@pytest.fixture
def registry(live: Path, output: Path) -> QueryRegistry:
    """What a recovered driver knows while its script waits on the first query."""
    registry = QueryRegistry(SystemClock())
    sink = QuerySink(kind=SinkKind.FILE, format="json", path=str(output))
    registry.expect([RestingQuery(LATE, LocalTree(live / LATE), sink, sink_log(str(output)))], complete=True)
    running = SinkSpec(SinkKind.FOREACH_BATCH, "foreachBatch")
    registry.add(StartedQuery(QUERY, SimpleNamespace(), running, LocalTree(live / QUERY)))
    return registry


@pytest.fixture
def publisher(job: Job, live: Path, registry: QueryRegistry) -> Publisher:
    return Publisher(
        store=job.checkpoints,
        leadership=job.leadership,
        registry=registry,
        origin=Origin(OriginKind.RECOVERY, f"jobs/{JOB}/live/e2-a", LocalTree(live)),
        provenance=PROVENANCE,
        options=HaOptions(checkpoint_interval=0.0),
        area=LinkedWorkArea(job.config.work_path),
        clock=SystemClock(),
    )


def stop_job(publisher: Publisher, registry: QueryRegistry, live: Path, ended: dict[str, Any]) -> StopJob:
    lifecycle = Lifecycle()
    lifecycle.script_ended.set()
    writer: Any = SimpleNamespace(
        set_state=lambda *_: None,
        set_message=lambda _: None,
        end=lambda state, **said: ended.update(said, state=state),
    )
    area = LinkedWorkArea(live.parent)
    main = MainThread()
    return StopJob(
        writer, publisher, registry, lifecycle, main, area, live.name, lambda _: {}, lambda _: {}, lambda: False
    )


def asked(mode: str) -> Operation:
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    kind = OperationKind.STOP
    return Operation(
        operation_id="op", operation=kind, arguments={"mode": mode}, run=1, requested_by="test", requested_at=now
    )


def test_a_checkpoint_holds_a_query_that_is_not_started_with_the_record_of_its_planned_batch(
    job: Job, publisher: Publisher, registry: QueryRegistry, output: Path
) -> None:
    assert publisher.tick() is None  # a restore may still fail before the script waits, and must have claimed nothing
    registry.script_waits()

    made = publisher.tick()

    assert made is not None
    assert job.checkpoints.pointer(1).cut == {QUERY: LAST, LATE: LAST - 1}
    late = made.queries[LATE]
    assert late.sink == QuerySink(kind=SinkKind.FILE, format="json", path=str(output), max_batch=LAST)
    (planned,) = [entry for entry in late.entries if entry.batch == LAST]
    assert planned.commits is None
    assert LAST - 1 in verify(LocalTree(job.pin_path(1) / LATE), depth="full", spark_version="4.2.0").restorable
    assert progress(LocalTree(job.pin_path(1) / LATE)) == Progress(LAST - 1, LAST - 1)
    assert (job.pin_path(1) / "sinks" / LATE / "_spark_metadata" / str(LAST - 1)).is_file()


def test_a_savepoint_holds_a_query_that_is_not_started(job: Job, registry: QueryRegistry, live: Path) -> None:
    maker = SavepointJob(
        job.savepoints, job.leadership, registry, PROVENANCE, LocalTree(live), lambda name: job.savepoints.tree(name)
    )

    maker.create(asked("suspend").model_copy(update={"operation": OperationKind.SAVEPOINT}))

    saved = job.savepoints.load("op")
    assert {query: cut.batch for query, cut in saved.queries.items()} == {QUERY: LAST, LATE: LAST - 1}
    assert f"sinks/{LATE}/_spark_metadata/{LAST - 1}" in saved.files


LONG = "scheduled_savepoint-scheduled__2026-11-22T19-00-00-00-00-savepoint-0123456789ab"


def test_a_repeated_operation_finds_its_savepoint_under_a_short_id(
    job: Job, registry: QueryRegistry, live: Path
) -> None:
    maker = SavepointJob(
        job.savepoints, job.leadership, registry, PROVENANCE, LocalTree(live), lambda name: job.savepoints.tree(name)
    )
    operation = asked("suspend").model_copy(update={"operation": OperationKind.SAVEPOINT, "operation_id": LONG})

    answers = [maker.create(operation)["savepoint_id"] for _ in range(2)]

    assert answers == [short_name(LONG)] * 2
    assert [pointer.savepoint_id for pointer in job.savepoints.list()] == answers[:1]


def test_a_cut_is_taken_again_when_a_query_begins_to_be_started_meanwhile(
    publisher: Publisher, registry: QueryRegistry, live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script may give it another sink; committed batches of one sink beside the name of another would be a lie."""
    elsewhere = QuerySink(kind=SinkKind.FOREACH_BATCH, format="foreachBatch")
    poll = publisher.record

    def begin_once() -> None:
        poll()
        if LATE not in registry.begun:
            original = vars(QueryRegistry)["members"].fget
            seen = original(registry)
            registry.begin(RestingQuery(LATE, LocalTree(live / LATE), elsewhere))
            answers = iter([seen])
            monkeypatch.setattr(
                registry.__class__, "members", property(lambda self: next(answers, None) or original(self))
            )

    monkeypatch.setattr(publisher, "record", begin_once)

    assert publisher.publish(CheckpointKind.PERIODIC).queries[LATE].sink == elsewhere


def test_a_stop_takes_along_what_is_not_started_and_waits_for_nothing(
    job: Job, publisher: Publisher, live: Path, output: Path
) -> None:
    """The script has not even come to its first query."""
    registry = publisher._registry
    registry.drop([QUERY])
    ended: dict[str, Any] = {}

    stop_job(publisher, registry, live, ended).run(asked("suspend"))

    assert (ended["checkpoint"], ended["reason"]) == (1, "suspended")
    pointer = job.checkpoints.pointer(1)
    assert (pointer.reason, pointer.cut) == (CheckpointKind.STOP, {LATE: LAST - 1})


def test_a_job_is_not_drained_while_the_sink_of_a_query_at_rest_may_be_ahead_of_it(
    job: Job, publisher: Publisher, registry: QueryRegistry, live: Path
) -> None:
    stop = stop_job(publisher, registry, live, {})

    with pytest.raises(OperationFailedError, match="has not started 'late' yet"):
        stop.run(asked("terminate"))

    assert not stop.lifecycle.stopping.is_set()  # nothing was stopped: the job goes on
    assert job.checkpoints.latest_number() is None


def test_no_checkpoint_is_without_a_query_of_which_nothing_tells_where_it_writes(
    job: Job, publisher: Publisher, registry: QueryRegistry, live: Path
) -> None:
    registry.expect([RestingQuery(LATE, LocalTree(live / LATE), None)], complete=True)
    registry.script_waits()

    with pytest.raises(CheckpointError, match="no record names its output"):
        publisher.tick()

    registry.add(StartedQuery(LATE, SimpleNamespace(), SinkSpec(SinkKind.OTHER, "noop"), LocalTree(live / LATE)))
    made = publisher.tick()
    assert made is not None
    assert (made.number, set(made.queries)) == (1, {QUERY, LATE})
