"""The supervisor of a lost driver starts the next attempt itself: without Airflow, watcher or cluster leader.

"JVM", "Python" and "worker" are the stand-ins of ``tests.support.clusters.submit_helpers``; supervisor, signals and
ZooKeeper are real.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.znode_records import create_once
from airflow_provider_ha.driver.ending.exit_reason import ExitCode, write_failure
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.host.engines.engine import RunningSubmission, observe_one
from airflow_provider_ha.host.supervisor.in_place import BY, FIRST_TURN_SECONDS
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import Generation, JobState, OperationKind, RunResult
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.operations.stop import cancel
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.lost_runs import recover
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.timings import Timings
from tests.engine_helpers import pid_of
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.jobs_helpers import MISTAKE


LONG_DELAY = HaOptions(restart_delay=60)


@pytest.fixture
def job(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobContext]:
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    context = helpers.context(config, coordinator)
    yield context
    for view in attempts(context):  # first those that would start another attempt
        if view.started is not None and helpers.alive(pid_of(view.started)):
            os.kill(pid_of(view.started), signal.SIGKILL)
    helpers.kill_all(context)


@pytest.fixture
def start(job: JobContext, tmp_path: Path) -> Callable[[str, HaOptions], None]:
    def start(mode: str, options: HaOptions) -> None:
        helpers.submit(job, helpers.script(tmp_path), mode=mode, options=options)

    return start


def attempts(job: JobContext) -> tuple[SubmissionView, ...]:
    return job.runs.get(1).submissions


def attempt(job: JobContext, number: int) -> SubmissionView | None:
    found = attempts(job)
    return found[number - 1] if len(found) >= number else None


def await_exit(job: JobContext, number: int) -> SubmissionView:
    def ended() -> SubmissionView | None:
        view = attempt(job, number)
        return view if view is not None and view.exit is not None else None

    return wait_until(ended, timeout=60, what=f"the exit of attempt {number}")


def await_driver(job: JobContext, number: int) -> int:
    return wait_until(partial(helpers.pid_in, job, "driver.pid", attempt=number), timeout=60, what=f"driver {number}")


def supervisor(job: JobContext, number: int = 1) -> int:
    view = attempt(job, number)
    assert view is not None
    assert view.started is not None
    return pid_of(view.started)


def await_result(job: JobContext) -> RunResult:
    return wait_until(lambda: job.runs.result(1), timeout=60, what="the result")


def await_end_of(pid: int) -> None:
    wait_until(lambda: not helpers.alive(pid), timeout=60, what="the end of the supervisor")


def test_a_lost_driver_is_started_again_by_its_supervisor_alone(
    job: JobContext, start: Callable[[str, HaOptions], None]
) -> None:
    start("lead", HaOptions())
    wait_until(lambda: job.coordinator.find(job.paths.leader), timeout=60, what="the leader")

    os.kill(await_driver(job, 1), signal.SIGKILL)
    second = await_driver(job, 2)

    assert helpers.alive(second)
    assert len(helpers.drivers(job)) == 1
    assert supervisor(job, 2) == supervisor(job, 1)
    recovery = job.coordinator.get(job.paths.recovery(1))
    assert b"supervisor of the lost driver" in recovery.data


def test_exit_and_next_submission_are_one_transaction(job: JobContext, start: Callable[[str, HaOptions], None]) -> None:
    start("lead", HaOptions())
    wait_until(lambda: job.coordinator.find(job.paths.leader), timeout=60, what="the leader")

    os.kill(await_driver(job, 1), signal.SIGKILL)
    await_driver(job, 2)

    written = {
        job.coordinator.get(path).modified_zxid
        for path in (job.paths.submission_exit(1, 1), job.paths.submission(1, 2), job.paths.recovery(1))
    }
    assert len(written) == 1


def test_the_next_attempt_carries_its_own_id_and_has_its_own_log(
    job: JobContext, start: Callable[[str, HaOptions], None]
) -> None:
    start("wait", HaOptions())

    os.kill(await_driver(job, 1), signal.SIGKILL)
    await_driver(job, 2)

    view = attempt(job, 2)
    assert view is not None
    assert view.started is not None
    assert observe_one(job.engines.get("local"), view.submission.submission_id, None) == RunningSubmission(
        view.started.handle
    )
    log, spec = (helpers.directory(job, attempt=2) / name for name in ("supervisor.log", "driver.json"))
    assert "attempt 2 as pid" in log.read_text()
    assert {path.stat().st_mode & 0o777 for path in (log, spec)} == {0o600}, "as private as those of attempt 1"
    assert not (helpers.directory(job, attempt=1) / "driver.json").exists()


@pytest.mark.long
def test_a_delay_is_waited_out_before_the_claim(job: JobContext, start: Callable[[str, HaOptions], None]) -> None:
    start("wait", HaOptions(restart_delay=2.0))
    for number in (1, 2):
        driver = await_driver(job, number)
        (helpers.directory(job, attempt=number) / "running").touch()
        write_failure(helpers.directory(job, attempt=number), ExitCode.FAILED, "it fails by itself", MISTAKE)
        os.kill(driver, signal.SIGKILL)
    third = wait_until(lambda: attempt(job, 3), timeout=60, what="attempt 3")

    second = attempt(job, 2)
    assert second is not None
    assert second.exit is not None
    assert (third.submission.created_at - second.exit.at).total_seconds() >= 2.0


def test_a_cancel_that_comes_during_the_delay_wins(job: JobContext, start: Callable[[str, HaOptions], None]) -> None:
    start("die", LONG_DELAY)
    await_exit(job, 2)
    waiting = supervisor(job, 2)

    cancel(job, operation_id="cancel", requested_by="test")

    assert await_result(job).state is JobState.CANCELED
    await_end_of(waiting)
    assert len(attempts(job)) == 2


@pytest.mark.long
def test_a_cancel_that_its_sender_did_not_carry_out_is_carried_out_instead_of_a_restart(
    job: JobContext, start: Callable[[str, HaOptions], None]
) -> None:
    start("die", HaOptions(restart_delay=2.0))
    await_exit(job, 2)

    ask_for_a_cancel(job)

    assert await_result(job).state is JobState.CANCELED
    assert len(attempts(job)) == 2


@pytest.mark.long
def test_no_claim_follows_an_open_cancel(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the dead driver's session, which has the lock, could not be closed and outlives every patience."""
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    with FaultProxy(config.zookeeper) as proxy:
        behind = config.model_copy(update={"zookeeper": proxy.hosts, "timings": Timings()})
        job = helpers.context(behind, coordinator)
        helpers.submit(job, helpers.script(tmp_path), mode="lead")
        wait_until(lambda: job.coordinator.find(job.paths.leader), timeout=60, what="the leader")
        ask_for_a_cancel(job)
        said = helpers.directory(job) / "supervisor.log"

        proxy.cut()
        os.kill(await_driver(job, 1), signal.SIGKILL)
        wait_until(lambda: "not ended" in said.read_text(), timeout=60, what="a session that stays", interval=0.01)
        proxy.heal()

        assert await_result(job).state is JobState.CANCELED
        await_end_of(supervisor(job))
        assert len(attempts(job)) == 1


def ask_for_a_cancel(job: JobContext) -> None:
    operations.request(
        job.coordinator,
        job.paths,
        OperationKind.CANCEL,
        operation_id="cancel",
        arguments={},
        requested_by="a client that dies",
        clock=job.clock,
    )


@pytest.mark.long
def test_a_run_that_has_used_up_its_attempts_is_failed_by_its_supervisor(
    job: JobContext, start: Callable[[str, HaOptions], None]
) -> None:
    start("die", HaOptions(restart_delay=0, restart_attempts=1))

    result = await_result(job)

    assert result.state is JobState.FAILED
    assert "was lost 2 times" in result.reason
    assert job.coordinator.find(job.paths.job_graph) is None


def test_a_supervisor_that_is_asked_to_end_restarts_nothing(
    job: JobContext, start: Callable[[str, HaOptions], None]
) -> None:
    start("wait", HaOptions())
    await_driver(job, 1)
    asked = supervisor(job)

    os.kill(asked, signal.SIGTERM)

    await_exit(job, 1)
    await_end_of(asked)
    assert len(attempts(job)) == 1


@pytest.mark.long
def test_a_supervisor_that_is_asked_to_end_while_it_waits_claims_nothing(
    job: JobContext, start: Callable[[str, HaOptions], None]
) -> None:
    start("die", LONG_DELAY)
    await_exit(job, 2)
    waiting = supervisor(job, 2)

    os.kill(waiting, signal.SIGTERM)

    await_end_of(waiting)
    assert len(attempts(job)) == 2


@pytest.mark.long
def test_an_attempt_that_another_host_has_claimed_meanwhile_stays_there(
    job: JobContext, start: Callable[[str, HaOptions], None]
) -> None:
    start("die", LONG_DELAY)
    await_exit(job, 2)
    waiting = supervisor(job, 2)

    recover(job, by="test", wait=False)

    await_end_of(waiting)
    assert supervisor(job, 3) != waiting


@pytest.mark.long
def test_when_a_restart_in_place_fails_another_host_gets_the_first_turn(
    job: JobContext, start: Callable[[str, HaOptions], None]
) -> None:
    start("die", HaOptions(restart_delay=0.1))
    await_exit(job, 2)
    wait_until(lambda: job.clock.now() > due(job), timeout=10, what="the delay")

    recover(job, by="another host", wait=False)

    third = attempt(job, 3)
    assert third is not None
    assert third.submission.requested_by.startswith("another host")


def due(job: JobContext) -> datetime:
    second = await_exit(job, 2)
    assert second.exit is not None
    return second.exit.at + timedelta(seconds=0.2)


@pytest.mark.long
def test_when_no_other_host_takes_it_the_supervisor_starts_it_itself(
    job: JobContext, start: Callable[[str, HaOptions], None]
) -> None:
    start("die", HaOptions(restart_delay=0.1))

    third = wait_until(lambda: attempt(job, 3), timeout=60, what="attempt 3")

    assert third.submission.requested_by.startswith(BY)
    second = await_exit(job, 2)
    assert second.exit is not None
    assert (third.submission.created_at - second.exit.at).total_seconds() >= FIRST_TURN_SECONDS


def test_of_supervisor_and_watchers_that_see_one_loss_one_starts_the_next_attempt(
    job: JobContext, start: Callable[[str, HaOptions], None]
) -> None:
    start("lead", HaOptions(restart_delay=0))
    wait_until(lambda: job.coordinator.find(job.paths.leader), timeout=60, what="the leader")
    first = await_driver(job, 1)
    watchers = [threading.Thread(target=watch, args=(job.config,)) for _ in range(3)]

    os.kill(first, signal.SIGKILL)
    for watcher in watchers:
        watcher.start()
    for watcher in watchers:
        watcher.join()

    await_driver(job, 2)
    assert len(attempts(job)) == 2
    assert len(helpers.drivers(job)) == 1


def watch(config: HaConfig) -> None:
    """Recover the job as soon as it looks lost, in a separate session."""
    session = KazooCoordinator.connect(config)
    job = helpers.context(config, session)

    def recovered() -> bool:
        try:
            return recover(job, by="watcher", wait=False).attempt > 1
        except HaError:
            return False

    wait_until(recovered, timeout=60, what="a second attempt", interval=0.001)
    session.close()


@pytest.mark.long
def test_an_attempt_that_cannot_be_launched_is_closed_and_followed_by_another(
    job: JobContext, start: Callable[[str, HaOptions], None]
) -> None:
    start("wait", HaOptions(restart_delay=0.1))
    helpers.directory(job, attempt=2).write_text("a file where the directory of attempt 2 has to be")

    os.kill(await_driver(job, 1), signal.SIGKILL)
    await_driver(job, 3)

    refused = await_exit(job, 2)
    assert refused.exit is not None
    assert "could not be launched" in refused.exit.reason


def test_a_host_that_lacks_spark_ends_a_run_that_has_never_worked(
    job: JobContext, start: Callable[[str, HaOptions], None], tmp_path: Path
) -> None:
    """Each further attempt would say the same, while its submitter looks at a job that is on its way."""
    start("wait", HaOptions())
    first = await_driver(job, 1)
    (tmp_path / "spark" / "bin" / "spark-submit").unlink()  # a submission here would be refused

    os.kill(first, signal.SIGKILL)
    result = await_result(job)

    assert result.state is JobState.FAILED
    assert "there is no bin/spark-submit in" in result.reason
    assert len(attempts(job)) == 2


@pytest.mark.long
def test_a_host_that_lacks_spark_costs_a_run_that_has_worked_no_attempt(
    job: JobContext, start: Callable[[str, HaOptions], None], tmp_path: Path
) -> None:
    spark_submit = tmp_path / "spark" / "bin" / "spark-submit"
    start("wait", HaOptions(restart_attempts=1, restart_delay=0.05))
    first = await_driver(job, 1)
    create_once(job.coordinator, job.paths.generation, Generation(run=1, epoch=1, directory="live/e1"))
    spark_submit.rename(tmp_path / "away")

    os.kill(first, signal.SIGKILL)
    lost = await_exit(job, 2).exit
    (tmp_path / "away").rename(spark_submit)

    assert lost is not None
    assert (lost.unfit, lost.refused, lost.counts) == (True, "", False)
    assert await_driver(job, 3)
