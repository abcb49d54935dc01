"""The cores and executors of a standby driver on a standalone cluster, which others use too.

Everything is real: two workers on test hosts with four cores each, which a leader, its standby driver, their executors
and another application share.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.standbys import StandbyLevel
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
from tests.support.clusters.standalone_standbys import (
    await_cores,
    await_standby,
    await_takeover,
    driver_on,
    executors_of,
    kill_at_once,
    other_application,
    ready,
    request_standbys,
)
from tests.support.spark.driver_helpers import Stream


pytestmark = [*MARKS, pytest.mark.hours, pytest.mark.timeout(1800)]

CORES = 8  # of the cluster
ONE_STANDBY = HaOptions(
    checkpoint_interval=0, restart_delay=0, allow_remote_executors=True, standby_drivers=1, class_archive=False
)
ONE_CORE_EACH = {"spark.executor.cores": "1", "spark.executor.memory": "512m"}


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Two workers."""
    with standalone_cluster(tmp_path_factory.mktemp("standalone"), hosts=2, cores=CORES // 2) as running:
        yield running


@pytest.fixture
def job(client: HaClient) -> JobClient:
    """The job; it is not submitted yet."""
    return client.job("counts")


def end(job: JobClient, cluster: StandaloneCluster) -> None:
    """Suspend the job, and wait until nothing of it holds a core."""
    job.request_stop(operation_id=new_id(), requested_by="test", mode="suspend")
    await_cores(cluster, 0, "all is given back")


def test_on_a_full_cluster_the_leader_goes_first_and_a_standby_driver_says_what_it_waits_for(
    job: JobClient, cluster: StandaloneCluster, stream: Stream
) -> None:
    with other_application(cluster, 5):
        with other_application(cluster, 1):
            submit_counts(job, cluster, stream, SMALL_EXECUTOR, ONE_STANDBY)
            await_cores(cluster, CORES, "the drivers of leader and standby hold the last ones")
            await_output(stream)  # the standby driver has left its core to the executor of the leader
            assert not job.standbys(job.snapshot())

            assert [request_standbys(job) for _ in range(2)] == [1, 0]
            queued = await_standby(job, StandbyLevel.REQUESTED, "no worker has room for it yet")
            stream.feed(1)
            await_output(stream)

        without_executor = await_standby(job, StandbyLevel.CONNECTED, "its session has no executor")
        assert cluster.cores_used == CORES
        stream.feed(1)
        await_output(stream)
        assert job.standbys(job.snapshot()) == (without_executor,)

    assert ready(job).standby_id == without_executor.standby_id == queued.standby_id
    assert (job.snapshot().epoch, newest(job).attempt) == (1, 1)
    end(job, cluster)


def test_a_standby_driver_holds_one_executor_gives_it_back_to_a_job_that_is_lost_and_leads_with_all(
    job: JobClient, cluster: StandaloneCluster, stream: Stream
) -> None:
    waits = {"restart_delay": 150.0, "restart_delay_max": 150.0, "restart_reset_after": 3600.0}
    conf = {**ONE_CORE_EACH, "spark.cores.max": "2"}
    submit_counts(job, cluster, stream, conf, ONE_STANDBY.model_copy(update=waits))
    first = ready(job)
    await_cores(cluster, 5, "two drivers, two executors, and the one of the standby driver")
    of_leader, of_standby = (name for name, _ in executors_of(cluster).most_common())
    assert executors_of(cluster) == {of_leader: 2, of_standby: 1}

    leader = newest(job).submission_id
    kill_at_once(driver_on(cluster.host_of(leader), leader))
    await_takeover(job, stream, first)
    second = ready(job)
    await_cores(cluster, 5, "as before, with the next standby driver")
    assert (executors_of(cluster)[of_leader], executors_of(cluster)[of_standby]) == (0, 2)

    cluster.host_of(first.standby_id).supervisor_of(first.standby_id).kill()
    stream.feed(1)
    wait_until(lambda: job.snapshot().state is JobState.LOST, timeout=PATIENCE, what="the loss")
    await_cores(cluster, 1, "only the driver of the standby driver is left")
    assert newest(job).submission_id == first.standby_id, "it does not lead yet"
    await_takeover(job, stream, second)
    await_cores(cluster, 3, "the promoted driver has all executors")
    end(job, cluster)


def test_with_dynamic_allocation_spark_gives_executors_to_a_driver_that_leads_and_none_to_one_that_waits(
    job: JobClient, cluster: StandaloneCluster, stream: Stream
) -> None:
    idle = {"executorIdleTimeout": "5s", "shuffleTracking.timeout": "5s", "minExecutors": "0", "maxExecutors": "2"}
    allocation = {"enabled": "true", "shuffleTracking.enabled": "true", **idle}
    conf = {f"spark.dynamicAllocation.{key}": value for key, value in allocation.items()}
    submit_counts(job, cluster, stream, {**ONE_CORE_EACH, **conf}, ONE_STANDBY)
    await_output(stream)
    standby = ready(job)
    await_cores(cluster, 2, "without work there are two drivers, and no executor")

    leader = newest(job).submission_id
    kill_at_once(driver_on(cluster.host_of(leader), leader))
    stream.feed(2)
    wait_until(lambda: executors_of(cluster).total() >= 2, timeout=PATIENCE, what="executors", interval=0.1)
    await_takeover(job, stream, standby)
    assert ready(job).standby_id != standby.standby_id
    await_cores(cluster, 2, "after the work there are two drivers, and no executor")
    end(job, cluster)
