"""When the leader writes the status: at once when the job has changed, seldom for figures, never for an idle job."""

from __future__ import annotations

import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.figures import STANDBY_SECONDS, QueryTrigger
from airflow_provider_ha.driver.members.run_writer import FIGURES_SECONDS, JobWriter
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import AcceptedLoss, JobState, QueryStatus, StandbyCount, Status
from airflow_provider_ha.jobs.runs.journal import JobJournal
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel, StandbyStore
from airflow_provider_ha.jobs.runs.submissions import StartTimes
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.clusters.jobs_helpers import BLOB, lead, submit
from tests.support.fake.clock import VirtualClock, to_milliseconds


BACKENDS = ("fake",)
QUERY = "hourly"
AT = datetime(2026, 11, 24, 12, tzinfo=timezone.utc)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def registry(clock: VirtualClock, tmp_path: Path) -> QueryRegistry:
    """One query that has been started."""
    found = QueryRegistry(clock)
    found.add(StartedQuery(QUERY, None, SinkSpec(SinkKind.OTHER, "noop"), LocalTree(tmp_path / QUERY)))
    return found


@pytest.fixture
def writer(  # noqa: PLR0917  # fixtures
    request: pytest.FixtureRequest,
    config: HaConfig,
    coordinator: Coordinator,
    paths: JobPaths,
    registry: QueryRegistry,
    clock: VirtualClock,
) -> JobWriter:
    """What the leader of run 1 writes with; it has written that the job is RUNNING. A parameter requests standbys."""
    submit(coordinator, paths)
    coordinator.commit(Create(paths.job_graph, GraphPointer(graph=BLOB, run=1).to_bytes()))
    store = open_store(config)
    writing = JobWriter(
        coordinator=coordinator,
        paths=paths,
        graphs=JobGraphStore(coordinator, store, paths),
        journal=JobJournal(store, JobKeys(paths.job_id)),
        leadership=lead(coordinator, paths, config),
        registry=registry,
        run=1,
        clock=clock,
        standby_drivers=getattr(request, "param", 0),
    )
    writing.set_state(JobState.RUNNING)
    writing.publish_status(None)
    return writing


def batch(number: int, *, executed: bool = True) -> QueryTrigger:
    return QueryTrigger(AT, number, executed, {"triggerExecution": 2.0}, input_rows=60, input_rate=6.0, lag=4)


def writes(coordinator: Coordinator, paths: JobPaths) -> int:
    return coordinator.get(paths.status).version


def a_minute_of(writer: JobWriter, registry: QueryRegistry, clock: VirtualClock, triggers: list[QueryTrigger]) -> None:
    """Tick through a minute in which the query reports *triggers*, one after the other."""
    for trigger in triggers:
        registry.triggers.note(QUERY, trigger)
        writer.publish_status(None)
        clock.milliseconds += to_milliseconds(FIGURES_SECONDS / len(triggers))
    writer.publish_status(None)


def test_an_idle_job_writes_no_status(
    coordinator: Coordinator, paths: JobPaths, writer: JobWriter, registry: QueryRegistry, clock: VirtualClock
) -> None:
    before = writes(coordinator, paths)

    for _ in range(10):
        a_minute_of(writer, registry, clock, [batch(7, executed=False)] * 6)

    assert writes(coordinator, paths) == before


def test_batches_alone_cost_one_status_a_minute(
    coordinator: Coordinator, paths: JobPaths, writer: JobWriter, registry: QueryRegistry, clock: VirtualClock
) -> None:
    before = writes(coordinator, paths)

    for minute in range(10):
        a_minute_of(writer, registry, clock, [batch(60 * minute + second) for second in range(60)])

    assert writes(coordinator, paths) == before + 10


def test_the_status_has_the_figures_of_the_newest_batch(
    coordinator: Coordinator, paths: JobPaths, writer: JobWriter, registry: QueryRegistry
) -> None:
    registry.triggers.note(QUERY, batch(7))
    registry.triggers.note(QUERY, QueryTrigger(AT, 8, executed=False, phases={"triggerExecution": 0.01}))
    writer.publish_status(3)

    status = Status.from_bytes(coordinator.get(paths.status).data, source="the status")

    assert status.queries[QUERY] == QueryStatus(
        planned=-1,
        committed=-1,
        sink="noop",
        batch_at=AT,
        batch_seconds=2.0,
        input_rows=60,
        input_rate=6.0,
        processed_rate=0.0,
        lag=4,
        committed_at=AT.replace(second=2),
    )


def test_a_query_that_has_reported_nothing_has_no_figures(
    coordinator: Coordinator, paths: JobPaths, writer: JobWriter
) -> None:
    status = Status.from_bytes(coordinator.get(paths.status).data, source="the status")

    assert status.queries[QUERY] == QueryStatus(planned=-1, committed=-1, sink="noop")


def test_the_state_is_told_while_a_write_waits_for_zookeeper(
    writer: JobWriter, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metrics are scraped in that time."""
    waits, answered = threading.Event(), threading.Event()
    commit = coordinator.commit

    def slow(*ops: Any, **options: Any) -> list[int]:
        waits.set()
        answered.wait(30)
        return commit(*ops, **options)

    monkeypatch.setattr(coordinator, "commit", slow)
    writer.set_state(JobState.FINISHED)
    write = threading.Thread(target=writer.publish_status, args=(None,))
    write.start()
    assert waits.wait(30)
    told: list[JobState] = []
    reader = threading.Thread(target=lambda: told.append(writer.state))
    reader.start()
    reader.join(5)

    in_time = list(told)
    answered.set()
    write.join()
    reader.join()

    assert in_time == [JobState.FINISHED]


def test_the_first_commit_is_in_the_status_at_once(
    coordinator: Coordinator, paths: JobPaths, writer: JobWriter
) -> None:
    writer.publish_status(None)

    committed = StartTimes(committed_at=datetime(2026, 1, 2, tzinfo=timezone.utc))
    writer.start_times = lambda: committed
    writer.publish_status(None)

    assert Status.from_bytes(coordinator.get(paths.status).data, source="the status").times == committed


def test_the_status_says_how_many_checkpoints_have_failed_without_a_write_for_each(
    coordinator: Coordinator, paths: JobPaths, writer: JobWriter
) -> None:
    writer.publish_status(None)
    before = writes(coordinator, paths)

    for failed in (1, 2, 3):
        writer.failed_checkpoints = lambda failed=failed: failed  # type: ignore[misc]  # mypy cannot infer it
        writer.publish_status(None)
    status = Status.from_bytes(coordinator.get(paths.status).data, source="the status")

    assert status.failed_checkpoints == 1, "the figure follows with the next write"
    assert writes(coordinator, paths) == before + 1


def test_input_that_is_gone_counts_once_for_each_loss_and_is_told_until_the_run_ends(
    coordinator: Coordinator, paths: JobPaths, writer: JobWriter, tmp_path: Path
) -> None:
    def begin(**lossy: int) -> AcceptedLoss | None:
        message = f"without {lossy}" if lossy else ""
        writer.begin(Origin(OriginKind.RECOVERY, "live/e1", LocalTree(tmp_path), lossy=lossy, message=message))
        return Status.from_bytes(coordinator.get(paths.status).data, source="").loss

    counts = [loss.count if loss else 0 for loss in (begin(), begin(a=6), begin(a=6), begin(a=7), begin())]
    last = begin()

    assert counts == [0, 1, 1, 2, 2]
    assert last is not None
    assert (last.queries, last.reason) == ({"a": 7}, "without {'a': 7}")
    assert writer.losses == 2


def stand_by(
    coordinator: Coordinator, paths: JobPaths, standby_id: str, note: str = "", *, limited: bool = False
) -> None:
    level = StandbyLevel.CONNECTED if note else StandbyLevel.SESSION
    standby = Standby(standby_id=standby_id, level=level, since=AT, host="h", pid=1, note=note, limited=limited)
    assert StandbyStore(coordinator, paths, 1).join(standby, 2)


@pytest.mark.parametrize("writer", [2], indirect=True)
def test_the_status_has_the_number_of_ready_standby_drivers_within_seconds(
    coordinator: Coordinator, paths: JobPaths, writer: JobWriter, clock: VirtualClock
) -> None:
    def counted() -> StandbyCount | None:
        clock.milliseconds += to_milliseconds(STANDBY_SECONDS)
        writer.publish_status(None)
        return Status.from_bytes(coordinator.get(paths.status).data, source="").standbys

    begin = clock.now()
    none = counted()
    stand_by(coordinator, paths, "a", note="the warm-up failed")
    waiting = counted()
    stand_by(coordinator, paths, "b")
    one, before = counted(), writes(coordinator, paths)
    counted()

    assert none == StandbyCount(requested=2, missing_since=begin)
    assert waiting == StandbyCount(requested=2, note="the warm-up failed", missing_since=begin)
    assert one == StandbyCount(requested=2, ready=1, note="the warm-up failed", missing_since=begin)
    assert writes(coordinator, paths) == before, "an unchanged number is not written again"


@pytest.mark.parametrize("writer", [2], indirect=True)
def test_a_status_without_a_missing_standby_driver_says_none_is_missing(
    coordinator: Coordinator, paths: JobPaths, writer: JobWriter, clock: VirtualClock
) -> None:
    stand_by(coordinator, paths, "a")
    stand_by(coordinator, paths, "b")
    clock.milliseconds += to_milliseconds(STANDBY_SECONDS)

    writer.publish_status(None)

    assert writer.standbys == StandbyCount(requested=2, ready=2)


@pytest.mark.parametrize("writer", [1], indirect=True)
def test_a_standby_driver_that_the_conf_of_the_job_limits_is_not_missing(
    coordinator: Coordinator, paths: JobPaths, writer: JobWriter, clock: VirtualClock
) -> None:
    """An alert about it would last as long as the job."""
    stand_by(coordinator, paths, "a", note="spark.plugins is set", limited=True)
    clock.milliseconds += to_milliseconds(STANDBY_SECONDS)

    writer.publish_status(None)

    assert writer.standbys == StandbyCount(requested=1, ready=1)


def test_a_job_that_requests_no_standby_driver_looks_for_none(
    coordinator: Coordinator, paths: JobPaths, writer: JobWriter, clock: VirtualClock
) -> None:
    stand_by(coordinator, paths, "a")
    clock.milliseconds += to_milliseconds(STANDBY_SECONDS)

    writer.publish_status(None)

    assert Status.from_bytes(coordinator.get(paths.status).data, source="").standbys is None


@pytest.mark.parametrize("writer", [2], indirect=True)
def test_the_last_status_of_a_run_counts_no_standby_drivers(
    coordinator: Coordinator, paths: JobPaths, writer: JobWriter
) -> None:
    writer.end(JobState.FINISHED)

    assert Status.from_bytes(coordinator.get(paths.status).data, source="").standbys is None
