"""Drivers that are really killed: at any moment, the next epoch goes on and the output is exact."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.model import CheckpointKind
from airflow_provider_ha.host.supervisor.in_place import BY
from airflow_provider_ha.jobs.model import JobState, OperationState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.removal.cleanup import clean_up
from airflow_provider_ha.jobs.runs.submissions import SubmissionExit
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.submit_helpers import alive
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.supervised_job import SupervisedJob, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
Gated = Callable[..., SupervisedJob]


def kill_in_the_window(job: SupervisedJob, epoch: int, batch: int) -> Path:
    """Kill between ``_spark_metadata/<batch>`` and ``commits/<batch>``; returns the directory of the epoch."""
    job.await_sink(batch)
    working = job.working(epoch)
    assert working is not None
    job.kill()
    # The kill may have come after the commit, or after the next plan: then the window is made by hand, as the kill
    # would have left it.
    for log, first in (("commits", batch), ("offsets", batch + 1)):
        for entry in (working / "windows" / log).iterdir():
            number = entry.name.strip(".").split(".")[0]
            if number.isdigit() and int(number) >= first:
                entry.unlink()
    assert (job.progress(epoch).planned, job.progress(epoch).committed) == (batch, batch - 1)
    return working


def hold_a_batch(job: SupervisedJob, epoch: int) -> int:
    """Feed a file and hold its batch, which is planned and not committed; returns its number."""
    job.close_gate("plan")
    job.stream.feed(1)
    job.await_held("plan")
    held = job.progress(epoch)
    assert held.planned == held.committed + 1
    return held.planned


def restarted(job: SupervisedJob, attempt: int) -> SubmissionExit | None:
    """Return how an attempt ended that its supervisor has followed with another one."""
    run = job.job.snapshot().run
    assert run is not None
    found = run.submissions[attempt - 1].exit
    if found is not None:
        # A snapshot lists the submissions before it reads their exits: the next one may have come in between.
        run = job.job.snapshot().run
        assert run is not None
        assert run.submissions[attempt].submission.requested_by.startswith(BY), "in one transaction with the exit"
    return found


def leading(job: SupervisedJob, run: int) -> int | None:
    """Return the epoch in which a run is led; ``None`` while it is not."""
    leader = job.job.snapshot().leader
    return leader.epoch if leader is not None and leader.run == run else None


def start_and_kill_in_the_window(gated: Gated) -> SupervisedJob:
    """A job whose second epoch goes on after a kill between sink log and commit; it has executed a new batch as well.

    Without the noop run Spark never starts again after the first: "CheckpointInfo length: 0" (spark-facts section 0).
    """
    job = gated()
    job.options = HaOptions(checkpoint_interval=0, restart_delay=0)
    job.stream.feed(3)
    job.submit()
    killed = kill_in_the_window(job, epoch=1, batch=2)
    job.recover()
    job.await_committed(2, 2)
    assert "batch 2 is executed again into noop" in job.log(newest_only=True)
    assert not killed.exists()
    job.stream.feed(1)
    job.await_read(2)  # a batch of this epoch: what was executed again is none
    return job


@pytest.mark.long
def test_the_kills_that_matter_most_leave_an_exact_output(gated: Gated) -> None:
    """A host between sink log and commit, then Python and JVM alone in the middle of a batch, recovered in place.

    One job, to start Spark less.
    """
    job = start_and_kill_in_the_window(gated)

    for epoch, victim in ((2, job.python), (3, job.jvm)):
        driver = [job.jvm(), job.python()]
        batch = hold_a_batch(job, epoch)
        job.await_alive(lambda: job.job.snapshot().state is JobState.RUNNING, "the job to be RUNNING")
        victim().kill()
        lost = wait_until(partial(restarted, job, epoch), timeout=30, what="the next attempt")
        assert not any(alive(process.pid) for process in driver)
        assert lost.ran
        job.open_gate("plan")
        job.await_committed(epoch + 1, batch)

    terminate_and_compare(job, 6)


GATES = {"plan": "plan", "function": "batch"}
PHASES = ("between batches", "plan", "function", "sink")


def bring_into(phase: str, job: SupervisedJob, epoch: int) -> None:
    """Have a batch in this phase, or none: rows on their way, a function at work, or the sink's log just written."""
    gate, batch = GATES.get(phase), job.progress(epoch).planned + 1
    if gate is not None:
        job.close_gate(gate)
    if phase != "between batches":
        job.stream.feed(1)
    if gate is not None:
        job.await_held(gate)
    if phase == "sink":
        job.await_sink(batch)


@pytest.mark.long
@pytest.mark.hours
@pytest.mark.timeout(3000)
def test_twenty_kills_of_the_jvm_in_all_phases_of_a_batch_delay_no_recovery(gated: Gated) -> None:
    """A delay would double with each of them. :func:`restarted` sees that the exit comes with the next attempt."""
    job = gated("windows", "rows")
    job.options = HaOptions(checkpoint_interval=0)
    job.stream.feed(1)
    job.submit()

    for epoch in range(1, 21):
        phase = PHASES[epoch % len(PHASES)]
        job.await_read(epoch)
        job.await_alive(lambda: job.job.snapshot().state is JobState.RUNNING, "the job to be RUNNING")
        bring_into(phase, job, epoch)
        job.jvm().kill()
        lost = wait_until(partial(restarted, job, epoch), timeout=PATIENCE, what="the next attempt")
        assert (lost.ran, lost.failure) == (True, None), phase
        if (gate := GATES.get(phase)) is not None:
            job.open_gate(gate)

    job.await_read(21)
    terminate_and_compare(job, job.stream.files)


@pytest.mark.long
@pytest.mark.hours
def test_kill_before_the_first_commit_recovers(gated: Gated) -> None:
    job = gated()
    job.stream.feed(2)
    job.close_gate("plan")
    job.submit()
    job.await_held("plan")
    assert (job.progress(1).planned, job.progress(1).committed) == (0, -1)
    job.kill()

    job.open_gate("plan")
    job.recover()
    job.await_committed(2, 1)

    terminate_and_compare(job, 2)


@pytest.mark.long
@pytest.mark.hours
def test_two_kills_during_recovery_leave_a_third_start_that_is_exact(gated: Gated) -> None:
    job = gated()
    job.stream.feed(3)
    job.submit()
    kill_in_the_window(job, epoch=1, batch=2)
    job.close_gate("plan")

    job.recover()
    wait_until(lambda: job.working(2), timeout=PATIENCE, what="the directory of epoch 2", interval=0.01)
    job.kill()
    assert "query windows" not in job.log(newest_only=True), "the kill came too late: a query had begun"
    job.recover()
    job.await_held("plan")
    assert "batch 2 is executed again into noop" in job.log(newest_only=True)
    assert (job.progress(3).planned, job.progress(3).committed) == (2, 1)
    job.kill()
    job.open_gate("plan")
    job.recover()
    job.stream.feed(1)
    job.await_committed(4, 3)

    terminate_and_compare(job, 4)


@pytest.mark.long
@pytest.mark.hours
def test_run_that_is_given_up_in_the_middle_of_its_drain_is_restored_exactly(gated: Gated) -> None:
    """Taken for an ordinary batch, what the drain wrote made every restore LOSS_POSSIBLE."""
    job = gated()
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)
    job.close_gate("script")
    job.stop("terminate")
    job.await_held("script")
    drained = job.progress(1).planned + 1
    job.await_sink(drained)
    supervisor = job.supervisor()
    job.kill()
    job.open_gate("script")
    supervisor.wait(PATIENCE)  # it would clean up as well, as one more epoch
    job.job.fail("given up", by="test")
    clean_up(job.client.context(job.job_id))  # what the restore needs stays

    job.job.restore(RestoreRequest(job_id=job.job_id, request_id="again"))
    job.stream.feed(1)
    # Asked for, not counted: a lock that is lost on a busy machine is taken again, in one more epoch.
    epoch = wait_until(partial(leading, job, run=2), timeout=PATIENCE, what="the leader of the restored run")
    job.await_committed(epoch, drained)

    terminate_and_compare(job, 3)


@pytest.mark.long
@pytest.mark.hours
def test_a_restore_rebuilds_the_log_of_a_source_with_the_interval_of_its_session(gated: Gated) -> None:
    """The interval is not Spark's default, and no entry up to the cut is compact."""
    job = gated()
    job.conf["spark.sql.streaming.fileSource.log.compactInterval"] = "3"
    job.options = job.options.model_copy(update={"retained_checkpoints": 100})
    job.stream.feed(1)
    job.submit()
    job.await_alive(lambda: bool(job.job.snapshot().checkpoint_numbers), "a checkpoint")
    job.stream.feed(5)
    job.await_read(1)
    job.kill()

    first = f"checkpoint-{min(job.job.snapshot().checkpoint_numbers)}"
    job.job.restore(
        RestoreRequest(job_id=job.job_id, request_id="again", start_from=first, if_lost=LostRunPolicy.RESTART)
    )
    epoch = wait_until(partial(leading, job, run=2), timeout=PATIENCE, what="the leader of the restored run")
    job.stream.feed(1)
    job.await_read(epoch)

    assert "is executed again into noop" in job.log(newest_only=True)
    terminate_and_compare(job, 7)


@pytest.mark.long
@pytest.mark.hours
def test_stop_asked_of_a_driver_that_died_is_answered_by_the_next_epoch(gated: Gated) -> None:
    job = gated()
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 0)
    job.kill()
    stop = job.stop("suspend")
    job.recover()

    result = job.await_result()

    assert result.state is JobState.FINISHED, job.log(newest_only=True)
    assert (job.operation(stop).state, job.operation(stop).epoch) == (OperationState.COMPLETED, 2)
    newest = next(iter(job.job.checkpoints.list()))
    assert (newest.number, newest.reason) == (result.checkpoint, CheckpointKind.STOP)
    assert job.progress(2).planned == job.progress(2).committed == newest.cut["windows"]
