"""After the end of a run: the result first, then what it left goes, then CLEAN; however often it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas import linked_work_area
from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.driver.members.housekeeping import Housekeeping
from airflow_provider_ha.errors import (
    CoordinationError,
    JobStateError,
    LeadershipError,
    OutcomeUnknownError,
    StorageUnavailableError,
)
from airflow_provider_ha.fleet.cluster_removal import erase
from airflow_provider_ha.fleet.reconciler import ReconcileOutcome
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.operations import stop
from airflow_provider_ha.jobs.recovery import transactions
from airflow_provider_ha.jobs.removal.cleanup import clean_up
from airflow_provider_ha.storage import durable
from tests.conformance.leadership.stage import JOB, Stage


OLD = ("e1-first.dead", "e2-second.dead")
CURRENT = "e3-third"


def names(live: Path) -> list[str]:
    return sorted(path.name for path in live.iterdir())


class Removals:
    """Stands in for the removal of a directory: remembers, lets something happen, and removes or fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
        self.stage = stage
        self.seen: list[tuple[str, str | None, bool]] = []
        self.failures = 0
        self.between: Any = lambda: None
        monkeypatch.setattr(linked_work_area, "remove_tree", self)

    def __call__(self, path: Path) -> None:
        pointer = self.stage.node(self.stage.paths.job_graph) is not None
        self.seen.append((path.name, self.stage.cleanup(), pointer))
        if self.failures:
            self.failures -= 1
            raise OSError(5, "the disk is not well")
        durable.remove_tree(path)
        self.between()


@pytest.fixture
def removals(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> Removals:
    return Removals(monkeypatch, stage)


@pytest.mark.flink(
    "DispatcherResourceCleanupTest#testJobBeingMarkedAsDirtyBeforeCleanup", entry=15, mutant="dirty-first"
)
def test_nothing_is_cleaned_up_before_the_run_has_a_result(stage: Stage) -> None:
    """As long as a run has no result, nothing of it is removed, whichever process asks.

    Flink: DispatcherResourceCleanupTest#testJobBeingMarkedAsDirtyBeforeCleanup [15]
    """
    stage.lost()
    live = stage.directories(*OLD, current=CURRENT)
    before = names(live), stage.node(stage.paths.job_graph)

    with pytest.raises(JobStateError, match="is not over"):
        clean_up(stage.job())

    assert (names(live), stage.node(stage.paths.job_graph)) == before


@pytest.mark.flink(
    "DispatcherResourceCleanupTest#testJobBeingMarkedAsDirtyBeforeCleanup", entry=15, mutant="dirty-first-driver"
)
def test_a_driver_removes_nothing_before_its_run_has_a_result(stage: Stage) -> None:
    """A driver's own clean-up, too, begins with the DIRTY result that it finds, and ends with CLEAN.

    Flink: DispatcherResourceCleanupTest#testJobBeingMarkedAsDirtyBeforeCleanup [15]
    """
    stage.cluster.submitted(JOB)
    session = stage.session("driver")
    leadership, job = stage.drive(session), stage.job(session)
    live = stage.directories(*OLD, current=CURRENT)
    checkpoints = CheckpointStore(
        session, job.store, job.paths, job.keys, LinkedWorkArea(job.config.work_path), clock=job.clock
    )
    current = f"{job.keys.base}/live/{CURRENT}"
    housekeeping = Housekeeping(job.runs, leadership, checkpoints, LinkedWorkArea(job.config.work_path), current)

    housekeeping.finish(1)
    too_early = names(live)
    stage.finish(leadership)
    housekeeping.finish(1)

    assert too_early == sorted([*OLD, CURRENT])
    assert names(live) == [CURRENT]
    assert stage.cleanup() == "CLEAN"


@pytest.mark.flink("DispatcherResourceCleanupTest#testJobBeingMarkedAsCleanAfterCleanup", entry=16, mutant="clean-last")
def test_a_result_is_clean_only_after_everything_is_gone(stage: Stage, removals: Removals) -> None:
    """The result stays DIRTY until the last thing is removed, and is CLEAN then.

    Flink: DispatcherResourceCleanupTest#testJobBeingMarkedAsCleanAfterCleanup [16]
    """
    stage.dirty()
    live = stage.directories(*OLD, current=CURRENT)

    assert clean_up(stage.job()) == (1,)

    assert removals.seen == [(name, "DIRTY", False) for name in OLD]
    assert names(live) == [CURRENT]
    assert stage.cleanup() == "CLEAN"


@pytest.mark.flink(
    "DispatcherResourceCleanupTest#testFatalErrorIfJobCannotBeMarkedDirtyInJobResultStore",
    entry=17,
    mutant="result-with-pointer",
)
def test_a_result_that_cannot_be_written_is_an_error_and_the_run_is_recovered(stage: Stage) -> None:
    """A run whose result could not be written has not ended: its end is loud, it keeps its pointer, and is recovered.

    Flink: DispatcherResourceCleanupTest#testFatalErrorIfJobCannotBeMarkedDirtyInJobResultStore [17]
    """
    stage.lost()
    session = stage.session("canceling")
    stage.ensemble.drop_request(session, containing=stage.paths.run_result(1))

    with pytest.raises(OutcomeUnknownError):
        stop.fail(stage.job(session), "asked", by="test")
    session.close()

    assert stage.cleanup() is None
    assert stage.node(stage.paths.job_graph) is not None
    assert stage.lead_cluster(stage.session("recoverer")).attend(JOB).outcome is ReconcileOutcome.RECOVERED


@pytest.mark.flink("DispatcherCleanupITCase#testCleanupAfterLeadershipChange", entry=22, mutant="cleanup-prove")
def test_the_next_leader_finishes_the_clean_up_that_the_last_one_began(stage: Stage, removals: Removals) -> None:
    """A clean-up whose leader is deposed in the middle stops there, and the next leader of the cluster finishes it.

    Flink: DispatcherCleanupITCase#testCleanupAfterLeadershipChange [22]
    """
    stage.dirty()
    live = stage.directories(*OLD, current=CURRENT)
    deposed = stage.session("deposed")
    attendant = stage.lead_cluster(deposed)
    removals.between = lambda: stage.ensemble.expire(deposed)

    attended = attendant.attend(JOB)
    left, state = names(live), stage.cleanup()
    removals.between = lambda: None

    assert attended.outcome is not ReconcileOutcome.CLEANED_UP
    assert (left, state) == (sorted([OLD[1], CURRENT]), "DIRTY")
    assert stage.lead_cluster(stage.session("next")).attend(JOB).outcome is ReconcileOutcome.CLEANED_UP
    assert names(live) == [CURRENT]
    assert stage.cleanup() == "CLEAN"


@pytest.mark.flink("DispatcherCleanupITCase#testCleanupThroughRetries", entry=23, mutant="clean-last")
@pytest.mark.flink("DefaultResourceCleanerTest#testCleanupWithRetries", entry=110, mutant="clean-last")
def test_a_clean_up_that_fails_is_tried_again_until_it_is_done(stage: Stage, removals: Removals) -> None:
    """A clean-up that failed leaves the result DIRTY, and is repeated until it succeeds.

    Flink: DispatcherCleanupITCase#testCleanupThroughRetries [23],
    DefaultResourceCleanerTest#testCleanupWithRetries [110]
    """
    stage.dirty()
    live = stage.directories(*OLD, current=CURRENT)
    removals.failures = 3
    states = []

    for _ in range(3):
        with pytest.raises(StorageUnavailableError, match="not well"):
            clean_up(stage.job())
        states.append(stage.cleanup())
    clean_up(stage.job())

    assert states == ["DIRTY"] * 3
    assert names(live) == [CURRENT]
    assert stage.cleanup() == "CLEAN"


@pytest.mark.flink("DispatcherCleanupITCase#testCleanupNotCancellable", entry=24, mutant="cancel-of-an-ended-run")
def test_a_cancel_is_no_way_out_of_a_clean_up(stage: Stage, removals: Removals) -> None:
    """A run that is over cannot be canceled: its result stays what it is, and DIRTY until it is cleaned up.

    Flink: DispatcherCleanupITCase#testCleanupNotCancellable [24]
    """
    stage.dirty()
    stage.directories(*OLD, current=CURRENT)
    removals.failures = 1
    with pytest.raises(StorageUnavailableError, match="not well"):
        clean_up(stage.job())
    before = stage.node(stage.paths.run_result(1))

    with pytest.raises(JobStateError, match="no live run"):
        transactions.conclude(stage.job(), JobState.CANCELED, reason="asked", by="test")
    with pytest.raises(JobStateError, match="is FINISHED: it accepts no cancel"):
        stop.cancel(stage.job(), operation_id="cancel-1", requested_by="test")

    assert stage.node(stage.paths.run_result(1)) == before
    clean_up(stage.job())
    assert stage.cleanup() == "CLEAN"


@pytest.mark.flink(
    "ZooKeeperDefaultDispatcherRunnerTest#testResourceCleanupUnderLeadershipChange",
    entry=25,
    mutant="result-removes-pointer",
)
def test_nothing_is_left_of_a_job_that_changed_hands_and_was_canceled(stage: Stage) -> None:
    """Leaders come and go, the job is canceled: no pointer is left to bring it back, and all its data can go.

    Flink: ZooKeeperDefaultDispatcherRunnerTest#testResourceCleanupUnderLeadershipChange [25] (FLINK-10011)
    Differs: epochs stay, so that no process that slept through it comes back under one that is given out again.
    """
    stage.lost()
    first = stage.session("first")
    deposed = stage.lead_cluster(first)
    deposed.attend(JOB)
    stage.ensemble.expire(first)
    second = stage.session("second")
    leader = stage.lead_cluster(second)
    driver = stage.session("driver")
    stage.drive(driver, attempt=2)
    stage.ensemble.expire(driver)

    transactions.conclude(stage.job(second), JobState.CANCELED, reason="asked", by="test")
    left_for_recovery = stage.node(stage.paths.job_graph)
    cleaned = leader.attend(JOB).outcome
    with pytest.raises(LeadershipError):
        deposed._leadership.commit(SetData(stage.paths.epoch, b"never"))
    erase(stage.cluster.open(second, clock=stage.ensemble.clock), leader._leadership)

    lock = stage.paths.lock
    assert cleaned is ReconcileOutcome.CLEANED_UP
    assert left_for_recovery is None
    assert stage.below(stage.paths.base) == [lock, f"{lock}/epoch", f"{lock}/heartbeat", stage.paths.savepoints]
    assert [each.key for each in stage.cluster.client.store.list("")] == ["cluster.json"]


@pytest.mark.flink(
    "DefaultResourceCleanerTest#testHighestPriorityCleanupBlocksAllOtherCleanups", entry=109, mutant="pointer-first"
)
def test_nothing_is_removed_before_the_pointer_that_could_bring_the_job_back(stage: Stage, removals: Removals) -> None:
    """The graph pointer goes first; until it is gone, no file is removed.

    Flink: DefaultResourceCleanerTest#testHighestPriorityCleanupBlocksAllOtherCleanups [109]
    """
    stage.dirty(keep_pointer=True)
    live = stage.directories(*OLD, current=CURRENT)
    session = stage.session("cleaning")
    stage.ensemble.drop_request(session, containing=stage.paths.job_graph)

    with pytest.raises(CoordinationError):
        clean_up(stage.job(session))
    kept = names(live), stage.cleanup()
    clean_up(stage.job(session))

    assert kept == (sorted([*OLD, CURRENT]), "DIRTY")
    assert removals.seen == [(name, "DIRTY", False) for name in OLD]
    assert stage.cleanup() == "CLEAN"
