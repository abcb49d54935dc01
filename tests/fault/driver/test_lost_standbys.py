"""One job through losses that meet its standby driver, with a real Spark; several tests read each phase.

The phases are fixtures of the module, in the order of their chain: the standby driver is cut off from ZooKeeper, it is
frozen beyond its session and wakes when the leader is killed, both are killed at once, the host of the leader is frozen
and wakes under the next one, the leader is killed while the standby driver is frozen for a moment, and while the job is
in quarantine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.fleet.observations import Quarantine, quarantine_op, release_quarantine
from airflow_provider_ha.host.supervisor.arrival import LOCK_FILE
from airflow_provider_ha.jobs.drivers.driver_home import SPEC_FILE
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.jobs.runs.standbys import Standby
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.submit_helpers import alive
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.supervised_job import SupervisedJob, job_with_standby, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.hours, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def job(zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedJob]:
    with job_with_standby(zookeeper_server, tmp_path_factory.mktemp("losses")) as job:
        yield job


def processes_of(standby: Standby) -> list[psutil.Process]:
    """Python and JVM of a standby driver; its supervisor is the parent of the JVM."""
    python = psutil.Process(standby.pid)
    jvm = python.parent()
    assert jvm is not None
    assert jvm.name() == "java"
    return [python, jvm]


def await_led(job: SupervisedJob, attempt: int) -> SubmissionView:
    """Wait until an attempt leads, and return it."""

    def leads() -> bool:
        leader = job.job.snapshot().leader
        return leader is not None and leader.attempt == attempt

    wait_until(leads, timeout=PATIENCE, what=f"attempt {attempt}", interval=0.1)
    return job.run.submissions[attempt - 1]


def await_dead(processes: list[psutil.Process]) -> None:
    wait_until(lambda: not any(alive(each.pid) for each in processes), timeout=PATIENCE, what="the end of processes")


@pytest.fixture(scope="module")
def proxy(zookeeper_server: EmbeddedZooKeeper) -> Iterator[FaultProxy]:
    """What lies between the first standby driver and ZooKeeper."""
    with FaultProxy(zookeeper_server.hosts) as opened:
        yield opened


@dataclass(frozen=True)
class CutOff:
    """The job after its standby driver alone was cut off from ZooKeeper for longer than its session."""

    before: Standby
    leaders: set[tuple[int, int]]
    after: Standby


@pytest.fixture(scope="module")
def cut_off(job: SupervisedJob, proxy: FaultProxy) -> CutOff:
    job.stream.feed(2)
    job.submit()
    homes = job.client.config.home_path / "jobs" / job.job_id / "submissions"
    lock = wait_until(
        lambda: next(homes.glob(f"*-standby-*/{LOCK_FILE}"), None), timeout=PATIENCE, what="a supervisor that has read"
    )
    spec = DriverSpec.read(lock.with_name(SPEC_FILE))  # the standby driver reads it once the job is RUNNING
    spec.model_copy(update={"config": spec.config.model_copy(update={"zookeeper": proxy.hosts})}).write()
    job.await_committed(1, 1)
    before = job.await_standby()
    leaders = {(job.job.snapshot().epoch, job.jvm().pid)}

    proxy.cut()
    wait_until(lambda: not job.standbys().living(), timeout=PATIENCE, what="the end of its session")
    job.stream.feed(1)
    job.await_read(1)
    proxy.heal()
    wait_until(lambda: not alive(before.pid), timeout=PATIENCE, what="its end")
    after = job.await_standby()
    return CutOff(before, {*leaders, (job.job.snapshot().epoch, job.jvm().pid)}, after)


def test_a_standby_driver_that_was_cut_off_beyond_its_session_is_replaced(cut_off: CutOff) -> None:
    assert cut_off.after.standby_id != cut_off.before.standby_id


def test_a_leader_goes_on_beside_a_standby_driver_whose_session_expires(cut_off: CutOff) -> None:
    assert len(cut_off.leaders) == 1


@dataclass(frozen=True)
class FrozenStandby:
    """The job after its standby driver slept through its session, and woke up when the leader was killed."""

    before: Standby
    led: SubmissionView
    after: Standby


@pytest.fixture(scope="module")
def frozen_standby(job: SupervisedJob, cut_off: CutOff) -> FrozenStandby:
    processes = processes_of(cut_off.after)
    for process in processes:
        process.suspend()
    wait_until(lambda: not job.standbys().living(), timeout=PATIENCE, what="the end of its session")

    job.jvm().kill()
    for process in processes:
        process.resume()
    led = await_led(job, 2)
    await_dead(processes)
    return FrozenStandby(cut_off.after, led, job.await_standby())


def test_a_standby_driver_that_wakes_after_its_session_does_not_lead(frozen_standby: FrozenStandby) -> None:
    led = frozen_standby.led.submission
    assert (led.standby, led.submission_id != frozen_standby.before.standby_id) == (False, True)


def test_a_standby_driver_that_wakes_after_its_session_is_replaced(frozen_standby: FrozenStandby) -> None:
    before, after = frozen_standby.before, frozen_standby.after
    assert after.standby_id != before.standby_id
    assert not alive(before.pid)


@dataclass(frozen=True)
class BothKilled:
    """The job after its leader and its standby driver were killed at once."""

    led: SubmissionView
    attempts: list[int]
    epoch: int


@pytest.fixture(scope="module")
def both_killed(job: SupervisedJob, frozen_standby: FrozenStandby) -> BothKilled:
    job.stream.feed(1)
    doomed = [job.jvm(), job.python(), *processes_of(frozen_standby.after)]
    for process in doomed:
        process.suspend()
    for process in doomed:
        process.kill()
    led = await_led(job, 3)
    job.await_read(3)
    return BothKilled(led, [view.submission.attempt for view in job.run.submissions], job.job.snapshot().epoch)


def test_after_the_loss_of_both_the_supervisor_of_the_leader_starts_the_next_attempt(both_killed: BothKilled) -> None:
    assert not both_killed.led.submission.standby
    assert (both_killed.attempts, both_killed.epoch) == ([1, 2, 3], 3)


@dataclass(frozen=True)
class FrozenHost:
    """The job after its leader slept, with its supervisor, through its session and the takeover."""

    lost: SubmissionView
    led: SubmissionView
    standby: Standby
    asleep: dict[str, tuple[int, int]]
    awake: dict[str, tuple[int, int]]
    supervisor: int
    next_standby: Standby


def files_of(job: SupervisedJob, epoch: int) -> dict[str, tuple[int, int]]:
    """Return file -> size and time of the fenced directories of an epoch."""
    found = [path for each in job.live.glob(f"e{epoch}-*") for path in each.rglob("*") if path.is_file()]
    return {str(path.relative_to(job.live)): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


@pytest.fixture(scope="module")
def frozen_host(job: SupervisedJob, both_killed: BothKilled) -> FrozenHost:
    assert both_killed.epoch == 3
    standby = job.await_standby()
    job.close_gate("batch")
    job.stream.feed(1)
    job.await_held("batch")
    supervisor, driver = job.supervisor(), job.driver()
    for process in (supervisor, *driver):
        process.suspend()
    job.await_takeover(4)
    led = job.run.submissions[3]
    job.open_gate("batch")
    job.await_read(4)
    asleep = files_of(job, 3)
    for process in (supervisor, *driver):
        process.resume()
    await_dead(driver)
    awake = files_of(job, 3)
    wait_until(lambda: job.run.submissions[2].exit is not None, timeout=PATIENCE, what="the report of its end")
    lost = job.run.submissions[2]
    return FrozenHost(lost, led, standby, asleep, awake, supervisor.pid, job.await_standby())


def test_a_standby_driver_leads_after_the_session_of_a_leader_whose_host_is_frozen(frozen_host: FrozenHost) -> None:
    assert frozen_host.led.submission.submission_id == frozen_host.standby.standby_id


def test_a_leader_that_wakes_under_a_promoted_standby_driver_writes_nothing_and_says_why_it_ends(
    frozen_host: FrozenHost,
) -> None:
    assert frozen_host.asleep
    assert frozen_host.awake == frozen_host.asleep
    assert frozen_host.lost.exit is not None
    assert re.search(r"the lease ran out|session .* has ended", frozen_host.lost.exit.model_dump_json())


def test_the_supervisor_that_woke_up_starts_the_next_standby_driver(frozen_host: FrozenHost) -> None:
    parents = [process.pid for process in psutil.Process(frozen_host.next_standby.pid).parents()]
    assert frozen_host.supervisor in parents


def test_a_job_with_a_standby_driver_is_neither_submitted_again_nor_deleted_before_its_run_ends(
    job: SupervisedJob, frozen_host: FrozenHost
) -> None:
    with pytest.raises(JobStateError, match="already has a live run, number 1"):
        job.submit()
    with pytest.raises(JobStateError, match="is led by epoch 4"):
        job.job.delete(requested_by="test")

    assert [each.standby_id for each in job.standbys().living()] == [frozen_host.next_standby.standby_id]


@pytest.fixture(scope="module")
def frozen_briefly(job: SupervisedJob, frozen_host: FrozenHost) -> SubmissionView:
    """The attempt after a loss that the standby driver slept through, with its session."""
    assert frozen_host.lost.exit is not None
    processes = processes_of(job.await_standby())
    for process in processes:
        process.suspend()
    job.jvm().kill()
    wait_until(lambda: len(job.run.submissions) == 5, timeout=PATIENCE, what="the claim", interval=0.1)
    for process in processes:
        process.resume()
    return await_led(job, 5)


def test_a_standby_driver_that_does_not_take_over_in_time_waits_beside_the_next_attempt(
    job: SupervisedJob, frozen_host: FrozenHost, frozen_briefly: SubmissionView
) -> None:
    assert not frozen_briefly.submission.standby
    assert job.await_standby().standby_id == frozen_host.next_standby.standby_id


@pytest.fixture(scope="module")
def in_quarantine(job: SupervisedJob, frozen_briefly: SubmissionView) -> SubmissionView:
    """The attempt that followed a loss of the job in quarantine."""
    client = job.client
    record = Quarantine(
        job_id=job.job_id, reason="its graph was away", by="test", cluster_epoch=1, at=client.clock.now()
    )
    client.coordinator.ensure(client.paths.quarantine)
    client.coordinator.commit(quarantine_op(client.paths, record))
    assert frozen_briefly.submission.attempt == 5
    job.await_read(5)
    job.await_standby()
    job.jvm().kill()
    job.await_takeover(6)
    assert release_quarantine(client.coordinator, client.paths, job.job_id) == record.reason
    return job.run.submissions[5]


def test_a_standby_driver_leads_although_the_job_is_in_quarantine(in_quarantine: SubmissionView) -> None:
    assert in_quarantine.submission.standby


def test_after_all_losses_every_row_was_written_once(job: SupervisedJob, in_quarantine: SubmissionView) -> None:
    job.stream.feed(1)
    job.await_read(in_quarantine.submission.attempt)
    standby = job.await_standby()

    terminate_and_compare(job, job.stream.files)

    wait_until(lambda: not job.standbys().living(), timeout=PATIENCE, what="the end of the standby drivers")
    assert not alive(standby.pid)
