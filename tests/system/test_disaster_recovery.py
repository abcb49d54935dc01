"""The runbook DAG on a real Airflow: what it restored is followed, and no task waits for a restore that is refused.

Both tests look at one job, which the last of them stops.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.testing.waiting import wait_until
from tests.system.harness.rest import FINAL, DagRun
from tests.system.harness.servers import REPOSITORY
from tests.system.small_airflow import PATIENCE, CountedJob, Counts, SmallAirflow, kill


pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

JOB_ID = "told"
AFTER_RESTORE = ("follow", "wait_for_leader", "wait_for_checkpoint", "report")


@pytest.fixture(scope="module")
def airflow() -> Iterator[SmallAirflow]:
    """An Airflow with the DAGs that we ship."""
    servers = SmallAirflow(REPOSITORY / "build" / "test-airflow-recovery", shipped_dags=True)
    with servers.running("submit_told", "disaster_recovery", "stop_job"):
        yield servers


@pytest.fixture(scope="module")
def job(airflow: SmallAirflow, zookeeper_session: Coordinator) -> CountedJob:
    """The job, running."""
    airflow.api.trigger("submit_told", "submission", {"job_id": JOB_ID, "report": str(airflow.home / "report.json")})
    counted = CountedJob.of(airflow, zookeeper_session, JOB_ID)
    counted.wait_until_running()
    return counted


@pytest.fixture(scope="module")
def savepoint(airflow: SmallAirflow, job: CountedJob) -> str:
    """A savepoint of the job; the job is suspended."""
    assert job.result() is None
    return str(stop(airflow, "before", savepoint=True)["savepoint_id"])


@pytest.fixture(scope="module")
def restored(airflow: SmallAirflow, savepoint: str) -> DagRun:
    """A run of the runbook that has brought the suspended job back."""
    assert savepoint
    run = recovery(airflow, "restored")
    airflow.api.wait_for_task(run, "report", "success", timeout=PATIENCE)
    airflow.api.wait_for_task(run, "follow", "deferred", timeout=PATIENCE)
    return run


def recovery(airflow: SmallAirflow, run_id: str, **conf: str) -> DagRun:
    return airflow.api.trigger("disaster_recovery", run_id, {"source_job": JOB_ID, "job_id": JOB_ID, **conf})


def stop(airflow: SmallAirflow, run_id: str, **conf: Any) -> dict[str, Any]:
    run = airflow.api.trigger("stop_job", run_id, {"job_id": JOB_ID, "mode": "suspend", **conf})
    airflow.api.wait_for_run(run, timeout=PATIENCE)
    result: dict[str, Any] = airflow.api.xcom(run, "stop")
    return result


def test_nobody_waits_for_a_restore_that_is_refused(
    airflow: SmallAirflow, restored: DagRun, savepoint: str, job: CountedJob
) -> None:
    assert airflow.api.run_state(restored) == "running", "its run is live: the next restore is refused for that"
    refused = recovery(airflow, "refused", start_from=f"savepoint-{savepoint}")

    wait_until(lambda: airflow.api.run_state(refused) in FINAL, timeout=PATIENCE, what="the refused run to end")

    after = dict.fromkeys(AFTER_RESTORE, "upstream_failed")
    expected = {"select_checkpoint": "success", "plan": "success", "restore": "failed", **after}
    assert airflow.api.task_states(refused) == expected
    assert any("already has a live run, number 2" in line for line in airflow.api.log(refused, "restore"))
    assert job.counts().submissions == {1: 1, 2: 1}


def test_the_restored_run_is_recovered_after_a_loss_and_followed_to_its_end(
    airflow: SmallAirflow, restored: DagRun, job: CountedJob
) -> None:
    [driver] = job.drivers()

    kill(driver.pid)
    job.wait_until_running(epoch=3)
    recovered = job.counts()
    stop(airflow, "after")
    airflow.api.wait_for_run(restored, timeout=PATIENCE)

    assert recovered == Counts(submissions={1: 1, 2: 2}, recoveries=1, epoch=3, operations=1)
    followed = airflow.api.xcom(restored, "follow")
    assert (followed["run"], followed["epoch"], followed["state"]) == (2, 3, "FINISHED")
