"""The supervisor of a lost driver beside standby drivers, and the supervisor of a standby driver that has ended."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.errors import NotConnectedError
from airflow_provider_ha.host.process_tree import Death
from airflow_provider_ha.host.supervisor import in_place, standby
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.job_graph import JobGraph
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.options.job_options import HaOptions, memory_bytes
from airflow_provider_ha.jobs.recovery.restart_policy import Resubmit
from airflow_provider_ha.jobs.recovery.transactions import claim, new_submission
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel, StandbyStore
from airflow_provider_ha.jobs.runs.submissions import Submission
from airflow_provider_ha.testing.waiting import wait_until
from tests.fake.jobs import PATHS, World
from tests.fake.orders import a_standby, canceling
from tests.unit.supervisor.test_next_attempt import exit_record, of_run


ONE = HaOptions(restart_delay=0, standby_drivers=1)


@pytest.fixture
def spec(job: JobRecords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DriverSpec:
    """Submission 1 of a run that requests a standby driver."""
    monkeypatch.setattr(standby, "connected", getattr(in_place, "connected"))  # noqa: B009  # of the fixture of the job
    monkeypatch.setattr(standby, "end_session", lambda _: True)
    read = JobRecords.graph

    def graph(records: JobRecords, blob: Any) -> JobGraph:
        return read(records, blob).model_copy(update={"options": ONE})

    monkeypatch.setattr(JobRecords, "graph", graph)
    spec = of_run(job, tmp_path / "1-1")
    spec.home.directory.mkdir()
    return spec


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[DriverSpec]:
    """What this process has turned into."""
    found: list[DriverSpec] = []

    def become(spec: DriverSpec, submission: Submission | None) -> None:
        assert submission is None
        found.append(spec)
        raise NeverReturns

    monkeypatch.setattr(standby, "become", become)
    return found


class NeverReturns(BaseException):
    """Stands for the exec."""


def joins(world: World, record: Standby) -> None:
    assert StandbyStore(world.session(record.standby_id), PATHS, 1).join(record, 2)


def claims_with_its_exit(job: JobRecords, spec: DriverSpec, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether the supervisor of a driver that was RUNNING claims the next attempt immediately."""
    restart = in_place.RestartInPlace(spec)
    monkeypatch.setattr(in_place, "decide", lambda *_: Decided())
    restart._options = ONE
    return restart.claim_with_exit(job, exit_record(job)) is not None


class Decided:
    restart = Resubmit(2, 1, after=0.0)


def test_a_supervisor_leaves_the_first_turn_to_a_standby_driver_that_is_ready(
    world: World, job: JobRecords, spec: DriverSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    joins(world, a_standby("ready"))

    assert not claims_with_its_exit(job, spec, monkeypatch)


def test_a_supervisor_does_not_wait_for_a_standby_driver_that_still_starts(
    world: World, job: JobRecords, spec: DriverSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    joins(world, a_standby("starts").model_copy(update={"level": StandbyLevel.CONNECTED}))

    assert claims_with_its_exit(job, spec, monkeypatch)


def test_a_supervisor_claims_the_attempt_that_no_standby_driver_takes(
    world: World, job: JobRecords, spec: DriverSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    joins(world, a_standby("stuck"))
    monkeypatch.setattr(in_place, "TURN_SECONDS", 0.05)
    restart = in_place.RestartInPlace(spec)
    assert restart.claim_with_exit(job, exit_record(job)) is None
    job.coordinator.commit(Create(PATHS.submission_exit(1, 1), exit_record(job).to_bytes()))

    claimed = restart.await_turn(stopped=lambda: False)

    assert claimed is not None
    assert claimed.attempt == 2


def promoted(job: JobRecords, standby_id: str) -> None:
    """Let a standby driver be attempt 2."""
    submission = new_submission(job, 2, by="a standby driver", engine="local", lost_epoch=1)
    assert claim(job, 1, submission.model_copy(update={"submission_id": standby_id, "standby": True}))


def test_the_supervisor_of_a_driver_whose_standby_leads_turns_to_the_next_standby_driver(
    job: JobRecords, spec: DriverSpec, became: list[DriverSpec]
) -> None:
    promoted(job, "aa")

    with pytest.raises(NeverReturns):
        standby.replace_promoted(spec, lambda: False)

    (next_one,) = became
    assert next_one.ticket.is_standby
    assert next_one.directory.name == f"1-standby-{next_one.submission_id}"


@pytest.mark.parametrize("event", ["no promotion", "enough of them", "the run is over"])
def test_no_further_standby_driver_is_started_when(
    world: World, job: JobRecords, spec: DriverSpec, became: list[DriverSpec], event: str
) -> None:
    if event != "no promotion":
        promoted(job, "aa")
    if event == "enough of them":
        joins(world, a_standby("bb"))
    if event == "the run is over":
        canceling(world)()

    standby.replace_promoted(spec, lambda: False)

    assert became == []


@pytest.mark.usefixtures("became")
@pytest.mark.parametrize("event", ["no promotion", "the run is over"])
def test_an_outage_of_storage_holds_no_supervisor_that_is_not_needed(
    world: World,
    job: JobRecords,
    spec: DriverSpec,
    monkeypatch: pytest.MonkeyPatch,
    event: str,
) -> None:
    def away(*_: Any) -> JobGraph:
        pytest.fail("storage is read, and may be away")

    monkeypatch.setattr(JobRecords, "graph", away)
    if event == "the run is over":
        promoted(job, "aa")
        canceling(world)()

    standby.replace_promoted(spec, lambda: False)

    if event == "the run is over":
        assert standby.await_start(spec.of_standby("bb"), lambda: False) is False


def test_the_end_of_a_standby_driver_that_has_led_is_that_of_its_submission(job: JobRecords, spec: DriverSpec) -> None:
    promoted(job, "aa")

    found = standby.submission_of(spec.of_standby("aa"), lambda: False)

    assert found is not None
    assert (found.attempt, found.submission_id, found.directory.name) == (2, "aa", "1-standby-aa")
    assert found.of_next(3, "s-3").directory.name == "1-3"


def test_the_end_of_a_standby_driver_that_has_not_led_is_no_submissions(job: JobRecords, spec: DriverSpec) -> None:
    promoted(job, "aa")

    assert standby.submission_of(spec.of_standby("bb"), lambda: False) is None


def test_it_is_asked_whether_a_standby_driver_has_led_after_its_session_has_ended(
    job: JobRecords, spec: DriverSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the promotion may still be on its way."""
    monkeypatch.setattr(standby, "end_session", lambda _: promoted(job, "aa"))

    assert standby.submission_of(spec.of_standby("aa"), lambda: False) is not None


def test_an_outage_keeps_no_supervisor_from_the_question_whether_its_driver_has_led(
    job: JobRecords, spec: DriverSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    promoted(job, "aa")
    errors = [NotConnectedError("no server answers"), NotConnectedError("no server answers")]

    def end_session(_: object) -> bool:
        if errors:
            raise errors.pop()
        return True

    monkeypatch.setattr(standby, "end_session", end_session)

    assert standby.submission_of(spec.of_standby("aa"), lambda: False) is not None


def test_a_standby_driver_that_was_not_needed_leaves_nothing(spec: DriverSpec, became: list[DriverSpec]) -> None:
    standby.end(spec, Death(0, (), "in order"), 10.0, lambda: False)

    assert became == []
    assert not spec.home.directory.exists()


def test_a_standby_driver_that_failed_is_followed_by_another_one_after_a_pause_that_doubles(
    spec: DriverSpec, became: list[DriverSpec], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(standby, "FIRST_PAUSE", 0.001)
    monkeypatch.setenv(standby.FAILURES_VARIABLE, "0")
    for _ in range(3):
        with pytest.raises(NeverReturns):
            standby.end(spec, Death(-9, (), "killed"), 10.0, lambda: False)

    assert len(became) == 3
    assert os.environ[standby.FAILURES_VARIABLE] == "3"
    assert caplog.text.count("the next one starts in 0 s") == 3


def test_a_standby_driver_that_lived_long_has_not_failed_in_a_row(
    spec: DriverSpec, became: list[DriverSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "FIRST_PAUSE", 0.001)
    monkeypatch.setenv(standby.FAILURES_VARIABLE, "7")

    with pytest.raises(NeverReturns):
        standby.end(spec, Death(-9, (), "killed"), standby.LONG_LIFE + 1, lambda: False)

    assert os.environ[standby.FAILURES_VARIABLE] == "1"


@dataclass(frozen=True)
class Memory:
    """What a host has free, in bytes."""

    available: int


def test_a_standby_driver_starts_once_its_host_has_the_memory_and_says_so_until_then(
    job: JobRecords, spec: DriverSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [1535 << 20, 1535 << 20, 1536 << 20]  # a heap of 1 GiB and 512 MiB
    notes: list[list[str]] = []
    monkeypatch.setattr(JobRecords, "snapshot", lambda _: Running)
    monkeypatch.setattr(standby, "_is_live", lambda *_: True)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(free.pop(0)))
    store = StandbyStore(job.coordinator, job.paths, spec.run)
    monkeypatch.setattr(time, "sleep", lambda _: notes.append([each.note for each in store.living()]))

    assert standby.await_start(spec.of_standby("s"), lambda: False)

    assert free == []
    assert notes == [["it needs 1536 MiB of memory, and 1535 MiB are free"]] * 2


class Running:
    """A job that runs."""

    state = JobState.RUNNING


class Starting:
    """A job that has led, and not executed a batch yet."""

    state = JobState.STARTING


@pytest.mark.parametrize("engine", ["standalone", "local"])
def test_a_standby_driver_leaves_its_place_in_a_cluster_to_a_job_that_does_not_run(
    job: JobRecords, spec: DriverSpec, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """Its cores may be those of an executor of the leader. On its own host it holds nothing while it waits."""
    assert job.runs.live_run() == spec.run
    monkeypatch.setattr(JobRecords, "snapshot", lambda _: Starting)
    monkeypatch.setattr(standby, "LEAVE_SECONDS", 0.05)
    placed = spec.of_standby("s").model_copy(update={"handle": spec.handle.model_copy(update={"engine": engine})})
    end = time.monotonic() + 0.5

    assert not standby.await_start(placed, lambda: time.monotonic() > end)

    assert (time.monotonic() > end) == (engine == "local"), "one in a cluster does not wait until it is told to end"


@pytest.mark.parametrize(
    ("size", "expected"), [("512m", 512 << 20), ("2G", 2 << 30), ("1024", 1 << 30), ("2gb", 2 << 30), ("much", None)]
)
def test_a_memory_size_is_read_as_spark_reads_it(size: str, expected: int | None) -> None:
    assert memory_bytes(size) == expected


def shutdown(job: JobRecords, spec: DriverSpec) -> Operation | None:
    return operations.read(job.coordinator, job.paths, f"shutdown-{spec.submission_id}")


def test_a_supervisor_that_is_asked_to_end_hands_over_to_a_standby_driver_that_is_ready(
    job: JobRecords, spec: DriverSpec
) -> None:
    assert StandbyStore(job.coordinator, job.paths, spec.run).join(a_standby("ready"), 1)

    request = standby.HandOverRequest(spec)
    wanted = wait_until(lambda: shutdown(job, spec), timeout=10, what="the operation")

    assert (wanted.operation, wanted.run) == (OperationKind.HAND_OVER, spec.run)
    assert not request.is_over


def test_it_does_not_wait_without_a_standby_driver_that_is_ready(job: JobRecords, spec: DriverSpec) -> None:
    starting = a_standby("starting").model_copy(update={"level": StandbyLevel.CONNECTED})
    assert StandbyStore(job.coordinator, job.paths, spec.run).join(starting, 1)

    request = standby.HandOverRequest(spec)

    wait_until(lambda: request.is_over, timeout=standby.HAND_OVER_SECONDS / 2, what="the refusal")
    assert shutdown(job, spec) is None


def test_a_standby_driver_whose_supervisor_is_asked_to_end_ends_no_leader(job: JobRecords, spec: DriverSpec) -> None:
    assert StandbyStore(job.coordinator, job.paths, spec.run).join(a_standby("ready"), 1)

    request = standby.HandOverRequest(spec.of_standby("another"))

    wait_until(lambda: request.is_over, timeout=standby.HAND_OVER_SECONDS / 2, what="the refusal")
    assert shutdown(job, spec) is None


def test_the_wait_for_a_batch_in_flight_is_short(
    job: JobRecords, spec: DriverSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert StandbyStore(job.coordinator, job.paths, spec.run).join(a_standby("ready"), 1)
    monkeypatch.setattr(standby, "HAND_OVER_SECONDS", 0.1)

    request = standby.HandOverRequest(spec)

    wait_until(lambda: request.is_over, timeout=5, what="the end of the wait")
