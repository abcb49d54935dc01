"""A recovery of a job whose savepoint keeps very many payloads: real storage, a real ZooKeeper, no Spark."""

from __future__ import annotations

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
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.checkpointing.publish_loop import PublishLoop, RemovalTurns
from airflow_provider_ha.driver.checkpointing.publisher import MAX_WAITING, Provenance, Publisher
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.checkpoints.written_query import WrittenQuery, payload
from tests.support.clusters.coordination_helpers import JOB
from tests.support.s3 import versitygw
from tests.support.s3.s3_server import real_server
from tests.support.spark.recorded_job import copy_live


Fill = Callable[[str, bytes], None]


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator) -> Iterator[Job]:
    with led_job(config, coordinator) as led:
        yield led


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
