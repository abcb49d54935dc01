"""The counter of checkpoints, which is never lowered, and the pointers to job graphs, which nobody's session can hold.

Ported from ``CheckpointIDCounterTestBase``, ``ZooKeeperCheckpointIDCounterITCase``, ``DefaultExecutionPlanStoreTest``
and ``ZooKeeperExecutionPlansStoreITCase``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_ha.coordination.znode_records import counter_op, counter_value, read_counter
from airflow_provider_ha.errors import LeadershipError, NodeExistsError, NotConnectedError, VersionConflictError
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import Artifact, GraphPointer, JobGraph
from tests.conformance.stores.stage import Stage, flink, nodes, pointers
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.jobs_helpers import BLOB
from tests.support.fake import FakeCoordinator


def take(job: Job, count: int) -> list[int]:
    """Take numbers as a leader does: read, raise, and try again when another process was faster."""
    path = job.paths.checkpoint_id_counter
    taken: list[int] = []
    while len(taken) < count:
        node = job.coordinator.find(path)
        value = counter_value(node) + 1
        try:
            job.leadership.commit(counter_op(path, node, value))
        except (VersionConflictError, NodeExistsError):
            continue
        taken.append(value)
    return taken


@flink(
    "CheckpointIDCounterTestBase#testConcurrentGetAndIncrement", entry=87, mutant="counter-is-raised-unconditionally"
)
def test_numbers_are_given_out_once_to_many_threads(real_job: Job) -> None:
    """Numbers that several threads take at once are given out once each, and to each thread in rising order.

    Flink: CheckpointIDCounterTestBase#testConcurrentGetAndIncrement [87].
    """
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda _: take(real_job, 10), range(4)))

    assert sorted(number for numbers in taken for number in numbers) == list(range(1, 41))
    assert all(numbers == sorted(numbers) for numbers in taken)
    assert real_job.coordinator.get(real_job.paths.checkpoint_id_counter).data == b"40"


@flink("CheckpointIDCounterTestBase#testSetCount", entry=88, mutant="counter-can-be-lowered")
def test_a_counter_is_raised_over_a_gap_and_never_lowered(job: Job) -> None:
    """A counter can be raised to any number, the next one follows it, and it cannot be lowered.

    Flink: CheckpointIDCounterTestBase#testSetCount [88].
    """
    path = job.paths.checkpoint_id_counter
    job.leadership.commit(counter_op(path, None, 1337))

    assert job.checkpoints.next_number() == 1338
    for value in (1337, 1):
        with pytest.raises(ValueError, match="cannot be set"):
            counter_op(path, job.coordinator.find(path), value)
    assert job.coordinator.get(path).data == b"1337"


@flink("ZooKeeperCheckpointIDCounterITCase#testSuspendKeepsState", entry=89, mutant="end-removes-the-counter")
@flink("ZooKeeperCheckpointIDCounterITCase#testShutdownRemovesState", entry=90, mutant="end-removes-the-counter")
@pytest.mark.parametrize("terminal", [False, True])
def test_no_end_removes_the_counter(stage: Stage, job: Job, terminal: bool) -> None:
    """The counter outlives suspension and every end of a run, so the next leader goes on counting.

    Flink: ZooKeeperCheckpointIDCounterITCase#testSuspendKeepsState [89], #testShutdownRemovesState [90].
    Differs: Flink removes it at the end. Here the next run of the job continues in the same names.
    """
    for number in (1, 2):
        job.add(number, number)

    job.checkpoints.shutdown(job.leadership, terminal=terminal, retained=False)
    stage.depose(job)
    successor = stage.leader("successor")

    assert pointers(successor) == ([] if terminal else [1, 2])
    assert successor.coordinator.get(job.paths.checkpoint_id_counter).data == b"2"
    assert successor.checkpoints.next_number() == 3


@flink(
    "ZooKeeperCheckpointIDCounterITCase#testShutdownWithFailureDueToMissingConnection",
    entry=91,
    mutant="rejection-is-silent",
)
def test_an_end_without_zookeeper_is_an_error_and_can_be_repeated(stage: Stage, job: Job) -> None:
    """The end of a run fails loudly when ZooKeeper is away; nothing is lost by it, and the next leader repeats it.

    Flink: ZooKeeperCheckpointIDCounterITCase#testShutdownWithFailureDueToMissingConnection [91].
    """
    for number in (1, 2):
        job.add(number, number)

    class Away:
        """A leadership whose writes reach no server."""

        epoch = job.leadership.epoch

        def commit(self, *ops: object) -> list[int]:
            raise NotConnectedError("no server answered")

    with pytest.raises(NotConnectedError):
        job.checkpoints.shutdown(Away(), terminal=True, retained=False)  # type: ignore[arg-type]  # what is used of one
    assert isinstance(job.coordinator, FakeCoordinator)
    stage.ensemble.disconnect(job.coordinator, seconds=60)
    with pytest.raises((NotConnectedError, LeadershipError)):
        job.checkpoints.shutdown(job.leadership, terminal=True, retained=False)

    stage.ensemble.expire(job.coordinator)
    successor = stage.leader("successor")
    assert (pointers(successor), read_counter(successor.coordinator, job.paths.checkpoint_id_counter)) == ([1, 2], 2)
    successor.checkpoints.shutdown(successor.leadership, terminal=True, retained=False)
    assert pointers(successor) == []


def graphs_of(job: Job) -> JobGraphStore:
    return JobGraphStore(job.coordinator, job.objects, job.paths)


def persist(job: Job) -> GraphPointer:
    """Persist a graph as a submission does."""
    graph = JobGraph(job_id="flights", name="flights", application=Artifact(name="app.py", blob=BLOB))
    pointer = GraphPointer(graph=graphs_of(job).write_graph(graph), run=1)
    job.leadership.commit(graphs_of(job).pointer_op(pointer))
    return pointer


@flink(
    "ZooKeeperExecutionPlansStoreITCase#testExecutionPlanRemovalFailureAndLockRelease",
    entry=26,
    mutant="graph-reader-leaves-a-lock",
)
def test_a_deposed_leader_that_lives_blocks_no_removal(stage: Stage, job: Job) -> None:
    """A leader that was deposed and lives on, and has read the graph, cannot keep the next one from removing it.

    Flink: ZooKeeperExecutionPlansStoreITCase#testExecutionPlanRemovalFailureAndLockRelease [26].
    Differs: in Flink the removal fails until the other one lets go, which is how FLINK-10011 resurrected a job.
    """
    persist(job)
    assert graphs_of(job).recover() is not None
    stage.depose(job)
    successor = stage.leader("successor")
    assert graphs_of(job).recover() is not None, "it is connected, and reads"

    graphs_of(successor).remove(successor.leadership.commit, 1)

    assert successor.coordinator.find(job.paths.job_graph) is None
    with pytest.raises(LeadershipError):
        persist(job)
    assert graphs_of(job).recover() is None


@flink(
    "DefaultExecutionPlanStoreTest#testStoppingExecutionPlanStoreShouldReleaseAllHandles",
    entry=28,
    mutant="graph-reader-leaves-a-lock",
)
@flink(
    "DefaultExecutionPlanStoreTest#testLocalCleanupShouldReleaseHandle", entry=29, mutant="graph-reader-leaves-a-lock"
)
def test_who_reads_graphs_holds_nothing_that_had_to_be_released(stage: Stage, job: Job) -> None:
    """Who reads or recovers a graph leaves no trace in ZooKeeper, so neither its stop nor its clean-up has to undo any.

    Flink: DefaultExecutionPlanStoreTest#testStoppingExecutionPlanStoreShouldReleaseAllHandles [28],
    #testLocalCleanupShouldReleaseHandle [29].
    Differs: there is no lock to release.
    """
    pointer = persist(job)
    before = nodes(job.coordinator, job.paths.base)
    reader = JobGraphStore(stage.session("reader"), job.objects, job.paths)

    assert reader.pointer() == pointer
    assert reader.recover() is not None

    assert nodes(job.coordinator, job.paths.base) == before
