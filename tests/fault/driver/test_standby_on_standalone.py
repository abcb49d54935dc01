"""A standby driver on another host of a standalone cluster, which loses a driver, a master and a host in turn.

Everything is real: two masters, two workers on test hosts with separate disks, an executor on each, and an S3 server.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel
from airflow_provider_ha.jobs.submit.standby_launch import launch_standbys
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.standalone_cluster import StandaloneCluster, standalone_cluster
from tests.support.clusters.standalone_requests import (
    MARKS,
    PATIENCE,
    SMALL_EXECUTOR,
    await_output,
    newest,
    submit_counts,
)
from tests.support.s3.s3_server import S3Access
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.layered_job import on_s3


pytestmark = [*MARKS, pytest.mark.hours, pytest.mark.timeout(1800)]


@pytest.fixture
def config(config: HaConfig, s3: S3Access, tmp_path: Path) -> HaConfig:
    """A cluster on S3."""
    return on_s3(config, s3, tmp_path)


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[StandaloneCluster]:
    """Two workers, or as many as the test wants, that have room for one driver and one executor each."""
    root = tmp_path_factory.mktemp("standalone")
    with standalone_cluster(root, masters=2, hosts=getattr(request, "param", 2), memory="1800m") as running:
        yield running


@pytest.fixture
def job(client: HaClient, cluster: StandaloneCluster, stream: Stream) -> JobClient:
    """The job after its first batches, which has requested a standby driver for each further worker."""
    job = client.job("counts")
    options = HaOptions(
        checkpoint_interval=0,
        restart_delay=0,
        allow_remote_executors=True,
        standby_drivers=len(cluster.hosts) - 1,
        class_archive=False,
    )
    submit_counts(job, cluster, stream, SMALL_EXECUTOR, options)
    await_output(stream)
    return job


def ready(job: JobClient) -> Standby:
    """Wait until a standby driver has a warm session with an executor."""
    return all_ready(job, 1)[0]


def all_ready(job: JobClient, count: int) -> list[Standby]:
    """Wait until so many standby drivers have one."""

    def found() -> list[Standby] | None:
        warm = [each for each in job.standbys(job.snapshot()) if each.level is StandbyLevel.SESSION]
        return warm if len(warm) >= count else None

    return wait_until(found, timeout=PATIENCE, what=f"{count} standby drivers")


def await_takeover(job: JobClient, stream: Stream, standby: Standby) -> None:
    """Wait until the standby driver leads, and has committed what came in the meantime."""
    stream.feed(1)
    wait_until(lambda: newest(job).submission_id == standby.standby_id, timeout=PATIENCE, what="the takeover")
    await_output(stream)


def test_a_standby_driver_on_another_host_takes_over_from_a_driver_and_from_a_host(
    job: JobClient, cluster: StandaloneCluster, stream: Stream
) -> None:
    first = ready(job)
    leader, other = (cluster.host_of(each) for each in (newest(job).submission_id, first.standby_id))
    assert other is not leader

    leader.supervisor_of(newest(job).submission_id).children()[0].kill()
    await_takeover(job, stream, first)
    second = ready(job)
    assert cluster.host_of(second.standby_id) is leader, "the supervisor of the lost driver has started it"

    active = cluster.active
    assert active is not None
    active.kill()
    cluster.await_workers()
    other.lose()
    await_takeover(job, stream, second)

    run = job.snapshot().run
    assert run is not None
    assert [view.submission.standby for view in run.submissions] == [False, True, True]
    context = job._job
    engine = context.engines.get("standalone")
    assert [launch_standbys(context, run.run, engine) for _ in range(2)] == [1, 0]
    (waits,) = job.standbys(job.snapshot())
    assert (waits.level, waits.note) == (StandbyLevel.REQUESTED, "no worker has room for it yet")

    (other.disk / "etc").mkdir(parents=True)
    other.write_config(context.config)
    cluster.make_whole()
    third = ready(job)
    assert third.standby_id == waits.standby_id
    assert cluster.host_of(third.standby_id) is other

    job.request_stop(operation_id=new_id(), requested_by="test", mode="suspend")
    wait_until(lambda: not job.snapshot().leader, timeout=PATIENCE, what="the end of the job")
    wait_until(lambda: not cluster.hosts[0].executors(), timeout=PATIENCE, what="the end of its executors")


@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_of_two_standby_drivers_on_two_hosts_one_takes_over_and_the_other_waits(
    job: JobClient, cluster: StandaloneCluster, stream: Stream
) -> None:
    waiting = {each.standby_id: cluster.host_of(each.standby_id) for each in all_ready(job, 2)}
    lost = cluster.host_of(newest(job).submission_id)
    assert len({host.name for host in (lost, *waiting.values())}) == 3

    lost.lose()
    stream.feed(1)
    wait_until(lambda: newest(job).submission_id in waiting, timeout=PATIENCE, what="the takeover")
    await_output(stream)

    (left,) = waiting.keys() - {newest(job).submission_id}
    assert left in [each.standby_id for each in all_ready(job, 1)]
    run = job.snapshot().run
    assert run is not None
    assert [view.submission.standby for view in run.submissions] == [False, True]
