"""A real job goes from a mounted directory, or from HDFS, to S3, also when driver or mover are killed: exact output."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.move.move_records import MoveRequest
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers
from tests.support.clusters.submit_helpers import alive
from tests.support.hdfs.hdfs_server import hdfs_server
from tests.support.s3.s3_server import S3Access
from tests.support.spark.driver_helpers import PATIENCE, Stream
from tests.support.spark.layered_job import LayeredJob, on_hdfs, on_s3, s3a_class_path
from tests.support.spark.supervised_job import SupervisedJob, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
QUERIES = ("windows", "rows")
HDFS_CLIENT = {"spark.hadoop.dfs.replication": "1", "spark.hadoop.dfs.client.use.datanode.hostname": "true"}


@pytest.fixture
def there(config: HaConfig, s3: S3Access, tmp_path: Path) -> Iterator[HaClient]:
    """The new cluster, which works on S3."""
    other = HaConfig.model_validate({**config.model_dump(), "cluster_id": f"n-{new_id()[:12]}"})
    with HaClient.open(on_s3(other, s3, tmp_path / "new")) as opened:
        yield opened
        for job_id in opened.list_jobs():
            submit_helpers.kill_all(opened.job(job_id)._job)


Arrived = Callable[[SupervisedJob], LayeredJob]


@pytest.fixture
def arrived(there: HaClient) -> Arrived:
    """Return the job at its new place."""
    return lambda job: LayeredJob(there, job.stream, job.queries, job_id=job.job_id)


def request() -> MoveRequest:
    return MoveRequest(requested_by="test", stop=True, wait=PATIENCE, conf=s3a_class_path())


def goes_on(job: LayeredJob, files: int) -> None:
    """Feed the job, and compare all that it has ever written with the truth."""
    job.stream.feed(2)
    job.await_alive(lambda: job.job.snapshot().leader is not None, "the leader at the new place")
    leader = job.job.snapshot().leader
    assert leader is not None
    job.await_read(leader.epoch)
    terminate_and_compare(job, files)


def submitted(client: HaClient, folder: Path) -> SupervisedJob:
    """Return a job that has read what it was fed."""
    job = SupervisedJob(client, Stream(folder), QUERIES)
    job.stream.feed(3)
    job.submit()
    job.await_read(1)
    return job


def test_a_running_job_moves_from_a_mounted_directory_to_s3(
    client: HaClient, there: HaClient, tmp_path: Path, arrived: Arrived
) -> None:
    job = submitted(client, tmp_path)

    moved = client.move_job(job.job_id, there, request())

    assert (moved.state, moved.run) == ("moved", 1)
    goes_on(arrived(job), 5)
    with pytest.raises(JobStateError, match="was moved to cluster"):
        job.submit()


@pytest.mark.hours
def test_the_standby_driver_of_a_job_that_moves_ends_and_the_new_place_gets_another_one(
    client: HaClient, there: HaClient, tmp_path: Path, arrived: Arrived
) -> None:
    job = SupervisedJob(client, Stream(tmp_path), QUERIES)
    job.options = HaOptions(checkpoint_interval=0, standby_drivers=1, class_archive=False)
    job.stream.feed(3)
    job.submit()
    job.await_read(1)
    standby = job.await_standby()

    client.move_job(job.job_id, there, request())

    wait_until(lambda: not alive(standby.pid), timeout=PATIENCE, what="the end of the standby driver")
    assert job.standbys().living() == ()
    new = arrived(job)
    new.await_alive(lambda: new.job.snapshot().leader is not None, "the leader at the new place")
    new.await_standby()
    goes_on(new, 5)


@pytest.mark.hours
def test_a_mover_that_is_killed_while_it_copies_is_followed_by_one_that_goes_on(
    client: HaClient, there: HaClient, tmp_path: Path, arrived: Arrived
) -> None:
    job = submitted(client, tmp_path)
    job.stop("suspend")
    job.await_result()

    killed = _move_in_a_process(client.config, there.config, job.job_id, files=7)
    assert killed == -signal.SIGKILL
    assert there.context(job.job_id).runs.numbers() == []
    with pytest.raises(JobStateError, match="is being moved"):
        job.submit()

    moved = client.move_job(job.job_id, there, request())

    assert moved.run == 1
    goes_on(arrived(job), 5)


@pytest.mark.hours
def test_a_job_whose_driver_was_killed_moves_from_hdfs_to_s3(
    config: HaConfig, there: HaClient, tmp_path: Path, arrived: Arrived
) -> None:
    """Its output is ahead of its checkpoints: what it has is executed again at the new place, and not written again."""
    with hdfs_server() as hdfs, HaClient.open(on_hdfs(config, hdfs, tmp_path)) as here:
        job = LayeredJob(here, Stream(tmp_path), QUERIES, conf=dict(HDFS_CLIENT))
        job.stream.feed(3)
        job.submit()
        job.await_sink(2)
        job.kill()

        moved = here.move_job(job.job_id, there, request())

        assert moved.state == "moved"
        goes_on(arrived(job), 5)


def _move_in_a_process(here: HaConfig, there: HaConfig, job_id: str, *, files: int) -> int:
    """Move a job in a process that is killed when it is about to write so many files; return how it ended."""
    program = """
import os, signal, sys
from airflow_provider_ha import HaClient, HaConfig, MoveRequest
from airflow_provider_ha.checkpoints.areas.layered.layered_tree import LayeredTree

here, there = (HaConfig.model_validate_json(line) for line in sys.stdin)
create, written = LayeredTree.create, []

def until(tree, name, data):
    written.append(name)
    if len(written) > int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    create(tree, name, data)

LayeredTree.create = until
with HaClient.open(here) as old, HaClient.open(there) as new:
    old.move_job(sys.argv[1], new, MoveRequest(requested_by="killed"))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, job_id, str(files)],
        input=f"{here.to_private_json()}\n{there.to_private_json()}",
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    return done.returncode
