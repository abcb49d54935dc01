"""One job through the failures of its life, with a real Spark: each phase is caused once, and several tests read it.

The phases are fixtures of the module, in the order of their chain: submitted, cut off for a moment, saved, its JVM
killed, cut off for longer, stopped while its supervisor is killed in the middle of the drain, restored, canceled. Five
drivers in all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.model import CheckpointKind
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.driver.ending.exit_reason import read_failure
from airflow_provider_ha.host.supervisor.in_place import BY
from airflow_provider_ha.jobs.model import JobState, Operation, OperationState, RunResult
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.timings import Timings
from tests.support.clusters import submit_helpers
from tests.support.clusters.submit_helpers import alive, directory
from tests.support.clusters.variables import variables_of
from tests.support.spark.driver_helpers import PATIENCE, Stream
from tests.support.spark.scraped import scraped
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
TIMINGS = Timings()
MOMENT = 3.0  # seconds of a cut that costs nothing: less than half of what is promised
QUERIES = {"windows", "rows"}
Windows = dict[tuple[int, str], tuple[int, int]]


@pytest.fixture(scope="module")
def proxy(zookeeper_server: EmbeddedZooKeeper) -> Iterator[FaultProxy]:
    """What lies between ZooKeeper and the driver, its supervisor and the client."""
    with FaultProxy(zookeeper_server.hosts) as opened:
        yield opened


@pytest.fixture(scope="module")
def job(proxy: FaultProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedJob]:
    """The job, with the default timings; its supervisor starts a lost driver again in its place."""
    root = tmp_path_factory.mktemp("life")
    config = HaConfig.build(
        zookeeper=proxy.hosts, storage_root=f"file://{root}/storage", cluster_id=f"c-{new_id()[:12]}", timings=TIMINGS
    )
    options = HaOptions(checkpoint_interval=0, restart_delay=0, metrics_port=0)
    with HaClient.open(config) as client:
        yield SupervisedJob(client, Stream(root), ("windows", "rows"), options=options)
        proxy.heal()
        submit_helpers.kill_all(client.job("gated")._job)


def attempt(job: SupervisedJob, number: int) -> SubmissionView:
    """Wait until there is an attempt of that number, and return it."""

    def found() -> SubmissionView | None:
        submissions = job.run.submissions
        return submissions[number - 1] if len(submissions) >= number else None

    view = wait_until(found, timeout=PATIENCE, what=f"attempt {number}")
    assert view is not None
    return view


def newest_cut(job: SupervisedJob) -> dict[str, int]:
    pointer = next(iter(job.job.checkpoints.list()), None)
    return pointer.cut if pointer is not None else {}


@dataclass(frozen=True)
class Running:
    """The job with its first driver."""

    status: JobStatus
    served: dict[str, float]
    cut: dict[str, int]
    jvm: int


@pytest.fixture(scope="module")
def running(job: SupervisedJob) -> Running:
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)
    job.await_alive(lambda: job.job.snapshot().state is JobState.RUNNING, "the job to be RUNNING")
    job.await_alive(lambda: newest_cut(job).keys() == QUERIES, "a checkpoint of both queries")
    return Running(job.job.snapshot(), scraped(job), newest_cut(job), job.jvm().pid)


def test_a_job_is_running_with_its_first_batch_in_its_working_directory(running: Running) -> None:
    generation = running.status.generation

    assert generation is not None
    assert (running.status.epoch, generation.epoch, generation.run) == (1, 1, 1)
    assert running.status.leader is not None


def test_the_first_checkpoint_holds_every_query(running: Running) -> None:
    assert running.cut.keys() == QUERIES
    assert min(running.cut.values()) >= 0


def test_a_driver_serves_its_state_and_what_it_has_read(running: Running) -> None:
    assert running.served["job_state RUNNING"] == 1
    assert running.served["leader_epoch"] == 1
    assert running.served["checkpoint_number"] >= 1
    assert running.served["input_rows_total rows"] > 0


@dataclass(frozen=True)
class ShortCut:
    """The job after a cut from ZooKeeper that is shorter than what is promised."""

    epoch: int
    jvm_lives: bool


@pytest.fixture(scope="module")
def short_cut(job: SupervisedJob, proxy: FaultProxy, running: Running) -> ShortCut:
    assert TIMINGS.tolerated_cut(hosts=1) > 2 * MOMENT
    proxy.cut()
    job.stream.feed(1)
    threading.Event().wait(MOMENT)
    proxy.heal()
    job.await_read(1)
    return ShortCut(job.job.snapshot().epoch, alive(running.jvm))


def test_a_short_cut_from_zookeeper_leaves_the_driver_and_its_epoch_in_place(short_cut: ShortCut) -> None:
    assert (short_cut.epoch, short_cut.jvm_lives) == (1, True)


@dataclass(frozen=True)
class Saved:
    """The job after a savepoint that could not be written, and one that could."""

    failed: Operation
    pointers_after_failure: int
    completed: Operation
    problems: list[str]


@pytest.fixture(scope="module")
def saved(job: SupervisedJob, short_cut: ShortCut) -> Saved:
    assert short_cut.jvm_lives
    folder = job.client.config.work_path / "jobs" / job.job_id / "savepoints"
    folder.write_text("no directory: nothing can be written below it")
    first = job.job.request_savepoint(operation_id=new_id(), requested_by="test").operation_id
    job.await_alive(lambda: job.operation(first).state.final, "the answer to the first savepoint")
    pointers = len(job.job.savepoints.list().pointers)
    folder.unlink()
    second = job.job.request_savepoint(operation_id=new_id(), requested_by="test").operation_id
    job.await_alive(lambda: job.operation(second).state.final, "the answer to the second savepoint")
    completed = job.operation(second)
    problems = list(map(str, job.job.savepoints.verify(str(completed.result["savepoint_id"]))))
    return Saved(job.operation(first), pointers, completed, problems)


def test_a_savepoint_that_cannot_be_written_fails_and_leaves_no_pointer(saved: Saved) -> None:
    assert saved.failed.state is OperationState.FAILED
    assert saved.pointers_after_failure == 0


def test_the_job_goes_on_and_its_next_savepoint_is_whole(saved: Saved) -> None:
    assert saved.completed.state is OperationState.COMPLETED, saved.completed.error
    assert (saved.completed.epoch, saved.problems) == (1, [])


@dataclass(frozen=True)
class KilledJvm:
    """The job after the JVM of its first driver was killed in the middle of a batch."""

    lost: SubmissionView
    following: SubmissionView
    jvm: int
    survivors: list[int]
    old_directory: Path
    shown: str
    served: dict[str, float]
    held: int
    committed: int


@pytest.fixture(scope="module")
def killed_jvm(job: SupervisedJob, saved: Saved) -> KilledJvm:
    """The supervisor is later than Python's threads, which meet a broken connection."""
    assert saved.completed.state.final
    old_directory = job.working(1)
    assert old_directory is not None
    job.close_gate("plan")
    job.stream.feed(1)
    job.await_held("plan")
    held = job.progress(1).planned
    driver, supervisor, jvm, python = job.driver(), job.supervisor(), job.jvm(), job.python()

    supervisor.suspend()
    jvm.kill()
    wait_until(lambda: python.status() == psutil.STATUS_ZOMBIE, timeout=PATIENCE, what="the end of Python")
    supervisor.resume()
    following = attempt(job, 2)
    survivors = [process.pid for process in driver if alive(process.pid)]
    job.open_gate("plan")
    command = [str(Path(sys.executable).with_name("spark-ha")), "job", "show", job.job_id]
    shown = subprocess.run(
        command, env=os.environ | variables_of(job.client.config), check=True, capture_output=True, text=True
    ).stdout
    job.await_read(2)
    wait_until(lambda: "recovery_seconds commit" in scraped(job), timeout=PATIENCE, what="the first commit served")
    return KilledJvm(
        attempt(job, 1),
        following,
        jvm.pid,
        survivors,
        old_directory,
        shown,
        scraped(job),
        held,
        job.progress(2).committed,
    )


def test_a_killed_jvm_is_replaced_by_its_supervisor_without_a_delay(killed_jvm: KilledJvm) -> None:
    ended = killed_jvm.lost.exit

    assert ended is not None
    assert killed_jvm.following.submission.requested_by.startswith(BY)
    assert (killed_jvm.following.submission.created_at - ended.at).total_seconds() < 1


def test_the_exit_names_the_signal_and_its_usual_meaning_and_no_failure(killed_jvm: KilledJvm) -> None:
    ended = killed_jvm.lost.exit

    assert ended is not None
    assert ended.failure is None
    assert ended.reason == (
        "the JVM was killed by signal 9 (SIGKILL); unless a person sent it, the host was out of memory "
        f"(pid {killed_jvm.jvm}, exit status 137)"
    )


def test_job_show_names_the_signal_and_not_the_broken_connection(killed_jvm: KilledJvm) -> None:
    assert "signal 9 (SIGKILL)" in killed_jvm.shown
    assert "exit status 137" in killed_jvm.shown
    assert "BrokenPipe" not in killed_jvm.shown


def test_no_process_of_the_lost_driver_lives_when_the_next_attempt_is_made(killed_jvm: KilledJvm) -> None:
    assert killed_jvm.survivors == []


def test_the_next_epoch_has_a_directory_of_its_own_and_the_old_one_is_fenced(killed_jvm: KilledJvm) -> None:
    assert not killed_jvm.old_directory.exists()


def test_the_batch_in_flight_is_committed_by_the_next_epoch(killed_jvm: KilledJvm) -> None:
    assert killed_jvm.committed >= killed_jvm.held


def test_the_next_driver_serves_the_loss_and_the_phases_of_its_recovery(killed_jvm: KilledJvm) -> None:
    served = killed_jvm.served

    assert (served["restarts_day killed"], served["leader_epoch"]) == (1, 2)
    assert all(served[f"recovery_seconds {phase}"] >= 0 for phase in ("detect", "submit", "lead"))
    assert served["recovery_seconds total"] >= served["recovery_seconds commit"] > 0


@dataclass(frozen=True)
class LongCut:
    """The job after a cut that is longer than its session."""

    cut_at: float
    last_commit: float
    following: SubmissionView
    epoch: int
    first_directory_at_first_batch: bool


@pytest.fixture(scope="module")
def long_cut(job: SupervisedJob, proxy: FaultProxy, killed_jvm: KilledJvm) -> LongCut:
    assert killed_jvm.committed >= 0
    driver, working = [process.pid for process in job.driver()], job.working(2)
    assert working is not None

    began, cut_at = time.monotonic(), time.time()
    proxy.cut()
    job.stream.feed(1)
    wait_until(lambda: not any(map(alive, driver)), timeout=PATIENCE, what="the driver to end by itself")
    survived = time.monotonic() - began
    threading.Event().wait(max(0.0, TIMINGS.session_timeout - survived))
    commits = [path.stat().st_mtime for path in working.glob("*/commits/[0-9]*")]
    (first,) = job.live.glob("e1-*.dead")
    for gate in ("plan", "batch"):  # of either query
        job.close_gate(gate)
    proxy.heal()
    following = attempt(job, 3)
    job.stream.feed(1)
    for gate in ("plan", "batch"):
        job.await_held(gate)
    stays = first.is_dir()
    for gate in ("plan", "batch"):
        job.open_gate(gate)
    job.await_read(3)
    wait_until(lambda: not first.exists(), timeout=PATIENCE, what="the removal of the first epoch's directory")
    return LongCut(cut_at, max(commits), following, job.job.snapshot().epoch, stays)


def test_a_driver_that_is_cut_off_commits_nothing_once_another_one_may_lead(long_cut: LongCut) -> None:
    assert long_cut.last_commit < long_cut.cut_at + TIMINGS.session_timeout


def test_a_driver_that_ended_because_of_a_cut_is_started_again_when_zookeeper_answers(long_cut: LongCut) -> None:
    assert long_cut.following.submission.requested_by.startswith(BY)
    assert long_cut.epoch == 3


def test_a_recovery_removes_the_directory_of_an_older_epoch_after_its_first_batch_only(long_cut: LongCut) -> None:
    """The fixture waits for the removal. It took seconds of each recovery, and more with more files."""
    assert long_cut.first_directory_at_first_batch


@dataclass(frozen=True)
class Drained:
    """The job after a stop whose supervisor was killed in the middle of the drain."""

    last_words: str | None
    jvm: int
    before: Operation
    answer: Operation
    result: RunResult
    batch: int
    log: str
    newest: CheckpointKind
    graph_stays: bool
    windows: Windows
    rows: set[tuple[str, int]]


@pytest.fixture(scope="module")
def drained(job: SupervisedJob, long_cut: LongCut) -> Drained:
    """The drain's batch is in the sink, but its plan is in no checkpoint: kept there it ended the query for good."""
    epoch = long_cut.epoch
    job.close_gate("script")
    stop = job.stop("terminate")
    job.await_held("script")  # the windows are drained, the second run of the script has not ended
    batch = job.progress(epoch).planned + 1
    job.await_sink(batch)
    driver, jvm = job.driver(), job.jvm().pid
    job.supervisor().kill()
    wait_until(lambda: not any(alive(each.pid) for each in driver), timeout=5, what="the death of JVM and Python")
    last_words = read_failure(directory(job.job._job, attempt=3))
    job.await_lost()
    before = job.operation(stop)
    job.open_gate("script")
    job.recover()
    result = job.await_result()
    newest = next(iter(job.job.checkpoints.list()))
    log = job.log(newest_only=True)
    graph_stays = job.job.snapshot().graph is not None
    stream = job.stream
    answer = job.operation(stop)
    return Drained(
        last_words,
        jvm,
        before,
        answer,
        result,
        batch,
        log,
        newest.reason,
        graph_stays,
        stream.windows(),
        stream.seen(),
    )


def test_a_driver_does_not_outlive_its_supervisor_even_if_its_script_only_sleeps(drained: Drained) -> None:
    """The kernel kills the JVM only: a Python that leads on would keep recovery away."""
    assert drained.last_words == f"the JVM (pid {drained.jvm}) is gone"


def test_a_stop_outlives_the_driver_that_was_carrying_it_out(drained: Drained) -> None:
    assert drained.before.state is OperationState.RUNNING
    assert (drained.answer.state, drained.answer.epoch) == (OperationState.COMPLETED, 4)
    assert (drained.result.state, drained.newest) == (JobState.FINISHED, CheckpointKind.STOP)


def test_the_batch_of_an_unfinished_drain_is_set_aside_and_written_again(drained: Drained) -> None:
    assert f"batch {drained.batch} of an unfinished drain was set aside" in drained.log
    assert drained.result.drained["windows"].batch == drained.batch


def test_a_stopped_job_has_no_graph_that_could_bring_it_back(drained: Drained) -> None:
    assert not drained.graph_stays


def test_three_losses_and_a_drain_leave_each_window_once(job: SupervisedJob, drained: Drained) -> None:
    assert drained.windows == job.stream.expected_windows(6)


def test_three_losses_and_a_drain_lose_no_row_of_a_function(job: SupervisedJob, drained: Drained) -> None:
    assert drained.rows == job.stream.expected_rows(6)


@dataclass(frozen=True)
class Restored:
    """The job after a restore of its savepoint, from before the three losses."""

    status: JobStatus
    log: str
    windows: Windows
    rows: set[tuple[str, int]]


@pytest.fixture(scope="module")
def restored(job: SupervisedJob, saved: Saved, drained: Drained) -> Restored:
    assert drained.result.state is JobState.FINISHED
    savepoint = f"savepoint-{saved.completed.result['savepoint_id']}"
    job.job.restore(RestoreRequest(job_id=job.job_id, request_id=new_id(), start_from=savepoint))
    job.stream.feed(1)
    job.await_alive(lambda: job.run.run.number == 2 and job.job.snapshot().leader is not None, "the leader")
    epoch = job.job.snapshot().epoch
    job.await_read(epoch)
    job.await_alive(lambda: job.job.snapshot().state is JobState.RUNNING, "the job to be RUNNING")
    return Restored(job.job.snapshot(), job.log(newest_only=True), job.stream.windows(), job.stream.seen())


def test_a_restore_makes_a_new_run_in_a_higher_epoch(restored: Restored) -> None:
    assert restored.status.run is not None
    assert restored.status.run.run.number == 2
    assert restored.status.epoch > 4


def test_a_restore_executes_what_the_sink_has_without_writing_it(job: SupervisedJob, restored: Restored) -> None:
    assert "is executed again into noop" in restored.log
    assert restored.windows.items() <= job.stream.expected_windows(7).items()
    assert restored.rows == job.stream.expected_rows(7)


@dataclass(frozen=True)
class Canceled:
    """The job after a cancel."""

    answer: Operation
    result: RunResult
    survivors: list[int]
    last_commit: float
    status: JobStatus


@pytest.fixture(scope="module")
def canceled(job: SupervisedJob, restored: Restored) -> Canceled:
    driver, epoch = job.driver(), restored.status.epoch
    asked = job.job.request_cancel(operation_id=new_id(), requested_by="test").operation_id
    wait_until(lambda: job.run.result, timeout=PATIENCE, what="CANCELED", interval=0.005)
    survivors = [process.pid for process in driver if alive(process.pid)]
    directories = [path for path in job.live.glob(f"e{epoch}-*") if path.suffix != ".removed"]
    commits = [path.stat().st_mtime for folder in directories for path in folder.glob("*/commits/[0-9]*")]
    result = job.await_result()
    return Canceled(job.operation(asked), result, survivors, max(commits), job.job.snapshot())


def test_canceled_is_written_when_every_process_is_dead(canceled: Canceled) -> None:
    assert (canceled.result.state, canceled.survivors) == (JobState.CANCELED, [])


def test_nothing_is_committed_after_canceled(canceled: Canceled) -> None:
    assert canceled.last_commit < canceled.result.at.timestamp()


def test_a_cancel_answers_with_the_newest_checkpoint_and_removes_the_graph(canceled: Canceled) -> None:
    newest = canceled.status.latest_checkpoint

    assert newest is not None
    assert canceled.answer.state is OperationState.COMPLETED
    assert (canceled.answer.result["checkpoint"], canceled.result.checkpoint) == (newest, newest)
    assert canceled.status.graph is None


def test_a_canceled_run_is_cleaned_up_without_a_driver(job: SupervisedJob, canceled: Canceled) -> None:
    assert canceled.result.state is JobState.CANCELED

    wait_until(partial(_is_clean, job), timeout=PATIENCE, what="the clean-up after the end")


def _is_clean(job: SupervisedJob) -> bool:
    result = job.run.result
    return result is not None and result.cleanup == "CLEAN"
