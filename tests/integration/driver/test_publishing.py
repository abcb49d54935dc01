"""Publisher beside removals, and its looks at directories: a real ZooKeeper, no Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import CheckpointKind, SinkKind
from airflow_provider_ha.checkpoints.ownership import ClaimMode, Owner
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.driver.checkpointing import publisher as publishing
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.checkpointing.publish_loop import PublishLoop, RemovalTurns
from airflow_provider_ha.driver.checkpointing.publisher import Provenance, Publisher
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import CheckpointError, LeadershipError, StorageUnavailableError
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.checkpoints.checkpoint_helpers import AT, Job
from tests.support.checkpoints.publishers import LIVE, publisher_of
from tests.support.clusters.coordination_helpers import JOB
from tests.support.spark.recorded_job import QUERY, copy_live


pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def publisher(job: Job) -> Publisher:
    """A publisher of one query that has committed something, that keeps one checkpoint."""
    return publisher_of(job, copy_live(job.config.work_path / LIVE))


def numbers(job: Job) -> list[int]:
    return [pointer.number for pointer in job.checkpoints.list()]


def test_a_new_checkpoint_marks_the_old_ones_and_removes_no_file(job: Job, publisher: Publisher) -> None:
    """Removing many files would delay the next checkpoint; another thread does it. Fails when it is done at once."""
    publisher.publish(CheckpointKind.PERIODIC)
    publisher.publish(CheckpointKind.PERIODIC)

    assert (numbers(job), job.checkpoints.waiting()) == ([2], 1)
    assert job.pin_path(1).is_dir()
    job.checkpoints.work_off(job.leadership)
    assert (job.pin_path(1).exists(), job.checkpoints.waiting()) == (False, 0)


def test_the_pointer_of_a_checkpoint_says_how_long_it_took_and_how_large_its_state_is(
    job: Job, publisher: Publisher
) -> None:
    made = publisher.publish(CheckpointKind.PERIODIC)

    pointer = job.checkpoints.pointer(made.number)
    files = [path for path in job.pin_path(1).rglob("*") if path.is_file()]
    assert pointer.seconds is not None
    assert 0 < pointer.seconds < 60
    assert pointer.state_size == made.state_size == sum(path.stat().st_size for path in files)


@pytest.mark.flink(
    "ZooKeeperCompletedCheckpointStoreITCase#testChekpointingPausesAndResumeWhenTooManyCheckpoints",
    entry=84,
    mutant="no-back-pressure",
)
def test_publication_pauses_while_too_many_wait_to_be_removed(
    job: Job, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No checkpoint is taken while too many wait to be removed, and one is as soon as they are gone.

    Flink: ZooKeeperCompletedCheckpointStoreITCase#testChekpointingPausesAndResumeWhenTooManyCheckpoints [84].
    [FLINK-17073] Fails without the look at the list: the disk would fill.
    """
    monkeypatch.setattr(publishing, "MAX_WAITING", 1)
    for number in (1, 2, 3):
        job.add(number, 1)
    job.checkpoints.subsume(job.leadership, 1)

    with pytest.raises(CheckpointError, match="2 old checkpoints and savepoints wait"):
        publisher.tick()
    assert numbers(job) == [3]
    job.checkpoints.work_off(job.leadership)
    made = publisher.tick()

    assert made is not None
    assert numbers(job) == [4]


def test_a_claim_is_made_with_the_first_checkpoint_and_outlived_by_as_many_as_are_retained(
    job: Job,
) -> None:
    live = copy_live(job.config.work_path / LIVE)
    job.savepoints.create(job.leadership.commit, job.request("mine", 9), LocalTree(live))
    plan = RestorePlan(
        job_id=JOB,
        source_job=JOB,
        source="savepoint",
        source_id="mine",
        directory=job.keys.savepoint("mine"),
        verdict=Verdict.SAFE,
        queries={},
        age_seconds=0,
        created_at=AT,
        claim_mode=ClaimMode.CLAIM,
        owner=Owner.JOB,
    )
    publisher = publisher_of(job, live, plan)
    assert job.savepoints.pointer("mine").claimed_by is None

    publisher.publish(CheckpointKind.PERIODIC)

    assert len(job.savepoints.list()) == 0
    job.checkpoints.work_off(job.leadership)
    assert not job.savepoints.directory("mine").exists()
    publisher_of(job, live, plan).publish(CheckpointKind.PERIODIC)  # the next epoch has nothing to claim
    assert numbers(job) == [2]


def test_a_stop_does_not_wait_for_removals(job: Job, publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "MAX_WAITING", 0)
    job.add(1, 1)
    job.add(2, 2)
    job.checkpoints.subsume(job.leadership, 1)

    assert publisher.publish(CheckpointKind.STOP).number == 3


def test_old_checkpoints_that_cannot_be_marked_do_not_spoil_the_new_one(job: Job, publisher: Publisher) -> None:
    """[C3] Here a lease on an old one cannot be read, so whether it may go is unknown."""
    for number in (1, 2):
        job.add(number, number)
    parent = job.paths.leases("checkpoint-1")
    job.coordinator.ensure(f"{parent}/{'0' * 32}")
    job.coordinator.commit(SetData(f"{parent}/{'0' * 32}", b"garbage"))

    publisher.publish(CheckpointKind.STOP)

    assert numbers(job) == [3, 2, 1]


def test_a_deposed_leader_publishes_nothing(job: Job, publisher: Publisher) -> None:
    job.coordinator.commit(SetData(job.paths.epoch, b"another leader"))

    with pytest.raises(LeadershipError):
        publisher.publish(CheckpointKind.PERIODIC)

    assert numbers(job) == []


def test_the_loop_removes_what_is_old_beside_its_ticks_and_at_its_end(job: Job, publisher: Publisher) -> None:
    """Fails when the loop does not start, wake or end the removal."""
    for number in (1, 2):
        job.add(number, number)
    job.checkpoints.subsume(job.leadership, 1)
    failed: list[BaseException] = []
    writer: Any = SimpleNamespace(set_state=lambda *_: None, publish_status=lambda _: None)
    cleaning = RemovalTurns(job.checkpoints, job.leadership, SystemClock(), lambda: iter(()))
    loop = PublishLoop(
        publisher,
        writer,
        publisher._registry,
        Lifecycle(),
        failed.append,
        settled=lambda: None,
        running=lambda: None,
        clean=cleaning.turn,
    )

    loop.start()
    wait_until(lambda: numbers(job) == [3] and not job.pin_path(2).exists(), timeout=20, what="the removal")
    publisher.publish(CheckpointKind.STOP)
    loop.stop()

    assert (numbers(job), job.checkpoints.waiting(), failed) == ([4], 0, [])
    assert [job.pin_path(number).exists() for number in (1, 2, 3, 4)] == [False, False, False, True]


INTERVAL = 10.0


class Once:
    """A source that says one time that something has moved."""

    def __init__(self) -> None:
        self.answers = [True]

    def moved(self) -> bool:
        return bool(self.answers and self.answers.pop())


class AheadClock(SystemClock):
    """The real clocks, a while ahead."""

    ahead = 0.0

    def lease_time(self) -> float:
        return super().lease_time() + self.ahead


@pytest.fixture
def clock() -> AheadClock:
    return AheadClock()


@pytest.fixture
def live(config: HaConfig) -> Path:
    """A directory whose query has not committed its last batch yet."""
    live = copy_live(config.work_path / LIVE)
    commits = live / QUERY / "commits"
    newest = max(int(path.name) for path in commits.glob("[0-9]*"))
    (commits / str(newest)).rename(live / f".{newest}")
    return live


@pytest.fixture
def looking_publisher(job: Job, live: Path, clock: AheadClock) -> Publisher:
    registry = QueryRegistry(clock)
    registry.add(StartedQuery(QUERY, SimpleNamespace(), SinkSpec(SinkKind.OTHER, "noop"), LocalTree(live / QUERY)))
    registry.script_waits()
    return Publisher(
        store=job.checkpoints,
        leadership=job.leadership,
        registry=registry,
        origin=Origin(OriginKind.FRESH, LIVE, LocalTree(live)),
        provenance=Provenance(JOB, 1, "g", "4.2.0"),
        options=HaOptions(checkpoint_interval=INTERVAL),
        area=LinkedWorkArea(job.config.work_path),
        clock=clock,
        source=Once(),
    )


def commit(live: Path) -> None:
    """Commit the last batch."""
    (held,) = live.glob(".[0-9]*")
    held.rename(live / QUERY / "commits" / held.name.removeprefix("."))


def test_commits_without_a_report_wait_for_the_next_look(
    looking_publisher: Publisher, live: Path, clock: AheadClock
) -> None:
    assert looking_publisher.tick() is not None
    commit(live)
    clock.ahead = INTERVAL

    assert looking_publisher.tick() is None


def test_commits_that_were_looked_at_are_published_when_the_interval_is_over(
    looking_publisher: Publisher, live: Path, clock: AheadClock
) -> None:
    """The query may be idle from then on, and report nothing more."""
    source = looking_publisher._source
    assert isinstance(source, Once)
    assert looking_publisher.tick() is not None
    commit(live)
    source.answers = [True]
    assert looking_publisher.tick() is None

    clock.ahead = INTERVAL

    assert looking_publisher.tick() is not None


def test_a_look_that_failed_is_repeated(looking_publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its source says only once that something has moved."""
    record = looking_publisher.record
    failures = [StorageUnavailableError("the disk does not answer")]

    def fail_once() -> dict[str, int]:
        if failures:
            raise failures.pop()
        return record()

    monkeypatch.setattr(looking_publisher, "record", fail_once)
    with pytest.raises(StorageUnavailableError):
        looking_publisher.tick()

    assert looking_publisher.tick() is not None
