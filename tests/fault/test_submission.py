"""Submitting under failure: real ZooKeeper, real supervisors; the submitter itself crashes at a chosen step."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Op
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import ConfigurationError, JobStateError, OutcomeUnknownError
from airflow_provider_ha.host.engines.local import LocalEngine
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState, OperationState
from airflow_provider_ha.jobs.operations.stop import cancel, fail
from airflow_provider_ha.jobs.recovery.lost_runs import recover
from airflow_provider_ha.jobs.recovery.transactions import conclude, take_lock
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, SubmissionExit
from airflow_provider_ha.testing.waiting import wait_until
from tests.engine_helpers import NothingToSee
from tests.support.clusters import submit_helpers as helpers


class Crash(BaseException):
    """The submitter is gone: nothing after this line of its happens."""


class CrashingCoordinator:
    """A real session whose owner dies right after its n-th transaction was applied."""

    def __init__(self, session: Coordinator, after: int) -> None:
        self._session = session
        self._left = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def commit(self, *ops: Op, timeout: float | None = None) -> list[int]:
        versions = self._session.commit(*ops, timeout=timeout)
        self._left -= 1
        if self._left == 0:
            raise Crash
        return versions


class UnansweredCoordinator(CrashingCoordinator):
    """A real session that loses the answer to its n-th transaction."""

    def commit(self, *ops: Op, timeout: float | None = None) -> list[int]:
        try:
            return super().commit(*ops, timeout=timeout)
        except Crash:
            raise OutcomeUnknownError("the answer was lost") from None


class CrashingEngine(LocalEngine):
    """The submitter dies right before, or right after, it has started the supervisor."""

    def __init__(self, config: HaConfig, *, launched: bool) -> None:
        super().__init__(config)
        self._launched = launched

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        if self._launched:
            super().launch(ticket, reserved)
        raise Crash


def crashing(job: JobContext, *, launched: bool) -> JobContext:
    """Return the job as a submitter has it that dies at a launch."""
    return replace(job, engines=Engines.only(CrashingEngine(job.config, launched=launched)))


@pytest.fixture
def job(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobContext]:
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    context = helpers.context(config, coordinator, launch_seconds=1.0)
    yield context
    helpers.kill_all(context)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return helpers.script(tmp_path)


@pytest.fixture
def another(config: HaConfig) -> Iterator[Callable[[], Coordinator]]:
    """Further sessions, as other processes have them."""
    sessions: list[Coordinator] = []

    def connect() -> Coordinator:
        sessions.append(KazooCoordinator.connect(config))
        return sessions[-1]

    yield connect
    for session in sessions:
        session.close()


def one_driver(job: JobContext) -> int:
    return wait_until(lambda: helpers.drivers(job), timeout=20, what="a driver")[0]


def lose(job: JobContext, attempt: int) -> None:
    """Kill the JVM of a submission, and wait for the proof."""
    pid = wait_until(lambda: helpers.pid_in(job, "driver.pid", attempt=attempt), timeout=20, what="the driver")
    assert pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: exit_of(job, attempt), timeout=10, what="the exit")


def exit_of(job: JobContext, attempt: int) -> SubmissionExit | None:
    return job.runs.get(1).submissions[attempt - 1].exit


# Crash point -> how the submitter crashes there, and which submission then runs.
CRASHES: dict[str, tuple[Callable[[JobContext], JobContext], int]] = {
    "after the run was made": (lambda job: replace(job, coordinator=CrashingCoordinator(job.coordinator, 1)), 1),
    "after the submission was made": (lambda job: replace(job, coordinator=CrashingCoordinator(job.coordinator, 2)), 2),
    "before the supervisor was started": (
        lambda job: crashing(job, launched=False),
        2,
    ),
    "after the supervisor was started": (
        lambda job: crashing(job, launched=True),
        1,
    ),
    "after the start was written": (lambda job: replace(job, coordinator=CrashingCoordinator(job.coordinator, 3)), 1),
}


@pytest.mark.parametrize("point", CRASHES)
def test_a_submitter_that_crashed_is_healed_by_asking_again(job: JobContext, script: Path, point: str) -> None:
    crash, attempt = CRASHES[point]
    with pytest.raises(Crash):
        helpers.submit(crash(job), script)

    again = helpers.submit(job, script)

    assert (again.run, again.attempt, again.created) == (1, attempt, False)
    assert job.runs.numbers() == [1]
    newest = job.runs.get(1).submissions[-1]
    assert newest.submission.attempt == attempt
    assert newest.started is not None
    one_driver(job)
    assert len(helpers.drivers(job)) == 1


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_lost_answer_neither_loses_nor_doubles_the_driver(job: JobContext, script: Path, lost: int) -> None:
    unanswered = replace(job, coordinator=UnansweredCoordinator(job.coordinator, lost))

    submitted = helpers.submit(unanswered, script)

    assert (submitted.run, submitted.attempt) == (1, 1)
    one_driver(job)
    assert len(helpers.drivers(job)) == 1


def test_two_submitters_with_one_request_start_one_driver(
    job: JobContext, script: Path, another: Callable[[], Coordinator]
) -> None:
    job = replace(job, engines=Engines.only(LocalEngine(job.config, launch_seconds=20)))
    contexts = [replace(job, coordinator=another()) for _ in range(3)]

    with ThreadPoolExecutor(3) as pool:
        submitted = list(pool.map(lambda context: helpers.submit(context, script), contexts))

    assert {(found.run, found.attempt) for found in submitted} == {(1, 1)}
    assert [found.created for found in submitted].count(True) == 1
    assert len(job.runs.get(1).submissions) == 1
    one_driver(job)
    assert len(helpers.drivers(job)) == 1


def test_two_submitters_with_different_requests_make_one_run(
    job: JobContext, script: Path, another: Callable[[], Coordinator]
) -> None:
    contexts = {name: replace(job, coordinator=another()) for name in ("first", "second")}

    def attempt(name: str) -> str:
        try:
            helpers.submit(contexts[name], script, request_id=name)
        except JobStateError:
            return "refused"
        return "made"

    with ThreadPoolExecutor(2) as pool:
        outcomes = sorted(pool.map(attempt, contexts))

    assert outcomes == ["made", "refused"]
    assert job.runs.numbers() == [1]


def test_a_live_run_of_another_request_is_named_and_nothing_is_changed(
    job: JobContext, script: Path, tmp_path: Path
) -> None:
    helpers.submit(job, script, request_id="first")
    blobs = sorted(path.name for path in (tmp_path / "storage").rglob("blobs/**/*"))
    script.write_text("print('another application')\n")

    with pytest.raises(JobStateError, match="already has a live run, number 1; it has no leader now"):
        helpers.submit(job, script, request_id="second")

    assert sorted(path.name for path in (tmp_path / "storage").rglob("blobs/**/*")) == blobs
    assert job.runs.numbers() == [1]


def test_a_script_that_is_not_there_leaves_no_trace(job: JobContext, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.py"):
        helpers.submit(job, tmp_path / "nowhere.py")

    assert job.coordinator.find(job.paths.base) is None


def test_a_failed_run_is_repeated_and_an_ended_one_is_found_again(job: JobContext, script: Path) -> None:
    helpers.submit(job, script)
    fail(job, "the test says so", by="test")

    repeated = helpers.submit(job, script)
    conclude(job, JobState.CANCELED, reason="enough", by="test")
    found = helpers.submit(job, script)

    assert (repeated.run, repeated.created) == (2, True)
    assert (found.run, found.created) == (2, False)
    assert job.runs.get(2).run.request_id == "dag.task.run#2"


def test_a_lost_driver_is_submitted_again_once_whoever_asks(
    job: JobContext, script: Path, another: Callable[[], Coordinator]
) -> None:
    job = replace(job, engines=Engines.only(LocalEngine(job.config, launch_seconds=20)))
    helpers.submit(job, script)
    lose(job, 1)
    contexts = [replace(job, coordinator=another()) for _ in range(3)]

    with ThreadPoolExecutor(3) as pool:
        recovered = list(pool.map(lambda context: recover(context, by="test"), contexts))

    assert {found.attempt for found in recovered} == {2}
    assert [found.created for found in recovered].count(True) == 1
    one_driver(job)
    assert len(helpers.drivers(job)) == 1


def test_a_lost_leadership_is_claimed_with_its_recovery(
    job: JobContext, script: Path, another: Callable[[], Coordinator]
) -> None:
    helpers.submit(job, script)
    leader = another()
    take_lock(replace(job, coordinator=leader), 1)
    leader.close()  # its session ends without a release
    waited: list[float] = []

    recovered = recover(replace(job, sleep=waited.append), by="test")

    snapshot = job.snapshot()
    assert waited == [0.05], "the delay of the restart strategy"
    assert (recovered.attempt, recovered.created) == (2, True)
    assert snapshot.recovery is not None
    assert (snapshot.recovery.lost_epoch, snapshot.recovery.attempt) == (1, 2)
    assert job.runs.get(1).submissions[1].submission.lost_epoch == 1


def test_nothing_is_submitted_while_somebody_leads(
    job: JobContext, script: Path, another: Callable[[], Coordinator]
) -> None:
    helpers.submit(job, script)
    take_lock(replace(job, coordinator=another()), 1)

    recovered = recover(job, by="test")

    assert (recovered.attempt, recovered.created) == (1, False)


def test_a_supervisor_that_was_killed_with_its_driver_is_noticed_on_its_own_host(job: JobContext, script: Path) -> None:
    helpers.submit(job, script)
    one_driver(job)
    wait_until(lambda: helpers.pid_in(job, "driver.pid"), timeout=20, what="the driver")
    (view,) = job.runs.get(1).submissions
    assert view.started is not None
    killed = [process.pid for process in helpers.processes_of(view.submission)]
    helpers.kill_all(job)
    # By their numbers: the kernel forgets the environment of a process before the process has ended.
    wait_until(lambda: not any(map(helpers.alive, killed)), timeout=20, what="the death of all its processes")
    assert (helpers.directory(job) / "driver.json").exists()

    recovered = recover(job, by="test")

    assert (recovered.attempt, recovered.created) == (2, True)
    assert not (helpers.directory(job) / "driver.json").exists()  # no process is left that could remove its secrets


@pytest.mark.long
def test_a_run_that_uses_up_its_attempts_fails_and_nobody_recovers_it(job: JobContext, script: Path) -> None:
    once = helpers.NO_RESTART_IN_PLACE.model_copy(update={"restart_attempts": 1})  # fewer than a repeated error needs
    helpers.submit(job, script, mode="die", options=once)
    wait_until(partial(exit_of, job, 1), timeout=20, what="the exit")
    recover(job, by="test")
    wait_until(partial(exit_of, job, 2), timeout=20, what="the exit")

    with pytest.raises(JobStateError, match="lost 2 times"):
        recover(job, by="test")

    snapshot = job.snapshot()
    assert snapshot.state is JobState.FAILED
    assert snapshot.graph is None


def test_a_job_without_a_driver_is_canceled_under_its_lock(job: JobContext, script: Path) -> None:
    helpers.submit(job, script)

    operation = cancel(job, operation_id="c1", requested_by="test")

    snapshot = job.snapshot()
    assert operation.state is OperationState.COMPLETED
    assert (snapshot.state, snapshot.graph, snapshot.leader, snapshot.epoch) == (JobState.CANCELED, None, None, 1)


def test_a_job_with_a_leader_is_left_to_it(job: JobContext, script: Path, another: Callable[[], Coordinator]) -> None:
    helpers.submit(job, script)
    leadership: Leadership = take_lock(replace(job, coordinator=another()), 1)

    operation = cancel(job, operation_id="c1", requested_by="test")
    with pytest.raises(JobStateError, match="is led by epoch 1"):
        fail(job, "no reason", by="test")

    assert operation.state is OperationState.REQUESTED
    assert leadership.epoch == job.snapshot().epoch == 1


class UnfitEngine(NothingToSee):
    """An engine that cannot start a driver where it is."""

    name = "local"
    facts = replace(NothingToSee.facts, launch_seconds=1.0)

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        del ticket
        raise ConfigurationError("this host has no Java")


def test_a_launch_that_its_host_refuses_ends_a_run_that_has_never_worked(job: JobContext, script: Path) -> None:
    unfit = replace(job, engines=Engines.only(UnfitEngine()))
    with pytest.raises(ConfigurationError, match="this host has no Java"):
        helpers.submit(unfit, script)

    with pytest.raises(JobStateError, match="has FAILED: it could not be launched: this host has no Java"):
        recover(unfit, by="a task that waits for it", wait=False)

    assert len(job.runs.get(1).submissions) == 1
