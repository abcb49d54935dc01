"""Jobs of many runs or many payloads: bounded remains and a recovery. No Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store import payload_history
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig, Retention
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.checkpointing.publish_loop import PublishLoop, RemovalTurns
from airflow_provider_ha.driver.checkpointing.publisher import MAX_WAITING, Provenance, Publisher
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.checkpoints.written_query import WrittenQuery, payload
from tests.support.clusters.aged_job import RETAINED_CHECKPOINTS, AgedJob, Size
from tests.support.clusters.coordination_helpers import JOB
from tests.support.s3 import versitygw
from tests.support.s3.s3_server import real_server
from tests.support.spark.recorded_job import copy_live


Fill = Callable[[str, bytes], None]


@pytest.fixture
def local(job: Job) -> tuple[ObjectStore, Fill]:
    """The local storage of the job, and a fast way to fill it."""
    return job.objects, filling(job.config.work_path)


@pytest.fixture
def remote() -> Iterator[tuple[ObjectStore, Fill]]:
    """A bucket of a real S3 server, and a fast way to fill it: behind the server's back."""
    with real_server() as server:
        bucket = server.new_bucket()
        store = server.store(bucket)
        data = next(versitygw.CACHE.glob(f"versitygw-*/data/{bucket}"), None)
        yield store, store.create if data is None else filling(data / "prefix" / "cluster")


LIVE = JobKeys(JOB).working_directory(2, "a")


def filling(root: Path) -> Fill:
    """Return a function that makes an object as a file."""

    def fill(key: str, data: bytes) -> None:
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return fill


class Recovered:
    """A driver after a loss: epoch 2 of a job whose first epoch has left payloads that one savepoint keeps."""

    def __init__(
        self, job: Job, store: ObjectStore, fill: Fill, tmp_path: Path, *, count: int, interval: float
    ) -> None:
        self.job, self.store, self.interval = job, store, interval
        job.savepoints.create(job.leadership.commit, job.request("kept", 1), LocalTree(copy_live(tmp_path / "saved")))
        like = job.checkpoint(1, 1, pin=False)
        for number in range(1, count + 1):
            # The epochs of before are lower than any that leads.
            fill(job.keys.payload(number, 0), payload(like, number, 0).to_bytes())
        self.checkpoints = CheckpointStore(
            job.coordinator, store, job.paths, job.keys, LinkedWorkArea(job.config.work_path)
        )
        self.checkpoints.add(job.leadership, payload(like, count + 1, job.leadership.epoch))
        self.query = WrittenQuery(job.config.work_path / LIVE, batch=count + 1)
        self.times: list[float] = []
        self.failed: list[BaseException] = []
        self.loop = self._loop()

    def _loop(self) -> PublishLoop:
        clock, registry = SystemClock(), self.query.registry(SystemClock())
        publisher = Publisher(
            store=self.checkpoints,
            leadership=self.job.leadership,
            registry=registry,
            origin=Origin(OriginKind.RECOVERY, LIVE, LocalTree(self.query.live)),
            provenance=Provenance(JOB, 1, "g", "4.2.0"),
            options=HaOptions(checkpoint_interval=self.interval, retained_checkpoints=1),
            area=LinkedWorkArea(self.job.config.work_path),
            clock=clock,
        )
        writer: Any = SimpleNamespace(set_state=lambda *_: None, publish_status=self._seen)
        cleaning = RemovalTurns(self.checkpoints, self.job.leadership, clock, lambda: iter(()))
        return PublishLoop(
            publisher,
            writer,
            registry,
            Lifecycle(),
            self.failed.append,
            settled=lambda: None,
            running=lambda: None,
            clean=cleaning.turn,
        )

    def _seen(self, number: int | None) -> None:
        """Called after each tick; as soon as a checkpoint is there the next batch is committed."""
        if number is not None and number >= self.expected:
            self.times.append(time.monotonic())
            self.query.commit()

    @property
    def expected(self) -> int:
        return self.first + len(self.times)

    def publish(self, count: int) -> None:
        """Go on until so many checkpoints are published."""
        self.first = self.checkpoints.next_number()
        self.times = []
        began = time.monotonic()
        self.query.commit()
        self.loop.start()
        wait_until(lambda: len(self.times) >= count or self.failed, timeout=60 + count * self.interval * 3, what="them")
        self.times.insert(0, began)

    @property
    def longest_pause(self) -> float:
        """Seconds between two checkpoints, the recovery included."""
        return max(after - before for before, after in pairwise(self.times))


def test_a_recovery_publishes_while_a_savepoint_keeps_many_payloads(
    job: Job, local: tuple[ObjectStore, Fill], tmp_path: Path
) -> None:
    driver = Recovered(job, *local, tmp_path, count=500, interval=0.05)

    driver.publish(MAX_WAITING + 3)
    driver.loop.stop()

    assert (driver.failed, driver.checkpoints.waiting()) == ([], 0)


@pytest.mark.long
@pytest.mark.hours
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("place", ["local", "remote"])
def test_a_recovery_with_250_000_kept_payloads_publishes_within_two_intervals(
    job: Job, place: str, tmp_path: Path, request: pytest.FixtureRequest, tell: Callable[[str], None]
) -> None:
    """[review B3] Fails when a collection reads everything first: after eleven checkpoints none is published."""
    store, fill = request.getfixturevalue(place)
    driver = Recovered(job, store, fill, tmp_path, count=250_000, interval=3.0)

    driver.publish(MAX_WAITING * 2)
    driver.loop.stop()

    tell(f"{place}: {len(driver.times) - 1} checkpoints, the longest pause {driver.longest_pause:.2f} s of 6 s")
    assert driver.failed == []
    assert driver.longest_pause < 2 * driver.interval


def test_payloads_that_one_savepoint_keeps_become_few_archives(
    job: Job, local: tuple[ObjectStore, Fill], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload_history, "MOST_PAYLOADS", 20)
    driver = Recovered(job, *local, tmp_path, count=200, interval=0.0)
    before = {each.number for each in driver.checkpoints.payloads()}

    driver.checkpoints.collect(job.leadership, lambda: True)

    assert len(list(job.objects.list(job.keys.payloads))) == 1  # of the checkpoint that has a pointer
    assert len(list(job.objects.list(job.keys.archive_heads))) == 10
    assert {each.number for each in driver.checkpoints.payloads()} == before


EPOCHS = 50

NOTES, NOTE_BYTES = 250, 150  # runs in one node with notes about their two tasks, and the bytes for each

SHORT = Retention(runs=10, days=1)  # in a day 24 runs begin and end


def assert_bounded(later: Size, earlier: Size, *, runs: int) -> None:
    """Only the notes about requests may grow, and what is kept of the newest 50 epochs, which few runs do not have."""
    assert later.znodes <= earlier.znodes * 1.1 + runs / NOTES
    assert later.tree_bytes <= earlier.tree_bytes * 1.1 + runs * NOTE_BYTES
    assert later.widest <= earlier.widest * 1.1
    assert later.files <= earlier.files * 1.1 + EPOCHS
    assert later.directories <= earlier.directories * 1.1 + EPOCHS
    assert later.blobs <= earlier.blobs * 1.1 + 10
    assert later.file_bytes <= earlier.file_bytes * 1.1 + EPOCHS * 500


def assert_notes(job: AgedJob) -> None:
    """Those are left that a restore of the oldest retained checkpoint can need; each led run makes a checkpoint."""
    oldest = job.runs - (RETAINED_CHECKPOINTS - 1) * job.led_every

    assert sorted(job.given("rows").epochs()) == list(range(oldest, job.runs + 1))


@pytest.mark.long
def test_what_two_hundred_runs_leave_is_bounded(config: HaConfig, coordinator: Coordinator) -> None:
    job = AgedJob(config.model_copy(update={"retention": SHORT}), coordinator)
    job.live(100)
    earlier = job.measure()

    job.live(100)

    assert_bounded(job.measure(), earlier, runs=100)
    assert_notes(job)


@pytest.fixture
def patient(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgedJob]:
    """A job whose leases outlast a busy machine, and whose files are not flushed: no host crashes here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    timings = config.timings.model_copy(update={"session_timeout": 30.0})
    slow = config.model_copy(update={"retention": SHORT, "timings": timings})
    session = KazooCoordinator.connect(slow)
    yield AgedJob(slow, session, led_every=50)
    session.close()


@pytest.mark.hours
@pytest.mark.apart
@pytest.mark.long
@pytest.mark.timeout(7200)
def test_what_ten_thousand_runs_leave_is_bounded(patient: AgedJob) -> None:
    patient.live(2_000)
    earlier = patient.measure()

    patient.live(8_000)

    later = patient.measure()
    print(f"after 2,000 runs {earlier}; after 10,000 {later}")
    assert_bounded(later, earlier, runs=8_000)
    assert len(patient.context.runs.numbers()) <= 80
    assert_notes(patient)


@pytest.mark.long
def test_a_job_that_has_grown_shrinks_in_small_steps(config: HaConfig, coordinator: Coordinator) -> None:
    """As after a time in which no run was removed."""
    job = AgedJob(config.model_copy(update={"retention": SHORT}), coordinator, cleaning=False)
    job.live(100)
    grown = job.measure()

    job.cleaning = True
    job.live(10)

    assert len(job.context.runs.numbers()) <= 40
    assert job.measure().znodes < grown.znodes / 2
