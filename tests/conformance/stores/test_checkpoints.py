"""The completed-checkpoint store: what an add that fails leaves behind, and what recovery shows.

Ported from ``DefaultCompletedCheckpointStoreTest``, ``ZooKeeperCompletedCheckpointStoreITCase`` and
``CheckpointCoordinatorFailureTest``. Each case looks at nodes, payloads and pins, never at what an object remembers.
"""

from __future__ import annotations

import pytest

from airflow_provider_ha.coordination.coordinator import Coordinator, Create, SetData
from airflow_provider_ha.coordination.znode_records import MAX_NUMBER
from airflow_provider_ha.errors import CheckpointError, FencedError, LeadershipError, OutcomeUnknownError
from tests.conformance.stores.stage import (
    Stage,
    flink,
    job_of,
    payloads,
    pins,
    pointers,
)
from tests.support.checkpoints.checkpoint_helpers import Job


@flink(
    "CheckpointCoordinatorFailureTest#testCleanupOmissionForPossibleInconsistentStateException",
    entry=7,
    mutant="unknown-counts-as-rejected",
)
def test_a_checkpoint_without_an_answer_keeps_all_that_it_has(stage: Stage, job: Job) -> None:
    """A checkpoint whose add was not answered keeps payload and pin, and is finished by the same add.

    Flink: CheckpointCoordinatorFailureTest#testCleanupOmissionForPossibleInconsistentStateException [7].
    """
    stage.ensemble.drop_request(containing="/checkpoints/")

    with pytest.raises(OutcomeUnknownError):
        job.add(1, 1)
    job.checkpoints.clean_up(job.leadership)
    kept = pointers(job), payloads(job), pins(job)
    job.checkpoints.add(job.leadership, job.checkpoint(1, 1))

    assert kept == ([], [1], [1])
    assert [pointer.number for pointer, _ in job.checkpoints.recover().checkpoints] == [1]


@flink("CheckpointCoordinatorFailureTest#testCleanupForGenericFailure", entry=8, mutant="rejected-payload-stays")
def test_a_checkpoint_that_was_rejected_leaves_no_payload_and_later_no_pin(stage: Stage, job: Job) -> None:
    """A checkpoint that was certainly rejected loses its payload at once, and its pin to the next leader's clean-up.

    Flink: CheckpointCoordinatorFailureTest#testCleanupForGenericFailure [8].
    Differs: the pin may be what the next leader makes under the same number, so it stays until that number is over.
    """
    job.add(1, 1, 1)
    stage.depose(job)
    successor = stage.leader("successor")

    with pytest.raises(LeadershipError):
        job.add(2, 2, 2)
    left = pointers(job), payloads(job), pins(job)
    for number in (2, 3):
        successor.add(number, number, number)
    successor.checkpoints.retain(successor.leadership, 1)

    assert left == ([1], [1], [1, 2])
    assert (pointers(successor), payloads(successor), pins(successor)) == ([3], [3], [3])


@flink(
    "CheckpointCoordinatorFailureTest#testFailingCompletedCheckpointStoreAdd",
    entry=9,
    mutant="rejected-payload-stays",
)
def test_a_checkpoint_that_cannot_be_added_leaves_nothing_behind(job: Job) -> None:
    """A checkpoint whose pointer cannot be written leaves no payload, touches no other one, and does not stop the next.

    Flink: CheckpointCoordinatorFailureTest#testFailingCompletedCheckpointStoreAdd [9].
    """
    job.add(1, 1, 1)
    job.coordinator.commit(Create(job.paths.checkpoint(2), b"of another process"))

    with pytest.raises(CheckpointError, match="another checkpoint has number 2"):
        job.add(2, 2, 2)

    assert (pointers(job), payloads(job)) == ([1, 2], [1])
    assert job.coordinator.get(job.paths.checkpoint(2)).data == b"of another process"
    assert job.checkpoints.next_number() == 3
    job.add(3, 3, 3)
    assert [pointer.number for pointer, _ in job.checkpoints.recover().checkpoints] == [1, 3]


@flink(
    "DefaultCompletedCheckpointStoreTest#testCorruptDataInStateHandleStoreShouldNotBeSkipped",
    entry=6,
    mutant="recovery-skips-bad-payloads",
)
def test_a_payload_that_cannot_be_read_is_part_of_the_recovery(job: Job) -> None:
    """A payload that is damaged is told together with the older ones that are whole, and nothing of it is removed.

    Flink: DefaultCompletedCheckpointStoreTest#testCorruptDataInStateHandleStoreShouldNotBeSkipped [6].
    Differs: Flink fails. Here who restores is told, may choose an older one, and says so in the report (contract 6).
    """
    for number in (1, 2):
        job.add(number, number, number)
    job.objects.write(job.checkpoints.pointer(2).payload, b"garbage")

    found = job.checkpoints.recover()

    assert [pointer.number for pointer, _ in found.checkpoints] == [1]
    assert [int(item.name) for item in found.unreadable] == [2]
    assert (pointers(job), payloads(job), pins(job)) == ([1, 2], [1, 2], [1, 2])


@flink("ZooKeeperCompletedCheckpointStoreITCase#testRecover", entry=14, mutant="recovery-trims")
def test_recovery_shows_all_and_the_next_add_trims(real_job: Job) -> None:
    """Recovery shows everything that is there, also what is too much; the next checkpoint makes room.

    Flink: ZooKeeperCompletedCheckpointStoreITCase#testRecover [14].
    """
    for number in (1, 2, 3):
        real_job.add(number, number, number)

    found = job_of(real_job.config, real_job.coordinator, real_job.leadership).checkpoints.recover()
    real_job.add(4, 4, 4)
    real_job.checkpoints.retain(real_job.leadership, 3)

    assert [pointer.number for pointer, _ in found.checkpoints] == [1, 2, 3]
    assert (pointers(real_job), payloads(real_job), pins(real_job)) == ([2, 3, 4], [2, 3, 4], [2, 3, 4])


@flink("ZooKeeperCompletedCheckpointStoreITCase#testLatestCheckpointRecovery", entry=13, mutant="numbers-are-text")
@flink("ZooKeeperCompletedCheckpointStoreTest#testPathConversion", entry=83, mutant="names-are-not-padded")
@pytest.mark.parametrize("numbers", [(9, 10, 11), (1, 2**31, MAX_NUMBER)])
def test_numbers_are_names_and_their_order(job: Job, numbers: tuple[int, ...]) -> None:
    """A checkpoint's node is its number in 19 digits, so that the order of names is that of numbers; 11 follows 10.

    Flink: ZooKeeperCompletedCheckpointStoreITCase#testLatestCheckpointRecovery [13],
    ZooKeeperCompletedCheckpointStoreTest#testPathConversion [83].
    """
    for number in numbers:
        job.add(number, 1)

    assert job.coordinator.children(job.paths.checkpoints) == [f"{number:019d}" for number in numbers]
    assert [job.checkpoints.pointer(number).number for number in numbers] == list(numbers)
    assert [pointer.number for pointer, _ in job.checkpoints.recover().checkpoints] == list(numbers)
    assert job.checkpoints.latest_number() == numbers[-1]


@flink(
    "DefaultCompletedCheckpointStoreTest#testAddCheckpointFailedShouldNotRemoveOldOnes",
    entry=10,
    mutant="checkpoint-add-is-not-fenced",
)
def test_an_add_that_fails_is_the_only_thing_that_failed(real_job: Job, coordinator: Coordinator) -> None:
    """The new pointer is durable before an old one is touched, so an add that fails leaves the old one whole.

    Flink: DefaultCompletedCheckpointStoreTest#testAddCheckpointFailedShouldNotRemoveOldOnes [10].
    """
    real_job.add(1, 1, 1)
    epoch = coordinator.get(real_job.paths.epoch)
    coordinator.commit(SetData(real_job.paths.epoch, b"another leader", epoch.version))

    with pytest.raises(FencedError):
        real_job.add(2, 2, 2)

    assert (pointers(real_job), payloads(real_job)) == ([1], [1])
    assert [pointer.number for pointer, _ in real_job.checkpoints.recover().checkpoints] == [1]
