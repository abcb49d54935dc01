"""What every engine does: launch, observe, terminate. Run on all engines, and on one with its own containers.

The supervisors, ZooKeeper and the processes are real; a stand-in plays Spark
(``tests.support.clusters.submit_helpers``).
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete
from airflow_provider_ha.errors import OutcomeUnknownError
from airflow_provider_ha.host.engines.engine import (
    GoneSubmission,
    Observation,
    PendingSubmission,
    RunningSubmission,
    UnknownSubmission,
    WantedSubmission,
    observe_one,
)
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import SUBMISSION_VARIABLE
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, SubmissionStarted
from airflow_provider_ha.jobs.submit.launch import ensure_submitted
from airflow_provider_ha.testing.waiting import wait_until
from tests.contract.engines import EngineUnderTest, InANamespace, OnAStandaloneCluster, OnThisHost
from tests.engine_helpers import NothingToSee
from tests.support.clusters import rebuild_helpers, submit_helpers
from tests.support.clusters.standalone_cluster import StandaloneCluster, can_make_hosts, standalone_cluster


PATIENCE = 180.0  # seconds: a worker starts two JVMs and two Pythons one after the other, on a busy machine as well
NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "true"]


STANDALONE = pytest.param("standalone", marks=[pytest.mark.long, pytest.mark.timeout(600)])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """One cluster for all tests of the standalone engine."""
    if not can_make_hosts():
        pytest.skip("this host does not let a test make namespaces")
    with standalone_cluster(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture(params=["local", "namespace", STANDALONE])
def tested(request: pytest.FixtureRequest, config: HaConfig, tmp_path: Path) -> EngineUnderTest:
    """Each engine."""
    if request.param == "local":
        return OnThisHost(config)
    if request.param == "standalone":
        return OnAStandaloneCluster(config, request.getfixturevalue("cluster"))
    if shutil.which("unshare") is None or subprocess.run(NAMESPACE, check=False, capture_output=True).returncode:
        pytest.skip("this host does not let a test make a PID namespace")
    return InANamespace(config, tmp_path / "elsewhere")


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator) -> JobContext:
    """A job with a run, whose first submission no engine has launched."""
    job = rebuild_helpers.job(config, coordinator, "flights")
    nothing = rebuild_helpers.NoEngine()
    return replace(job, engines=Engines(dict.fromkeys(("local", "standalone"), nothing)))


@pytest.fixture
def ticket(tested: EngineUnderTest, job: JobContext, tmp_path: Path) -> Iterator[Ticket]:
    """The submission; its processes are gone afterwards."""
    target = tested.target(submit_helpers.stand_in_spark(tmp_path / "spark"))
    run = submit_helpers.submit(
        job,
        submit_helpers.script(tmp_path),
        options=HaOptions(restart_in_place=False, allow_remote_executors=True),
        engine=target.engine,
        master=target.master,
        engine_options=target.engine_options,
    ).run
    job.coordinator.commit(Delete(job.paths.submission_started(run, 1)))  # which the engine of nothing has left
    view = job.runs.get(run)
    assert view.newest is not None
    submission_id = view.newest.submission.submission_id
    yield Ticket(job_id="flights", run=run, attempt=1, submission_id=submission_id, graph=view.run.graph)
    for process in processes_of(submission_id):
        with contextlib.suppress(psutil.NoSuchProcess):  # a namespace takes its processes along
            process.kill()


def processes_of(submission_id: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(SUBMISSION_VARIABLE) == submission_id:
                found.append(process)
        except psutil.Error:
            continue
    return found


def launched(tested: EngineUnderTest, ticket: Ticket) -> DriverHandle:
    return tested.engine.launch(ticket, tested.engine.reserve(ticket))


def await_driver(tested: EngineUnderTest, ticket: Ticket) -> None:
    wait_until(tested.home(ticket).driver_pid.exists, timeout=PATIENCE, what="the driver")


def await_gone(tested: EngineUnderTest, ticket: Ticket, handle: DriverHandle) -> GoneSubmission:
    def gone() -> GoneSubmission | None:
        seen = observe_one(tested.engine, ticket.submission_id, handle)
        return seen if isinstance(seen, GoneSubmission) else None

    return wait_until(gone, timeout=PATIENCE, what="the proof of death")


def test_what_is_launched_runs(tested: EngineUnderTest, ticket: Ticket) -> None:
    handle = launched(tested, ticket)

    await_driver(tested, ticket)
    assert observe_one(tested.engine, ticket.submission_id, handle) == RunningSubmission(handle, host=tested.host)


def test_a_reserved_handle_is_that_of_the_driver_and_starts_no_second_one(
    tested: EngineUnderTest, ticket: Ticket
) -> None:
    reserved = tested.engine.reserve(ticket)
    if reserved is None:
        pytest.skip("only its launch determines the handle")
    assert isinstance(observe_one(tested.engine, ticket.submission_id, reserved), UnknownSubmission)

    first = tested.engine.launch(ticket, reserved)
    await_driver(tested, ticket)
    before = processes_of(ticket.submission_id)
    again = tested.engine.launch(ticket, reserved)

    assert first == again == reserved
    assert set(before) <= set(processes_of(ticket.submission_id))


def test_many_submissions_are_observed_by_one_call(tested: EngineUnderTest, ticket: Ticket) -> None:
    handle = launched(tested, ticket)
    await_driver(tested, ticket)
    never = new_id()

    seen = tested.engine.observe([WantedSubmission(ticket.submission_id, handle), WantedSubmission(never, None)])

    assert seen.keys() == {ticket.submission_id, never}
    assert seen[ticket.submission_id] == RunningSubmission(handle, host=tested.host)
    assert isinstance(seen[never], UnknownSubmission)


def test_the_place_of_a_target_answers(tested: EngineUnderTest, tmp_path: Path) -> None:
    target = tested.target(submit_helpers.stand_in_spark(tmp_path / "spark"))
    tested.engine.check(target)

    assert [check.usable for check in tested.engine.probe(target)] == [True]


def test_what_is_launched_is_found_by_its_id_or_reports_itself_when_the_answer_was_lost(
    tested: EngineUnderTest, ticket: Ticket, job: JobContext
) -> None:
    handle = launched(tested, ticket)
    await_driver(tested, ticket)

    seen = observe_one(tested.engine, ticket.submission_id, tested.engine.reserve(ticket))
    reported = job.runs.get(ticket.run).submissions[0].started
    found = seen if isinstance(seen, RunningSubmission) else reported

    assert found is not None
    assert (found.handle.engine, found.handle.ref) == (handle.engine, handle.ref)


def test_of_what_was_never_launched_nothing_is_known(tested: EngineUnderTest) -> None:
    assert isinstance(observe_one(tested.engine, new_id(), None), UnknownSubmission)


def test_a_handle_names_its_engine_and_survives_a_record(tested: EngineUnderTest, ticket: Ticket) -> None:
    handle = launched(tested, ticket)
    await_driver(tested, ticket)

    read = SubmissionStarted.from_bytes(SubmissionStarted(handle=handle).to_bytes(), source="test").handle

    assert read.engine == tested.engine.name
    assert observe_one(tested.engine, ticket.submission_id, read) == RunningSubmission(handle, host=tested.host)


def test_a_killed_supervisor_takes_every_process_along_and_that_is_proven(
    tested: EngineUnderTest, ticket: Ticket
) -> None:
    handle = launched(tested, ticket)
    await_driver(tested, ticket)

    tested.kill(handle)

    assert await_gone(tested, ticket, handle).proof
    assert processes_of(ticket.submission_id) == []


def test_what_is_asked_to_end_reports_its_end_and_is_gone(
    tested: EngineUnderTest, ticket: Ticket, job: JobContext
) -> None:
    handle = launched(tested, ticket)
    await_driver(tested, ticket)

    tested.engine.terminate(handle)

    await_gone(tested, ticket, handle)
    ended = job.runs.get(ticket.run).submissions[0].exit
    assert ended is not None
    assert "received a stop signal" in ended.reason


def test_to_end_what_is_gone_is_no_error(tested: EngineUnderTest, ticket: Ticket) -> None:
    handle = launched(tested, ticket)
    await_driver(tested, ticket)
    tested.kill(handle)
    await_gone(tested, ticket, handle)

    tested.engine.terminate(handle)

    assert isinstance(observe_one(tested.engine, ticket.submission_id, handle), GoneSubmission)


def test_to_forget_what_is_gone_leaves_no_secret_and_may_be_repeated(tested: EngineUnderTest, ticket: Ticket) -> None:
    handle = launched(tested, ticket)
    await_driver(tested, ticket)
    tested.kill(handle)
    await_gone(tested, ticket, handle)

    for _ in range(2):
        tested.engine.forget(handle)

    assert not tested.leftovers(ticket, handle)


def test_a_handle_of_what_the_engine_cannot_look_at_proves_nothing(tested: EngineUnderTest, ticket: Ticket) -> None:
    handle = launched(tested, ticket)
    await_driver(tested, ticket)
    tested.kill(handle)
    await_gone(tested, ticket, handle)

    assert isinstance(observe_one(tested.engine, ticket.submission_id, tested.elsewhere(handle)), UnknownSubmission)


def test_no_secret_is_in_a_handle_or_on_a_command_line(tested: EngineUnderTest, ticket: Ticket) -> None:
    handle = launched(tested, ticket)
    await_driver(tested, ticket)

    words = [handle.model_dump_json(), *(" ".join(each.cmdline()) for each in processes_of(ticket.submission_id))]

    assert not [word for word in words if any(secret in word for secret in ("conf-secret", "argument-secret"))]


class SlowEngine(NothingToSee):
    """An engine that has taken a submission, and says for a while that it waits for a machine."""

    name = "local"

    def __init__(self, handle: DriverHandle) -> None:
        self.handle = handle
        self.looks = 0

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        raise AssertionError(f"submission {ticket.attempt} must not be launched again")

    def seen(self, submission_id: str, handle: DriverHandle | None) -> Observation:
        del submission_id, handle
        self.looks += 1
        return PendingSubmission("queued") if self.looks <= 3 else RunningSubmission(self.handle)


def test_what_waits_in_the_queue_of_an_engine_is_never_overdue(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    job = rebuild_helpers.job(config, coordinator, "flights")
    run = rebuild_helpers.submit(job, tmp_path)
    coordinator.commit(Delete(job.paths.submission_started(run, 1)))
    slow = SlowEngine(DriverHandle(engine="local"))

    attempt = ensure_submitted(replace(job, engines=Engines.only(slow)), run, by="test")

    assert attempt == 1
    assert slow.looks == 4
    assert job.runs.get(run).submissions[0].started == SubmissionStarted(handle=slow.handle)


class SilentEngine(NothingToSee):
    """An engine that was asked to launch, and whose answer was lost."""

    name = "local"

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        raise OutcomeUnknownError(f"no answer about {ticket.submission_id}")


def test_a_launch_whose_answer_was_lost_is_left_open_because_it_may_run(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    job = replace(rebuild_helpers.job(config, coordinator, "flights"), engines=Engines.only(SilentEngine()))

    run = rebuild_helpers.submit(job, tmp_path)

    newest = job.runs.get(run).submissions[0]
    assert (newest.started, newest.exit) == (None, None)
