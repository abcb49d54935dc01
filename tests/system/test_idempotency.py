"""One run and one driver, through every fate of the tasks: on a real Airflow, counted in ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.testing.waiting import wait_until
from tests.system.harness.servers import REPOSITORY
from tests.system.small_airflow import PATIENCE, CountedJob, Counts, HeldTask, SmallAirflow, alive, kill


pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def airflow() -> Iterator[SmallAirflow]:
    """One Airflow for all tests of this module; what an interrupted one left is ended first."""
    servers = SmallAirflow(REPOSITORY / "build" / "test-airflow")
    servers.prepare()
    servers.control.mkdir()
    try:
        servers.start()
        servers.wait_until_healthy()
        servers.wait_for_dags("submit_held", "savepoint_held")
        yield servers
    finally:
        servers.stop()


@pytest.fixture
def job(request: Any, airflow: SmallAirflow, zookeeper_session: Coordinator) -> Iterator[CountedJob]:
    """A job that only this test has; it is over afterwards, so that the next one has the cores."""
    job_id = request.node.name.removeprefix("test_")[:40].strip("_")
    counted = CountedJob.of(airflow, zookeeper_session, job_id)
    yield counted
    client = HaClient(airflow.config, zookeeper_session)
    if zookeeper_session.find(counted.paths.base) and counted.result() is None:
        client.job(job_id).request_cancel(operation_id="teardown", requested_by="test")
    wait_until(lambda: not counted.drivers(), timeout=PATIENCE, what="the driver to end")


def started(airflow: SmallAirflow, job: CountedJob, dag_id: str, holds: tuple[str, ...] = (), **conf: str) -> HeldTask:
    """Start a DAG run; *holds* are ``point-try`` pairs at which its task waits."""
    job_id = job.paths.job_id
    task_id, run_id = dag_id.partition("_")[0], f"{dag_id}-{job_id}"
    for held in holds:
        (airflow.control / f"{run_id}-{held}.hold").touch()
    run = airflow.api.trigger(dag_id, run_id, {"job_id": job_id, **conf})
    return HeldTask(airflow.api, run, task_id, airflow.control)


def lose_driver(job: CountedJob) -> None:
    [driver] = job.drivers()
    kill(driver.pid)


def lose_host(job: CountedJob) -> None:
    """Kill the supervisor, and its driver with it: nothing proves the loss, and the driver is not restarted there."""
    [driver] = job.drivers()
    kill(driver.ppid())


def test_a_retry_after_a_kill_before_and_after_the_submission_finds_the_run_again(
    airflow: SmallAirflow, job: CountedJob
) -> None:
    task = started(airflow, job, "submit_held", ("before-1", "after-2"))

    kill(task.held("before", 1))
    kill(task.held("after", 2))
    task.wait_for_try(3, "deferred")
    job.wait_until_running()

    assert not task.passed("before", 1)
    assert job.counts() == Counts()


def test_a_clear_while_deferred_attaches_to_the_same_run(airflow: SmallAirflow, job: CountedJob) -> None:
    task = started(airflow, job, "submit_held", when_killed="cancel")
    task.wait_for("deferred")
    job.wait_until_running()

    task.clear()
    task.wait_for_try(2, "deferred")

    # The trigger of the first try is told of its end late, up to 16 s measured: a savepoint is later than that,
    # and proves that the job still answers.
    started(airflow, job, "savepoint_held").wait_for("success")
    assert job.result() is None
    assert job.counts() == Counts(operations=1)


def test_two_live_processes_of_one_task_lead_to_one_run(airflow: SmallAirflow, job: CountedJob) -> None:
    task = started(airflow, job, "submit_held", ("before-1", "before-2"))
    orphan = psutil.Process(task.held("before", 1))

    kill(orphan.ppid())
    second = task.held("before", 2)
    assert alive(orphan), "the first process outlives its supervisor"
    assert second != orphan.pid
    task.release("before", 1)
    task.release("before", 2)
    task.wait_for("deferred")
    job.wait_until_running()

    wait_until(lambda: not alive(orphan), timeout=PATIENCE, what="the first process to end")
    assert task.passed("before", 1)
    assert job.counts() == Counts()


def test_a_second_triggerer_takes_over_the_loss_and_the_savepoint(airflow: SmallAirflow, job: CountedJob) -> None:
    submit = started(airflow, job, "submit_held")
    submit.wait_for("deferred")
    job.wait_until_running()
    lose_driver(job)
    job.wait_until_running(epoch=2)  # it is recovered at once; a second loss without a proof waits
    submit.wait_for("deferred")
    lose_host(job)
    wait_until(lambda: job.snapshot().state.value == "LOST", timeout=PATIENCE, what="the loss to be seen")
    savepoint = started(airflow, job, "savepoint_held")
    savepoint.wait_for("deferred")

    airflow.kill_triggerers()
    airflow.start_triggerer()

    job.wait_until_running(epoch=3)
    assert airflow.sessions_of_triggerers() == 1
    savepoint.wait_for("success")
    submit.wait_for("deferred")
    assert job.counts() == Counts(submissions={1: 3}, recoveries=2, epoch=3, operations=1)
    assert len(job.coordinator.children(job.paths.savepoints)) == 1


def test_a_savepoint_that_is_retried_and_cleared_is_asked_for_once(airflow: SmallAirflow, job: CountedJob) -> None:
    started(airflow, job, "submit_held")
    job.wait_until_running()
    task = started(airflow, job, "savepoint_held", ("before-1", "after-2"))

    kill(task.held("before", 1))
    kill(task.held("after", 2))
    # The whole DAG run: a clear in the moment in which it ends is lost in Airflow, its end overwrites the clear.
    airflow.api.wait_for_run(task.run, timeout=PATIENCE)
    first = airflow.api.xcom(task.run, "savepoint")
    tried = task.attempt
    task.clear()
    task.wait_until_done_again(tried)

    assert airflow.api.xcom(task.run, "savepoint") == first
    assert job.counts() == Counts(operations=1)
    assert len(job.coordinator.children(job.paths.savepoints)) == 1


def test_mark_failed_leaves_the_job_alone_by_default(airflow: SmallAirflow, job: CountedJob) -> None:
    task = started(airflow, job, "submit_held")
    task.wait_for("deferred")
    job.wait_until_running()
    before = job.snapshot().latest_checkpoint

    task.mark_failed()

    wait_until(lambda: airflow.sessions_of_triggerers() == 0, timeout=PATIENCE, what="the trigger to be over")
    wait_until(lambda: job.snapshot().latest_checkpoint != before, timeout=PATIENCE, what="a later checkpoint")
    assert job.counts() == Counts()


def test_mark_failed_cancels_the_job_when_that_is_asked_for(airflow: SmallAirflow, job: CountedJob) -> None:
    task = started(airflow, job, "submit_held", when_killed="cancel")
    task.wait_for("deferred")
    job.wait_until_running()

    task.mark_failed()

    wait_until(job.result, timeout=PATIENCE, what="the run to end")
    wait_until(lambda: not job.drivers(), timeout=PATIENCE, what="the driver to end")
    assert job.result() == "CANCELED"
    # The supervisor of the dead driver leads for the result, then for the clean-up; no other driver ever led.
    counts = wait_until(lambda: (now := job.counts()).epoch == 3 and now, timeout=PATIENCE, what="the clean-up")
    assert counts == Counts(operations=1, drivers=0, epoch=3)
