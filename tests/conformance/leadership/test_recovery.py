"""What a new leader makes of the jobs that it finds, and what a deposed one can still do to them: nothing."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.coordination.coordinator import Delete
from airflow_provider_ha.errors import FencedError, JobStateError
from airflow_provider_ha.fleet.observations import ReconcileQueue
from airflow_provider_ha.fleet.reconciler import ReconcileOutcome
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.recovery.lost_runs import recover
from tests.conformance.leadership.stage import JOB, Interrupted, Stage
from tests.support.clusters.coordination_helpers import HeldClock
from tests.support.specs import changed


@pytest.mark.flink(
    "SessionDispatcherLeaderProcessTest#testRecoveryWithMultipleExecutionPlansAndOneMatchingDirtyJobResult",
    entry=19,
    mutant="dirty-is-never-run",
)
def test_of_several_graphs_only_those_without_a_result_are_run(stage: Stage) -> None:
    """Of jobs with a graph pointer each, those whose run has a result are cleaned up and the others are recovered.

    Flink: SessionDispatcherLeaderProcessTest#testRecoveryWithMultipleExecutionPlansAndOneMatchingDirtyJobResult [19]
    """
    stage.dirty("over", keep_pointer=True)
    stage.lost("lost")
    stage.lost("lost-too")
    before = len(stage.cluster.engine.launches())

    attendant = stage.lead_cluster(stage.session("recoverer"))
    outcomes = {name: attendant.attend(name).outcome for name in stage.cluster.client.list_jobs()}

    assert outcomes == {
        "lost": ReconcileOutcome.RECOVERED,
        "lost-too": ReconcileOutcome.RECOVERED,
        "over": ReconcileOutcome.CLEANED_UP,
    }
    assert stage.cluster.engine.launches()[before:] == [("lost", 2), ("lost-too", 2)]
    assert stage.node(stage.cluster.paths("over").job_graph) is None
    assert stage.cleanup("over") == "CLEAN"
    assert stage.cluster.attempts("over") == [1]


@pytest.mark.flink("JobMasterServiceLeadershipRunnerTest#testJobAlreadyDone", entry=21, mutant="admission-result")
def test_a_driver_of_a_job_that_is_done_does_not_lead(stage: Stage) -> None:
    """A run that has a result is never led again: its driver refuses itself and raises no epoch.

    Flink: JobMasterServiceLeadershipRunnerTest#testJobAlreadyDone [21]
    """
    stage.dirty(keep_pointer=True)  # even with a pointer that an administrator has put back
    epoch = stage.node(stage.paths.epoch)

    with pytest.raises(JobStateError, match="is FINISHED: it is never run again"):
        stage.drive(stage.session("late driver"))

    assert stage.node(stage.paths.epoch) == epoch
    assert stage.node(stage.paths.leader) is None


@pytest.mark.flink("JobMasterServiceLeadershipRunnerTest#testJobAlreadyDone", entry=21, mutant="admission-each-time")
def test_a_driver_that_waits_while_its_job_ends_does_not_lead(stage: Stage) -> None:
    """Who waits for the lock while the run ends finds the result before it takes the lock.

    Flink: JobMasterServiceLeadershipRunnerTest#testJobAlreadyDone [21]
    """
    stage.cluster.submitted(JOB)
    ending = stage.session("ending")
    leadership = stage.drive(ending)
    waiting = stage.session("waiting")
    looked: list[int] = []

    def describe(epoch: int) -> bytes:
        return f"epoch {epoch}".encode()

    def admit() -> None:
        looked.append(1)
        if stage.cleanup() is not None:
            raise JobStateError("run 1 has a result")

    def end() -> None:
        stage.finish(leadership, keep_pointer=True)
        leadership.release()

    real = waiting.find

    def find(path: str, **options: object) -> object:
        found = real(path, **options)  # type: ignore[arg-type]
        if path == stage.paths.leader and stage.cleanup() is None:
            end()  # right after it was seen to lead
        return found

    waiting.find = find  # type: ignore[assignment]
    with pytest.raises(JobStateError, match="has a result"):
        stage.acquire(waiting, describe=describe, admit=admit, timeout=5)

    assert looked
    assert stage.node(stage.paths.epoch).version == 1  # type: ignore[union-attr]


@pytest.mark.flink(
    "JobMasterServiceLeadershipRunnerTest#testResultFutureCompletionOfOutdatedLeaderIsIgnored",
    entry=54,
    mutant="guard-epoch",
)
def test_the_result_of_a_deposed_leader_is_dropped(stage: Stage) -> None:
    """A deposed leader cannot end the run, although its session is alive; the run ends as its successor says.

    Flink: JobMasterServiceLeadershipRunnerTest#testResultFutureCompletionOfOutdatedLeaderIsIgnored [54]
    """
    stage.cluster.submitted(JOB)
    outdated = stage.drive(stage.session("outdated"))
    stage.coordinator.commit(Delete(stage.paths.leader))
    current = stage.drive(stage.session("current"))

    with pytest.raises(FencedError):
        stage.finish(outdated)
    left = stage.cleanup(), stage.job().graphs.pointer()
    current.commit(stage.job().runs.result_op(1, stage.result(current, JobState.FAILED)))

    assert left[0] is None
    assert isinstance(left[1], GraphPointer)
    result = stage.job().runs.result(1)
    assert result is not None
    assert (result.state, result.epoch) == (JobState.FAILED, 2)


@pytest.mark.flink(
    "SessionDispatcherLeaderProcessTest#onAddedExecutionPlan_duplicateJobSubmissionDueToFalsePositive_willBeIgnored",
    entry=107,
    mutant="agenda-busy",
)
def test_a_job_that_is_touched_again_is_not_attended_to_twice_at_once() -> None:
    """A job that is announced while it is attended to is looked at again afterwards, and not beside it.

    Flink:
    SessionDispatcherLeaderProcessTest#onAddedExecutionPlan_duplicateJobSubmissionDueToFalsePositive_willBeIgnored [107]
    """
    agenda = ReconcileQueue(HeldClock())
    agenda.expect([JOB])
    first = agenda.take()

    agenda.touch(JOB)
    agenda.expect([JOB])
    beside = agenda.take()
    agenda.done(JOB, 60)

    assert (first, beside, agenda.take()) == ([JOB], [], [JOB])


@pytest.mark.flink(
    "SessionDispatcherLeaderProcessTest#onAddedExecutionPlan_duplicateJobSubmissionDueToFalsePositive_willBeIgnored",
    entry=107,
    mutant="lost-race-is-claimed",
)
def test_a_loss_that_two_see_is_recovered_once(stage: Stage) -> None:
    """Of two who have both seen one loss, one makes a submission of it and the other finds that one.

    Flink:
    SessionDispatcherLeaderProcessTest#onAddedExecutionPlan_duplicateJobSubmissionDueToFalsePositive_willBeIgnored [107]
    """
    stage.lost()
    before = len(stage.cluster.engine.launches())
    follower = stage.job(stage.session("an Airflow task"))
    session: Any = Interrupted(
        stage.session("recoverer"),
        lambda op: op.path == stage.paths.submission(1, 2),
        lambda: recover(follower, by="an Airflow task", wait=False),
    )

    outcome = stage.lead_cluster(session).attend(JOB).outcome

    assert outcome is ReconcileOutcome.ON_ITS_WAY
    assert stage.cluster.engine.launches()[before:] == [(JOB, 2)]
    assert stage.cluster.attempts(JOB) == [1, 2]
    assert stage.coordinator.children(stage.paths.recoveries) == ["1"]


@pytest.mark.flink(
    "DispatcherResourceCleanupTest#testDuplicateJobSubmissionDoesNotDeleteJobMetaData",
    entry=108,
    mutant="live-run-refuses",
)
def test_a_second_submission_of_a_live_job_changes_nothing(stage: Stage) -> None:
    """To submit a job that has a live run is refused, and leaves every node and every object as it was.

    Flink: DispatcherResourceCleanupTest#testDuplicateJobSubmissionDoesNotDeleteJobMetaData [108]
    """
    stage.cluster.submitted(JOB)
    stage.drive(stage.session("driver"))
    other = changed(stage.cluster.request(JOB), request_id="another")

    def everything() -> tuple[object, ...]:
        nodes = {path: stage.node(path) for path in stage.below(stage.paths.base)}
        return nodes, sorted(found.key for found in stage.cluster.client.store.list(""))

    before = everything()

    with pytest.raises(JobStateError, match="already has a live run"):
        stage.cluster.client.job(JOB).submit(other)

    assert everything() == before


@pytest.mark.flink(
    "SessionDispatcherLeaderProcessTest#testRecoveryWithoutExecutionPlanButDirtyJobResult",
    entry=20,
    mutant="clean-up-without-pointer",
)
def test_a_clean_up_goes_on_without_a_graph(stage: Stage) -> None:
    """A DIRTY result is enough to clean up: neither pointer nor graph is needed for it.

    Flink: SessionDispatcherLeaderProcessTest#testRecoveryWithoutExecutionPlanButDirtyJobResult [20]
    """
    stage.dirty()
    for found in list(stage.cluster.client.store.list("blobs/")):
        stage.cluster.client.store.delete(found.key)

    outcome = stage.lead_cluster(stage.session("recoverer")).attend(JOB).outcome

    assert outcome is ReconcileOutcome.CLEANED_UP
    assert stage.cleanup() == "CLEAN"
