"""One job whose losses need more than a restart, with a real Spark: each is caused once, and several tests read it.

The phases are fixtures of the module, in the order of their chain: a state file is gone, the input of the batch in
flight is gone, the loss is accepted, the driver is frozen beyond its session, a stop hangs and a cancel
overtakes it, a run begins from nothing and is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import psutil
import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.spark.metadata_log import read_offsets
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.errors import DecisionNeededError, RestoreRefusedError
from airflow_provider_ha.jobs.condition import Action, JobCondition, decide
from airflow_provider_ha.jobs.model import Fallback, Generation, JobState, Operation, OperationState, RunResult
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.runs.run_store import RunView
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers
from tests.support.clusters.submit_helpers import alive
from tests.support.spark.driver_helpers import PATIENCE, Stream
from tests.support.spark.supervised_job import SupervisedJob, newest_state


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def job(zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedJob]:
    """The job; a lost driver stays lost until it is recovered, and one counted failure would end the run."""
    root = tmp_path_factory.mktemp("decisions")
    config = HaConfig.build(
        zookeeper=zookeeper_server.hosts,
        storage_root=f"file://{root}/storage",
        cluster_id=f"c-{new_id()[:12]}",
    )
    options = HaOptions(checkpoint_interval=0, restart_delay=0, restart_in_place=False)
    with HaClient.open(config) as client:
        yield SupervisedJob(client, Stream(root), ("rows",), options=options)
        submit_helpers.kill_all(client.job("gated")._job)


def condition(job: SupervisedJob) -> JobCondition:
    return decide(job.job.snapshot(), job.options, job.client.clock.now())


def hold_a_batch(job: SupervisedJob, epoch: int) -> int:
    """Feed a file, and hold its batch in the function; returns its number."""
    job.await_alive(lambda: _idle(job, epoch), "the batch without rows after the last file")
    job.close_gate("batch")
    job.stream.feed(1)
    job.await_held("batch")
    return job.progress(epoch, "rows").planned


def _idle(job: SupervisedJob, epoch: int) -> bool:
    """Whether the last file is followed by the batch without rows that its watermark brings."""
    tree, now = job.tree(epoch), job.progress(epoch, "rows")
    if tree is None or now.committed != now.planned or now.committed < 1:
        return False
    newest = (read_offsets(tree / "rows", batch).log_offset(0) for batch in (now.committed - 1, now.committed))
    return all(offset == job.stream.files - 1 for offset in newest)


@dataclass(frozen=True)
class FellBack:
    """The job after the newest state of its working directory was removed while it had no driver."""

    newest: int
    fallback: Fallback | None
    log: str
    run: RunView


@pytest.fixture(scope="module")
def fell_back(job: SupervisedJob) -> FellBack:
    job.stream.feed(3)
    job.submit()
    job.await_read(1)

    def is_published() -> bool:
        newest = next(iter(job.job.checkpoints.list()), None)
        now = job.progress(1, "rows")
        return newest is not None and newest.cut["rows"] == now.committed == now.planned

    job.await_alive(is_published, "a checkpoint of the last batch")
    working = job.working(1)
    assert working is not None
    job.kill()
    newest = next(iter(job.job.checkpoints.list())).number
    newest_state(working / "rows").unlink()

    job.recover()
    job.stream.feed(1)
    job.await_read(2)
    generation = job.job.snapshot().generation
    assert generation is not None
    return FellBack(newest, generation.fallback, job.log(newest_only=True), job.run)


def test_a_damaged_working_directory_is_replaced_by_the_newest_checkpoint(fell_back: FellBack) -> None:
    assert fell_back.fallback is not None
    assert (fell_back.fallback.source, fell_back.fallback.epoch) == (f"checkpoint-{fell_back.newest}", 2)
    assert "fell back to checkpoint-" in fell_back.log


def test_a_fallback_costs_one_attempt_and_no_new_run(fell_back: FellBack) -> None:
    assert (fell_back.run.run.number, len(fell_back.run.submissions)) == (1, 2)


@dataclass(frozen=True)
class InputGone:
    """The job after the input of the batch in flight was removed."""

    planned: int
    condition: JobCondition
    refusals: list[str]
    attempts: int


@pytest.fixture(scope="module")
def input_gone(job: SupervisedJob, fell_back: FellBack) -> InputGone:
    assert fell_back.run.result is None
    planned = hold_a_batch(job, 2)
    newest = max(job.stream.source.iterdir())
    newest.unlink()
    job.kill()
    job.open_gate("batch")
    job.recover()
    job.await_exit(3)
    refusals = []
    for _ in range(2):
        with pytest.raises(DecisionNeededError) as refused:
            job.recover()
        refusals.append(str(refused.value))
    return InputGone(planned, condition(job), refusals, len(job.run.submissions))


def test_a_batch_in_flight_without_its_input_is_a_decision_that_names_batch_and_file(input_gone: InputGone) -> None:
    assert f"batch {input_gone.planned} has to be replayed" in input_gone.condition.problem
    assert "0004.json is gone" in input_gone.condition.problem


def test_a_run_that_waits_for_a_decision_needs_a_person(input_gone: InputGone) -> None:
    assert (input_gone.condition.action, input_gone.condition.needs_person) == (Action.ASK, True)


def test_a_run_that_waits_for_a_decision_is_not_tried_again(input_gone: InputGone) -> None:
    assert all("--if-lost recover --accept-verdicts LOSS_POSSIBLE" in text for text in input_gone.refusals)
    assert input_gone.attempts == 3


@dataclass(frozen=True)
class Accepted:
    """The job after its user has accepted the loss."""

    generation: Generation
    rows: set[tuple[str, int]]


LOST = {(key, 40 + value) for key in ("a", "b") for value in (1, 2)}  # the rows of 0004.json


@pytest.fixture(scope="module")
def accepted(job: SupervisedJob, input_gone: InputGone) -> Accepted:
    """The user accepts the loss of this batch."""
    job.job.restore(
        RestoreRequest(
            job_id=job.job_id,
            request_id=new_id(),
            if_lost=LostRunPolicy.RECOVER,
            accept_verdicts=frozenset({Verdict.SAFE, Verdict.LOSS_POSSIBLE}),
        )
    )
    job.await_committed(4, input_gone.planned)
    job.stream.feed(1)
    job.await_read(4)
    generation = job.job.snapshot().generation
    assert generation is not None
    return Accepted(generation, job.stream.seen())


def test_an_accepted_loss_is_recorded_for_exactly_its_batch(accepted: Accepted, input_gone: InputGone) -> None:
    assert accepted.generation.lossy == {"rows": input_gone.planned}


def test_after_an_accepted_loss_the_run_goes_on_with_its_next_input(job: SupervisedJob, accepted: Accepted) -> None:
    assert accepted.generation.epoch == 4
    assert accepted.rows == job.stream.expected_rows(6) - LOST


@dataclass(frozen=True)
class Frozen:
    """The job after its driver was frozen beyond its session, and woke up under the next one."""

    before: set[tuple[str, bytes, int]]
    after: set[tuple[str, bytes, int]]
    exit_path: str
    report: bytes
    fenced: int
    rows: set[tuple[str, int]]


def nodes(coordinator: Coordinator, path: str) -> Iterator[tuple[str, bytes, int]]:
    """Yield every node below *path* with its data and version, but for the heartbeat of who leads."""
    for name in coordinator.children(path):
        child = f"{path}/{name}"
        node = coordinator.find(child)
        if node is not None and name != "heartbeat":
            yield child, node.data, node.version
        yield from nodes(coordinator, child)


@pytest.fixture(scope="module")
def frozen(job: SupervisedJob, accepted: Accepted) -> Frozen:
    coordinator, paths = job.client.coordinator, job.job._job.paths
    epoch, attempt = accepted.generation.epoch, len(job.run.submissions)
    hold_a_batch(job, epoch)
    processes = [job.supervisor(), *job.driver()]
    for process in processes:
        process.suspend()
    try:
        job.await_lost()
        job.open_gate("batch")
        job.recover()
        job.await_read(epoch + 1)
        wait_until(lambda: _quiet(job, epoch + 1), timeout=PATIENCE, what="a checkpoint of the last batch")
        before = set(nodes(coordinator, paths.base))
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):  # the first that wakes may end the others
                process.resume()
    wait_until(lambda: not any(alive(each.pid) for each in processes), timeout=PATIENCE, what="the zombie's end")
    exit_path = paths.submission_exit(1, attempt)
    reported = coordinator.find(exit_path)
    assert reported is not None
    fenced = len(list(job.live.glob(f"e{epoch}-*.dead")))
    after = set(nodes(coordinator, paths.base))
    job.stream.feed(1)
    job.await_read(epoch + 1)
    return Frozen(before, after, exit_path, reported.data, fenced, job.stream.seen())


def _quiet(job: SupervisedJob, epoch: int) -> bool:
    """Whether the newest checkpoint holds the last batch, which has no rows, and the status names it."""
    newest = next(iter(job.job.checkpoints.list()), None)
    status, now = job.job.snapshot().status, job.progress(epoch, "rows")
    held = newest is not None and newest.cut == {"rows": now.committed} and now.committed == now.planned
    return (
        _idle(job, epoch) and held and status is not None and newest is not None and status.checkpoint == newest.number
    )


def test_a_driver_that_wakes_after_its_session_changes_no_node_but_its_exit(frozen: Frozen) -> None:
    assert {node for node in frozen.after if node[0] != frozen.exit_path} == frozen.before


def test_a_driver_that_wakes_after_its_session_reports_why_it_ended(frozen: Frozen) -> None:
    assert re.search(rb"the lease ran out|session .* has ended", frozen.report), frozen.report


def test_the_directory_of_a_frozen_driver_is_fenced(frozen: Frozen) -> None:
    assert frozen.fenced == 1


def test_under_a_driver_that_woke_up_the_next_one_loses_no_row(job: SupervisedJob, frozen: Frozen) -> None:
    assert frozen.rows == job.stream.expected_rows(8) - LOST


@dataclass(frozen=True)
class Overtaken:
    """The job after a stop that hung in a batch, and the cancel that overtook it."""

    stop: Operation
    cancel: Operation
    result: RunResult
    survivors: list[int]
    newest: int | None


@pytest.fixture(scope="module")
def overtaken(job: SupervisedJob, frozen: Frozen) -> Overtaken:
    assert frozen.fenced
    hold_a_batch(job, job.job.snapshot().epoch)
    stop = job.stop("suspend")
    wait_until(
        lambda: (status := job.job.snapshot().status) and status.state is JobState.STOPPING,
        timeout=PATIENCE,
        what="STOPPING",
    )
    driver = job.driver()
    cancel = job.job.request_cancel(operation_id="cancel", requested_by="test").operation_id
    result = job.await_result()
    job.open_gate("batch")
    survivors = [process.pid for process in driver if alive(process.pid)]
    newest = job.job.snapshot().latest_checkpoint
    return Overtaken(job.operation(stop), job.operation(cancel), result, survivors, newest)


def test_a_cancel_ends_a_run_whose_stop_hangs_in_a_batch(overtaken: Overtaken) -> None:
    assert (overtaken.result.state, overtaken.cancel.state) == (JobState.CANCELED, OperationState.COMPLETED)
    assert overtaken.survivors == []


def test_a_stop_that_was_overtaken_is_answered_with_the_cancel_and_its_checkpoint(overtaken: Overtaken) -> None:
    assert overtaken.stop.state is OperationState.FAILED
    assert f"cancelled (checkpoint {overtaken.newest}) by operation 'cancel'" in overtaken.stop.error


@dataclass(frozen=True)
class BegunAnew:
    """The job after a run from nothing that gave its function a batch and was lost before its first checkpoint."""

    unasked: str
    back: str


@pytest.fixture(scope="module")
def begun_anew(job: SupervisedJob, overtaken: Overtaken) -> BegunAnew:
    assert overtaken.result.state is JobState.CANCELED
    job.close_gate("batch")
    with pytest.raises(RestoreRefusedError) as unasked:
        job.submit(start_from="fresh")
    job.submit(start_from="fresh", accept=(Verdict.LOSS_POSSIBLE,))
    job.await_held("batch")  # its function has been called with a batch that the first run has given it, too
    job.kill()
    job.job.request_cancel(operation_id=new_id(), requested_by="test")
    assert job.await_result().state is JobState.CANCELED
    job.open_gate("batch")
    with pytest.raises(RestoreRefusedError) as back:
        job.submit()
    return BegunAnew(str(unasked.value), str(back.value))


def test_a_job_with_checkpoints_does_not_begin_from_nothing_unasked(begun_anew: BegunAnew) -> None:
    assert re.search(r"from nothing is LOSS_POSSIBLE: .*the numbers start again at 0", begun_anew.unasked)


def test_a_submit_does_not_go_back_to_the_checkpoint_before_a_fresh_run_that_was_lost(begun_anew: BegunAnew) -> None:
    assert re.search(r"LOSS_POSSIBLE: .*run 2 did not continue from this cut", begun_anew.back)
