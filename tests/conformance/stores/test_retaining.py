"""The completed-checkpoint store: what is subsumed, what is cleaned, and what the end of a run gives up.

Ported from ``DefaultCompletedCheckpointStoreTest``, ``ZooKeeperCompletedCheckpointStoreITCase`` and
``CheckpointsCleanerTest``. Flink's savepoints are among the checkpoints; ours are the user's, and lie elsewhere.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.model import CheckpointKind
from tests.conformance.stores.stage import (
    Stage,
    add_savepoint,
    flink,
    job_of,
    payloads,
    pins,
    pointers,
    reading,
    savepoints,
)
from tests.support.checkpoints.checkpoint_helpers import Job


@flink(
    "ZooKeeperCompletedCheckpointStoreITCase#testConcurrentCheckpointOperations",
    entry=5,
    mutant="subsume-ignores-leases",
)
def test_what_another_process_restores_from_is_not_subsumed(stage: Stage, job: Job) -> None:
    """What another process restores from keeps its pointer, its payload and its pin until the lease is given back.

    Flink: ZooKeeperCompletedCheckpointStoreITCase#testConcurrentCheckpointOperations [5].
    """
    job.add(1, 1, 1)
    session = stage.session("restore")
    other = job_of(stage.config, session, job.leadership, clock=stage.wall)
    with reading(job, session, 1, clock=stage.wall):
        ((pointer, _),) = other.checkpoints.recover().checkpoints
        job.add(2, 2, 2)
        assert job.checkpoints.retain(job.leadership, 1) == ()

        assert (pointers(job), pins(job)) == ([1, 2], [1, 2])
        assert other.checkpoints.load(pointer).number == 1

    assert job.checkpoints.retain(job.leadership, 1) == (1,)
    assert (pointers(job), payloads(job), pins(job)) == ([2], [2], [2])


@flink("DefaultCompletedCheckpointStoreTest#testOlderSavepointSubsumed", entry=75, mutant="savepoints-need-no-payloads")
def test_a_savepoint_is_never_subsumed(job: Job) -> None:
    """A savepoint neither counts nor goes, and the payloads that a restore from it would replay stay with it.

    Flink: DefaultCompletedCheckpointStoreTest#testOlderSavepointSubsumed [75].
    Differs: (1; cp1, sp, cp2, cp3) leaves sp and cp3. A savepoint is the user's: only who asked for it disposes of it.
    """
    job.add(1, 1, 1)
    add_savepoint(job, "mine", 1)
    for number in (2, 3):
        job.add(number, number, number)

    assert job.checkpoints.retain(job.leadership, 1) == (1, 2)

    assert (pointers(job), pins(job)) == ([3], [3])
    assert savepoints(job) == ["mine"]
    assert payloads(job) == [1, 2, 3]


@flink(
    "DefaultCompletedCheckpointStoreTest#testSubsumeAfterStoppingWithSavepoint",
    entry=76,
    mutant="stop-checkpoints-stay",
)
def test_a_stop_checkpoint_is_retained_as_the_newest_and_then_subsumed(job: Job) -> None:
    """A stop checkpoint subsumes what is older, as any newest one does, and is subsumed by what comes after it.

    Flink: DefaultCompletedCheckpointStoreTest#testSubsumeAfterStoppingWithSavepoint [76].
    Differs: (1; cp1, sp, stop) leaves stop in Flink, and stop with sp here.
    """
    job.add(1, 1, 1)
    add_savepoint(job, "mine", 1)
    job.pin_path(2).mkdir(parents=True)
    stop = job.checkpoint(2, 2, 2).model_copy(update={"reason": CheckpointKind.STOP})
    job.checkpoints.add(job.leadership, stop)

    assert job.checkpoints.retain(job.leadership, 1) == (1,)
    assert (pointers(job), pins(job)) == ([2], [2])
    job.add(3, 3, 3)
    assert job.checkpoints.retain(job.leadership, 1) == (2,)
    assert (pointers(job), pins(job), savepoints(job)) == ([3], [3], ["mine"])


@flink("DefaultCompletedCheckpointStoreTest#testNotSubsumedIfNotNeeded", entry=77, mutant="subsume-keeps-one")
def test_nothing_goes_while_there_is_room(job: Job) -> None:
    """While no more than N are there nothing is subsumed: nothing is listed for deletion, no node changes.

    Flink: DefaultCompletedCheckpointStoreTest#testNotSubsumedIfNotNeeded [77].
    """
    for number in (1, 2, 3):
        job.add(number, number, number)

    assert job.checkpoints.retain(job.leadership, 3) == ()

    assert (pointers(job), payloads(job), pins(job)) == ([1, 2, 3], [1, 2, 3], [1, 2, 3])
    assert job.coordinator.children(job.paths.cluster.to_delete) == []


@flink("CheckpointsCleanerTest#testNotCleanHigherCheckpoint", entry=86, mutant="collector-takes-what-is-being-made")
def test_what_is_being_made_is_not_cleaned(job: Job) -> None:
    """A clean-up takes no pin and no payload above the counter: their checkpoint is being made at this moment.

    Flink: CheckpointsCleanerTest#testNotCleanHigherCheckpoint [86].
    """
    for number in (1, 2):
        job.add(number, number, number)
    coming = job.checkpoint(3, 3, 3)
    job.pin_path(3).mkdir()
    job.objects.create(job.keys.payload(3, coming.epoch), coming.to_bytes())

    job.checkpoints.retain(job.leadership, 1)

    assert (payloads(job), pins(job)) == ([2, 3], [2, 3])
    job.checkpoints.add(job.leadership, coming)
    assert pointers(job) == [2, 3]


@flink("ZooKeeperCompletedCheckpointStoreITCase#testSuspendKeepsCheckpoints", entry=11, mutant="suspension-discards")
def test_a_suspension_keeps_every_checkpoint(stage: Stage, job: Job) -> None:
    """A job that is suspended keeps its checkpoints, also when its end was to remove them, and leaves no lock on them.

    Flink: ZooKeeperCompletedCheckpointStoreITCase#testSuspendKeepsCheckpoints [11].
    """
    for number in (1, 2):
        job.add(number, number, number)

    job.checkpoints.shutdown(job.leadership, terminal=False, retained=False)
    job.leadership.release()
    job.coordinator.close()
    successor = stage.leader("successor")

    assert [pointer.number for pointer, _ in successor.checkpoints.recover().checkpoints] == [1, 2]
    assert (payloads(successor), pins(successor)) == ([1, 2], [1, 2])
    assert successor.coordinator.children(f"{job.paths.base}/leases") == []


@flink("ZooKeeperCompletedCheckpointStoreITCase#testShutdownDiscardsCheckpoints", entry=12, mutant="end-discards-never")
@flink(
    "DefaultCompletedCheckpointStoreTest#testShutdownShouldDiscardStateHandleWhenJobIsGloballyTerminalState",
    entry=78,
    mutant="end-discards-what-is-read",
)
def test_the_end_of_a_run_gives_up_what_was_not_to_be_retained(stage: Stage, job: Job) -> None:
    """The end of a run removes pointers and pins when they are not retained, but what is read stays with its state.

    Flink: ZooKeeperCompletedCheckpointStoreITCase#testShutdownDiscardsCheckpoints [12],
    DefaultCompletedCheckpointStoreTest#testShutdownShouldDiscardStateHandleWhenJobIsGloballyTerminalState [78].
    Differs: by default checkpoints outlive the run, and payloads go only when a newer checkpoint makes them needless.
    """
    for number in (1, 2, 3):
        job.add(number, number, number)
    with reading(job, stage.session("restore"), 2, clock=stage.wall):
        job.checkpoints.shutdown(job.leadership, terminal=True, retained=False)

        assert (pointers(job), pins(job), payloads(job)) == ([2], [2], [2, 3])
        assert job.coordinator.children(job.paths.cluster.to_delete) == []

    job.checkpoints.shutdown(job.leadership, terminal=True, retained=False)
    fresh = job_of(stage.config, stage.session("fresh"), job.leadership).checkpoints.recover()
    assert (fresh.checkpoints, fresh.unreadable, pins(job)) == ((), (), [])
