"""Drivers that cannot work: a batch that hangs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ha.jobs.condition import decide
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.losses import RestartReason, restart_reason
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.scraped import scraped
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]
Gated = Callable[..., SupervisedJob]
OPTIONS = HaOptions(checkpoint_interval=0, restart_delay=0, metrics_port=0, stall_timeout=20)


def await_state(job: SupervisedJob, state: JobState, attempt: int = 1) -> None:
    def reached() -> bool:
        snapshot = job.job.snapshot()
        led = snapshot.leader is not None and snapshot.leader.attempt == attempt
        return led and snapshot.state is state

    wait_until(reached, timeout=PATIENCE, what=f"{state.value} of attempt {attempt}")


@pytest.mark.hours
def test_a_killed_driver_and_a_batch_that_hangs_are_told_and_a_commit_ends_the_stall(gated: Gated) -> None:
    job = gated("rows")
    job.options = OPTIONS
    job.stream.feed(3)
    job.submit()
    job.await_committed(1, 1)
    assert scraped(job)["job_state RUNNING"] == 1

    job.python().kill()
    await_state(job, JobState.RUNNING, attempt=2)
    # The killed driver may have committed all that it had: then only new rows bring a first commit.
    job.stream.feed(1)
    wait_until(lambda: "recovery_seconds commit" in scraped(job), timeout=PATIENCE, what="its first commit")
    job.close_gate("batch")
    job.stream.feed(1)
    job.await_held("batch")
    before = scraped(job)
    await_state(job, JobState.STALLED, attempt=2)
    stalled = scraped(job)
    status = job.job.snapshot().status
    job.open_gate("batch")
    await_state(job, JobState.RUNNING, attempt=2)

    assert before["restarts_day killed"] == 1
    assert before["leader_epoch"] == 2
    assert before["lease_margin_seconds"] > 0
    assert all(before[f"recovery_seconds {phase}"] >= 0 for phase in ("detect", "submit", "lead"))
    assert before["recovery_seconds commit"] > 0
    assert before["recovery_seconds total"] >= before["recovery_seconds commit"]
    assert before["checkpoint_number"] >= 1
    assert before["input_rows_total rows"] > 0
    assert (stalled["job_stalled"], stalled["job_state STALLED"], stalled["job_state RUNNING"]) == (1, 1, 0)
    assert status is not None
    assert status.stalled.startswith("query 'rows' has been in one trigger after batch ")


@pytest.mark.hours
def test_a_stalled_driver_ends_itself_and_its_run_goes_on_as_after_any_other_loss(gated: Gated) -> None:
    job = gated("rows")
    job.options = OPTIONS.model_copy(update={"restart_stalled": True})
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 0)
    job.close_gate("batch")
    job.stream.feed(2)
    job.await_held("batch")

    wait_until(lambda: _attempts(job) > 1, timeout=PATIENCE, what="the next attempt")
    job.open_gate("batch")
    await_state(job, JobState.RUNNING, attempt=2)
    job.await_read(2)

    snapshot = job.job.snapshot()
    assert snapshot.run is not None
    assert restart_reason(snapshot.run.submissions[0]) is RestartReason.STALLED
    last = decide(snapshot, job.options, job.client.clock.now()).last
    assert last is not None
    assert "STALLED: query 'rows'" in last.message
    assert scraped(job)["restarts_day stalled"] == 1
    assert job.stream.seen() == job.stream.expected_rows(4)


def _attempts(job: SupervisedJob) -> int:
    run = job.job.snapshot().run
    return len(run.submissions) if run is not None else 0
