"""The publisher on a disk that is really full: it says so in the status, lives, and publishes once there is room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.checkpointing.publish_loop import PublishLoop
from airflow_provider_ha.driver.checkpointing.publisher import Provenance, Publisher
from airflow_provider_ha.driver.members.run_writer import JobWriter
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.model import Status
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.journal import JobJournal
from airflow_provider_ha.storage.keys import JobKeys
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint
from tests.support.clusters.coordination_helpers import JOB
from tests.support.clusters.full_disk import SmallDisk, config_on, small_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "work", size="4m", inodes=500) as mounted:
        yield mounted


@pytest.fixture
def config(zookeeper: str, tmp_path: Path, disk: SmallDisk) -> HaConfig:
    """A cluster whose work root is a separate disk."""
    return config_on(disk, zookeeper, tmp_path)


def loop_of(job: Job, disk: SmallDisk, died: list[BaseException]) -> PublishLoop:
    """Return the loop of a driver with one query that has committed three batches."""
    clock, registry = SystemClock(), QueryRegistry(SystemClock())
    live = checkpoint(job.config.work_path / JobKeys(JOB).working_directory(1, "a") / QUERY).parent
    registry.add(StartedQuery(QUERY, SimpleNamespace(), SinkSpec(SinkKind.OTHER, "noop"), LocalTree(live / QUERY)))
    registry.script_waits()
    publisher = Publisher(
        store=job.checkpoints,
        leadership=job.leadership,
        registry=registry,
        origin=Origin(OriginKind.FRESH, JobKeys(JOB).working_directory(1, "a"), LocalTree(live)),
        provenance=Provenance(JOB, 1, "g", "4.2.0"),
        options=HaOptions(checkpoint_interval=0.0),
        area=LinkedWorkArea(job.config.work_path),
        clock=clock,
    )
    writer = JobWriter(
        coordinator=job.coordinator,
        paths=job.paths,
        graphs=JobGraphStore(job.coordinator, job.objects, job.paths),
        journal=JobJournal(job.objects, job.keys),
        leadership=job.leadership,
        registry=registry,
        run=1,
        clock=clock,
    )
    return PublishLoop(
        publisher,
        writer,
        registry,
        Lifecycle(),
        died.append,
        settled=lambda: None,
        running=lambda: None,
        clean=lambda _: True,
    )


def message(job: Job) -> str:
    found = read_record(job.coordinator, job.paths.status, Status)
    return found[0].message if found else ""


def test_full_disk_is_told_in_the_status_and_the_checkpoint_follows_once_there_is_room(
    job: Job, disk: SmallDisk
) -> None:
    loop = loop_of(job, disk, [])
    disk.fill_inodes()

    loop.tick()

    assert "No space left on device" in message(job)
    assert job.checkpoints.latest_number() is None
    disk.free()
    loop.tick()
    assert message(job) == ""
    assert job.checkpoints.latest_number() == 1
