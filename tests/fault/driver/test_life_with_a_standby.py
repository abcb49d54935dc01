"""One job with a standby driver through the operations of its life, with a real Spark; several tests read each phase.

The phases are fixtures of the module, in the order of their chain: a savepoint and a checkpoint while the standby
driver waits, a hand-over, a rehearsed loss, a savepoint during a takeover, a stop during a takeover, a restore that is
canceled while its standby driver starts, a restore that is canceled while it waits, the deletion.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.jobs.model import JobState, Operation, OperationState, RunResult
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.recovery.losses import RestartReason, restart_reason
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.jobs.runs.standbys import Standby
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.submit_helpers import alive
from tests.support.clusters.variables import variables_of
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.supervised_job import SupervisedJob, job_with_standby


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def job(zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedJob]:
    with job_with_standby(zookeeper_server, tmp_path_factory.mktemp("standby")) as job:
        yield job


def command(job: SupervisedJob, *words: str) -> dict[str, Any]:
    """Return the document that a command of ``spark-ha job`` prints."""
    program = [str(Path(sys.executable).with_name("spark-ha")), "job", *words, job.job_id, "--json"]
    environment = os.environ | variables_of(job.client.config)
    ran = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def answered(job: SupervisedJob, operation: Operation) -> Operation:
    wait_until(
        lambda: job.operation(operation.operation_id).state.final, timeout=PATIENCE, what=operation.operation.value
    )
    return job.operation(operation.operation_id)


def gone(job: SupervisedJob, standby: Standby) -> bool:
    """Wait until a standby driver has ended with its run; whether its process is dead."""
    wait_until(lambda: not job.standbys().living(), timeout=PATIENCE, what="the end of the standby driver")
    wait_until(lambda: not alive(standby.pid), timeout=PATIENCE, what="the end of its process")
    return not alive(standby.pid)


@dataclass(frozen=True)
class Saved:
    """Operations of the leader while its standby driver waits."""

    before: Standby
    savepoint: Operation
    checkpoint: Operation
    after: Standby


@pytest.fixture(scope="module")
def saved(job: SupervisedJob) -> Saved:
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)
    before = job.await_standby()
    savepoint = answered(job, job.job.request_savepoint(operation_id=new_id(), requested_by="test"))
    checkpoint = answered(job, job.job.request_checkpoint(operation_id=new_id(), requested_by="test"))
    return Saved(before, savepoint, checkpoint, job.await_standby())


def test_a_savepoint_and_a_checkpoint_are_taken_by_the_leader(saved: Saved) -> None:
    assert (saved.savepoint.state, saved.savepoint.epoch) == (OperationState.COMPLETED, 1)
    assert (saved.checkpoint.state, saved.checkpoint.epoch) == (OperationState.COMPLETED, 1)
    assert saved.after == saved.before


def test_a_ready_standby_driver_tells_its_memory_and_when_it_was_warmed_up(saved: Saved) -> None:
    assert saved.before.warmed_up_at is not None
    assert saved.before.warmed_up_at <= saved.before.since
    assert 100e6 < saved.before.memory < 10e9


@dataclass(frozen=True)
class TakenOver:
    """A takeover that a command has asked for."""

    shown: dict[str, Any]
    lost: SubmissionView
    standby: Standby


@pytest.fixture(scope="module")
def handed_over(job: SupervisedJob, saved: Saved) -> TakenOver:
    working = job.working(1)
    assert working is not None
    shown = command(job, "hand-over")
    lost = job.run.submissions[0]
    dead = next(job.live.glob("e1-*.dead"), working)
    for query in job.queries:
        planned, committed = (
            max(int(path.name) for path in (dead / query / log).iterdir() if path.name.isdigit())
            for log in ("offsets", "commits")
        )
        assert planned == committed, f"a batch of {query} is repeated"
    return TakenOver(shown, lost, saved.after)


def test_a_hand_over_ends_at_a_batch_boundary_and_the_standby_driver_leads(handed_over: TakenOver) -> None:
    epoch = handed_over.shown["epoch"]

    assert (epoch["epoch"], epoch["attempt"], epoch["standby"]) == (2, 2, True)
    assert handed_over.shown["operation"]["state"] == "COMPLETED"
    assert epoch["pid"] == handed_over.standby.pid


def test_a_hand_over_is_no_attempt_and_no_failure(job: SupervisedJob, handed_over: TakenOver) -> None:
    left = handed_over.lost.exit
    (run,) = command(job, "history")["runs"]
    ends = {each["attempt"]: each["end"] for each in run["epochs"]}

    assert left is not None
    assert (left.handed_over, left.counts, left.failure) == (True, False, None)
    assert restart_reason(handed_over.lost) is RestartReason.HANDED_OVER
    assert ends[1] == "handed over"


def test_the_phases_of_a_takeover_are_shown(handed_over: TakenOver) -> None:
    phases = handed_over.shown["epoch"]["phases"]

    assert phases.keys() >= {"submit", "lead", "bind", "start"}
    assert all(seconds >= 0 for seconds in phases.values())


@pytest.fixture(scope="module")
def failed_over(job: SupervisedJob, handed_over: TakenOver) -> TakenOver:
    assert handed_over.shown["epoch"]["epoch"] == 2
    standby = job.await_standby()
    job.stream.feed(1)
    shown = command(job, "fail-over", "--yes")
    return TakenOver(shown, job.run.submissions[1], standby)


def test_a_rehearsed_loss_is_a_real_one(failed_over: TakenOver) -> None:
    left, epoch = failed_over.lost.exit, failed_over.shown["epoch"]

    assert left is not None
    assert (left.failure, left.counts) == (None, True)
    assert restart_reason(failed_over.lost) is RestartReason.KILLED
    assert (epoch["epoch"], epoch["standby"], epoch["pid"]) == (3, True, failed_over.standby.pid)


@pytest.fixture(scope="module")
def saved_in_between(job: SupervisedJob, failed_over: TakenOver) -> Operation:
    assert failed_over.shown["epoch"]["epoch"] == 3
    job.await_standby()
    job.python().suspend()  # it must not take the request up
    asked = job.job.request_savepoint(operation_id=new_id(), requested_by="test")
    job.jvm().kill()
    job.await_takeover(4)
    job.stream.feed(1)
    return answered(job, asked)


def test_a_savepoint_during_a_takeover_is_taken_by_the_driver_that_follows(saved_in_between: Operation) -> None:
    assert (saved_in_between.state, saved_in_between.epoch) == (OperationState.COMPLETED, 4)


@dataclass(frozen=True)
class Stopped:
    """A stop that was asked for while a standby driver took the job over."""

    answer: Operation
    result: RunResult


@pytest.fixture(scope="module")
def stopped(job: SupervisedJob, saved_in_between: Operation) -> Stopped:
    assert saved_in_between.state.final
    job.await_standby()
    job.python().suspend()
    asked = job.stop("suspend")
    job.jvm().kill()
    result = job.await_result()
    wait_until(lambda: not job.standbys().living(), timeout=PATIENCE, what="the end of the standby drivers")
    return Stopped(job.operation(asked), result)


def test_a_stop_during_a_takeover_is_carried_out_once(job: SupervisedJob, stopped: Stopped) -> None:
    assert (stopped.answer.state, stopped.result.state) == (OperationState.COMPLETED, JobState.FINISHED)
    assert job.stream.seen() == job.stream.expected_rows(4)


@dataclass(frozen=True)
class Canceled:
    """A run that was canceled."""

    result: RunResult
    standby_is_dead: bool


@pytest.fixture(scope="module")
def canceled_early(job: SupervisedJob, stopped: Stopped) -> Canceled:
    assert stopped.result.state is JobState.FINISHED
    job.job.restore(RestoreRequest(job_id=job.job_id, request_id=new_id()))
    job.await_alive(lambda: job.run.run.number == 2 and bool(job.standbys().living()), "a standby driver that starts")
    (standby,) = job.standbys().living()
    assert not standby.is_ready
    job.job.request_cancel(operation_id=new_id(), requested_by="test")
    return Canceled(job.await_result(), gone(job, standby))


def test_a_cancel_while_the_standby_driver_starts_ends_both(canceled_early: Canceled) -> None:
    assert canceled_early.standby_is_dead
    assert canceled_early.result.state is JobState.CANCELED


@pytest.fixture(scope="module")
def canceled(job: SupervisedJob, canceled_early: Canceled) -> Canceled:
    assert canceled_early.result.state is JobState.CANCELED
    job.job.restore(RestoreRequest(job_id=job.job_id, request_id=new_id()))
    job.await_alive(lambda: job.run.run.number == 3 and job.job.snapshot().leader is not None, "the leader")
    job.stream.feed(1)
    job.await_read(job.job.snapshot().epoch)
    standby = job.await_standby()
    job.job.request_cancel(operation_id=new_id(), requested_by="test")
    return Canceled(job.await_result(), gone(job, standby))


def test_a_cancel_while_the_standby_driver_waits_ends_both(canceled: Canceled) -> None:
    assert canceled.result.state is JobState.CANCELED
    assert canceled.standby_is_dead


def test_every_row_was_written_once(job: SupervisedJob, canceled: Canceled) -> None:
    assert canceled.standby_is_dead
    assert job.stream.seen() == job.stream.expected_rows(5)
    assert job.stream.windows().items() <= job.stream.expected_windows(5).items()


def test_a_deletion_removes_the_homes_of_the_standby_drivers(job: SupervisedJob, canceled: Canceled) -> None:
    assert canceled.standby_is_dead
    wait_until(
        lambda: job.job.snapshot().leader is None and job.run.result and job.run.result.cleanup == "CLEAN",
        timeout=PATIENCE,
        what="the clean-up after the end",
    )

    job.job.delete(requested_by="test")

    homes = job.client.config.home_path / "jobs" / job.job_id / "submissions"
    assert not homes.exists() or list(homes.glob("*-standby-*")) == []
