"""A standby driver on a standalone cluster, which loses drivers, a master and hosts in turn.

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
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.standbys import StandbyLevel
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.standalone_cluster import StandaloneCluster, command_of, standalone_cluster
from tests.support.clusters.standalone_requests import (
    MARKS,
    PATIENCE,
    SMALL_EXECUTOR,
    await_output,
    newest,
    recover_once_lost,
    submit_counts,
)
from tests.support.clusters.standalone_standbys import (
    all_ready,
    await_takeover,
    driver_on,
    kill_at_once,
    ready,
    request_standbys,
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
    """Two workers, or what the test wants, that have room for one driver and one executor each."""
    shape = {"hosts": 2, "memory": "1800m", **getattr(request, "param", {})}
    with standalone_cluster(tmp_path_factory.mktemp("standalone"), masters=2, **shape) as running:
        yield running


@pytest.fixture
def job(client: HaClient, cluster: StandaloneCluster, stream: Stream) -> JobClient:
    """The job after its first batches, with a standby driver for each further worker, or one for the only worker."""
    job = client.job("counts")
    options = HaOptions(
        checkpoint_interval=0,
        restart_delay=0,
        allow_remote_executors=True,
        standby_drivers=max(1, len(cluster.hosts) - 1),
        class_archive=False,
    )
    submit_counts(job, cluster, stream, SMALL_EXECUTOR, options)
    await_output(stream)
    return job


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
    assert [request_standbys(job) for _ in range(2)] == [1, 0]
    (waits,) = job.standbys(job.snapshot())
    assert (waits.level, waits.note) == (StandbyLevel.REQUESTED, "no worker has room for it yet")

    other.write_config(job.config)
    cluster.make_whole()
    third = ready(job)
    assert third.standby_id == waits.standby_id
    assert cluster.host_of(third.standby_id) is other

    job.request_stop(operation_id=new_id(), requested_by="test", mode="suspend")
    wait_until(lambda: not job.snapshot().leader, timeout=PATIENCE, what="the end of the job")
    wait_until(lambda: not cluster.hosts[0].executors(), timeout=PATIENCE, what="the end of its executors")


@pytest.mark.parametrize("cluster", [{"hosts": 3}], indirect=True, ids=["3"])
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


def test_a_job_that_loses_both_drivers_at_once_is_recovered_and_gets_another_standby_driver(
    job: JobClient, cluster: StandaloneCluster, stream: Stream
) -> None:
    first = ready(job)
    ids = (newest(job).submission_id, first.standby_id)
    stream.feed(1)
    kill_at_once([each for name in ids for each in driver_on(cluster.host_of(name), name)])
    await_output(stream)
    led = newest(job)
    assert (led.attempt, led.standby) == (2, False), "the supervisor of the leader has started it"
    second = ready(job)
    assert second.standby_id != first.standby_id

    starters = [each for host in cluster.hosts for each in host.processes() if "DriverWrapper" in command_of(each)]
    kill_at_once([each for starter in starters for each in (starter, *starter.children(recursive=True))])
    recover_once_lost(job, stream)
    led = newest(job)
    assert (led.attempt, led.standby) == (3, False)
    assert ready(job).standby_id not in (first.standby_id, second.standby_id)


@pytest.mark.parametrize("cluster", [{"hosts": 1, "memory": "8g"}], indirect=True, ids=["1"])
def test_a_standby_driver_beside_the_leader_takes_over_on_their_host_and_is_lost_with_it(
    job: JobClient, cluster: StandaloneCluster, stream: Stream
) -> None:
    (host,) = cluster.hosts
    standby = ready(job)
    assert standby.host == host.name
    assert cluster.await_workers().drivers("KILLED") == 2, "it was started again twice, to be placed elsewhere"
    leader = newest(job).submission_id
    kill_at_once(driver_on(host, leader))
    await_takeover(job, stream, standby)
    assert ready(job).host == host.name

    host.lose()
    wait_until(lambda: job.snapshot().state is JobState.LOST, timeout=PATIENCE, what="the loss")
    wait_until(lambda: not job.standbys(job.snapshot()), timeout=PATIENCE, what="the loss of its standby driver")
    host.write_config(job.config)
    cluster.make_whole()
    cluster.await_workers()
    recover_once_lost(job, stream)
    assert (newest(job).attempt, newest(job).standby) == (3, False)
    assert ready(job).host == host.name
