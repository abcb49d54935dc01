"""A job on S3 or on HDFS: some of its checkpoints are deleted, all of it but its savepoint, or its whole cluster is."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.cluster_removal import erase_cluster
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.removal.job_deletion import DeletionState
from tests.support.spark.driver_helpers import PATIENCE, Stream
from tests.support.spark.layered_job import LayeredJob, on_hdfs, on_s3, s3a_class_path


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
AN_HOUR = 3600.0
HDFS_CLIENT = {"spark.hadoop.dfs.replication": "1", "spark.hadoop.dfs.client.use.datanode.hostname": "true"}


@pytest.fixture(params=["s3", pytest.param("hdfs", marks=pytest.mark.hours)])
def config(config: HaConfig, request: pytest.FixtureRequest, tmp_path: Path) -> HaConfig:
    if request.param == "s3":
        return on_s3(config, request.getfixturevalue("s3"), tmp_path)
    return on_hdfs(config, request.getfixturevalue("hdfs"), tmp_path)


def left(job: LayeredJob) -> set[str]:
    """Return the first names below the job of every file in the store that it works in."""
    base = f"{job.job._job.keys.base}/"
    found = [*job.files.list(base), *job.files.prepared(base)]
    return {file.key.removeprefix(base).partition("/")[0] for file in found}


@pytest.mark.hours
def test_a_deleted_job_leaves_its_savepoint_or_nothing(client: HaClient, config: HaConfig, tmp_path: Path) -> None:
    conf = s3a_class_path() if config.s3 is not None else dict(HDFS_CLIENT)
    job = LayeredJob(client, Stream(tmp_path), ("windows",), conf=conf)
    job.stream.feed(3)
    job.submit()
    job.await_sink(2)
    job.kill()  # so that a second epoch has a base on the first one's files
    job.recover()
    job.stream.feed(1)
    job.await_read(2)
    asked = job.job.request_savepoint(operation_id=new_id(), requested_by="test")
    job.await_alive(lambda: job.operation(asked.operation_id).state.final, "the savepoint")
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
    savepoint = str(job.operation(asked.operation_id).result["savepoint_id"])
    assert {"live", "savepoints"} <= left(job)

    kept = client.job(job.job_id).delete(requested_by="test", keep_savepoints=True)

    assert kept.state is DeletionState.DELETED
    assert client.list_jobs() == []
    assert left(job) <= {"savepoints"}
    assert client.job(job.job_id).savepoints.verify(savepoint) == []

    gone = client.job(job.job_id).delete(requested_by="test", keep_savepoints=False)

    assert gone.state is DeletionState.DELETED
    assert left(job) == set()
    assert list(client.store.list(f"{job.job._job.keys.base}/")) == []


def await_answer(job: LayeredJob, operation_id: str) -> None:
    job.await_alive(lambda: job.operation(operation_id).state.final, "the answer")


@pytest.mark.hours
def test_deleted_checkpoints_of_a_running_job_leave_what_it_is_recovered_from(
    client: HaClient, config: HaConfig, tmp_path: Path
) -> None:
    """The oldest of three has a pointer that cannot be read."""
    conf = s3a_class_path() if config.s3 is not None else dict(HDFS_CLIENT)
    job = LayeredJob(client, Stream(tmp_path), ("windows", "rows"), conf=conf)
    job.options = HaOptions(
        checkpoint_interval=AN_HOUR, restart_delay=0, restart_in_place=False, retained_checkpoints=5
    )
    job.stream.feed(1)
    job.submit()
    for name in ("first", "second", "third"):
        job.await_read(1)
        job.job.request_checkpoint(operation_id=name, requested_by="test")
        await_answer(job, name)
        job.stream.feed(1)
    newest, middle, *_, oldest = (pointer.number for pointer in job.job.checkpoints.list())
    client.coordinator.commit(SetData(job.job._job.paths.checkpoint(oldest), b"garbage"))

    removals = [job.job.plan_checkpoint_deletion(str(number)) for number in (middle, oldest)]
    for removal in removals:
        job.job.delete_checkpoint(removal, requested_by="test")
    job.await_read(1)
    job.kill()
    job.recover()
    job.await_read(2)

    assert [removal.proven for removal in removals] == [f"checkpoint-{newest}"] * 2
    numbers = {each.number for each in job.job.checkpoints.list()}
    assert newest in numbers
    assert not numbers & {middle, oldest}
    assert client.store.info(removals[1].kept or "") is not None
    assert job.job.checkpoints.list().unreadable == ()
    job.job.request_savepoint(operation_id="kept", requested_by="test")
    await_answer(job, "kept")
    savepoint = str(job.operation("kept").result["savepoint_id"])
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
    assert job.stream.seen() == job.stream.expected_rows(job.stream.files)

    erase(client)

    assert client.list_jobs() == []
    assert left(job) <= {"savepoints"}
    assert client.job(job.job_id).savepoints.verify(savepoint) == []


def erase(client: HaClient) -> None:
    """End the life of the cluster, as ``spark-ha delete cluster`` does."""
    with ClusterLeader(client, by="test", address="test") as leader:
        leader.lead(timeout=PATIENCE)
        erase_cluster(client, leader.leadership, by="test")
