"""Copies of state on the disks of two hosts: tasks return to them, and what a lost disk had is read from the store.

Everything is real: two workers on test hosts with separate disks, an executor on each, and an S3 server.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.submissions import StateRestore
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.standalone_cluster import StandaloneCluster, TestHost
from tests.support.clusters.standalone_requests import (
    MARKS,
    PATIENCE,
    await_output,
    newest,
    recover_once_lost,
    submit_counts,
)
from tests.support.s3.s3_server import S3Access
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.layered_job import on_s3


pytestmark = [*MARKS, pytest.mark.hours, pytest.mark.timeout(1800)]
PARTITIONS = 4
TWO_EXECUTORS = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    # Otherwise the first batch may begin with one executor, which then has all partitions.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    # Two cores run the tasks of two queries: one that waits for its executor longer than this goes to the other one.
    "spark.locality.wait": "120s",
}
Place = tuple[str, str]  # query and partition


@pytest.fixture
def config(config: HaConfig, s3: S3Access, tmp_path: Path) -> HaConfig:
    """A cluster on S3."""
    return on_s3(config, s3, tmp_path)


@pytest.fixture
def job(client: HaClient, cluster: StandaloneCluster, stream: Stream) -> JobClient:
    """The job after three batches, with copies on both hosts."""
    job = client.job("counts")
    options = HaOptions(
        checkpoint_interval=0,
        restart_delay=0,
        allow_remote_executors=True,
        local_recovery=True,
        local_recovery_dir=str(cluster.hosts[0].mount_point / "copies"),
    )
    submit_counts(job, cluster, stream, TWO_EXECUTORS, options)
    await_output(stream)
    return job


def copied(host: TestHost) -> set[Place]:
    """Partitions of which a host has copies."""
    return {
        (path.parents[2].name, path.name)
        for path in host.disk.glob("copies/v1/**/state/0/*")
        if any(path.glob("*.zip"))
    }


def restores(job: JobClient) -> Mapping[str, StateRestore]:
    """Return the report of each query's restore, once both are final."""

    def final() -> dict[str, StateRestore] | None:
        status = job.snapshot().status
        found = {} if status is None else {name: query.state_restore for name, query in status.queries.items()}
        told = {name: report for name, report in found.items() if report is not None}
        return told if len(told) == 2 and status is not None and status.times.first_commit_seconds else None

    return wait_until(final, timeout=PATIENCE, what="the reports")


def test_after_the_loss_of_a_driver_every_partition_returns_to_the_host_with_its_copies(
    job: JobClient, cluster: StandaloneCluster, stream: Stream
) -> None:
    before = [copied(host) for host in cluster.hosts]

    submission = newest(job).submission_id
    for process in cluster.host_of(submission).of(submission):
        process.kill()
    recover_once_lost(job, stream)

    assert all(before)
    assert not before[0] & before[1]
    assert {name: (report.placed, report.store_files) for name, report in restores(job).items()} == {
        "rows": (PARTITIONS, 0),
        "windows": (PARTITIONS, 0),
    }
    assert [copied(host) for host in cluster.hosts] == before


def test_a_lost_disk_is_read_from_the_store_and_the_other_partitions_stay(
    job: JobClient, cluster: StandaloneCluster, stream: Stream
) -> None:
    before = {host.name: copied(host) for host in cluster.hosts}

    lost = cluster.host_of(newest(job).submission_id)

    lost.lose()
    recover_once_lost(job, stream)

    (stayed,) = (places for name, places in before.items() if name != lost.name)
    for query, report in restores(job).items():
        # All of them when a batch was replayed: it has made copies of every partition on this host.
        assert report.placed in (len([place for place in stayed if place[0] == query]), PARTITIONS)
        assert min(report.copy_files, report.store_files) > 0
