"""How checkpoints are recovered, subsumed, removed and given up at the end, in a real ZooKeeper.

The names in brackets are rules of Flink's completed-checkpoint store. Those about savepoints have no test here, because
our savepoints are the user's and are not among the checkpoints.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import CheckpointKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Op, SetData
from airflow_provider_ha.coordination.reader_leases import ReaderLease, hold
from airflow_provider_ha.coordination.znode_records import MAX_NUMBER
from airflow_provider_ha.errors import (
    CheckpointError,
    CoordinationError,
    JobStateError,
    LeadershipError,
    StorageUnavailableError,
)
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.clusters.coordination_helpers import lead
from tests.support.clusters.pointer_helpers import Failing
from tests.support.spark.recorded_job import copy_live


def numbers(job: Job) -> list[int]:
    return [pointer.number for pointer in job.checkpoints.list()]


def pins(job: Job, *which: int) -> list[bool]:
    return [job.pin_path(number).is_dir() for number in which]


def lease(job: Job, what: str) -> ReaderLease:
    return hold(job.coordinator, job.paths, what, holder="a restore", seconds=60, clock=SystemClock())


class Reader:
    """A leadership under which a reader comes just before a pointer is removed: after the look at the leases."""

    def __init__(self, job: Job, what: str) -> None:
        self._job = job
        self._what = what
        self.epoch = job.leadership.epoch
        self.lease: ReaderLease | None = None

    def commit(self, *ops: Op) -> list[int]:
        if self.lease is None and isinstance(ops[0], Delete):
            self.lease = lease(self._job, self._what)
        return self._job.leadership.commit(*ops)


def test_recovery_reads_everything_and_orders_it_by_number(job: Job) -> None:
    """[C4, FLINK-6284] 9, 10, 11: text order would call 9 the latest."""
    for number in (9, 10, 11):
        job.add(number, number)

    found = job.checkpoints.recover()

    assert [pointer.number for pointer, _ in found.checkpoints] == [9, 10, 11]
    assert [checkpoint.number for _, checkpoint in found.checkpoints] == [9, 10, 11]
    assert found.unreadable == ()


def test_an_unrecoverable_checkpoint_is_reported_and_not_skipped(job: Job) -> None:
    """[C4, FLINK-22502] Neither a pointer nor a payload that is bad falls under the table."""
    for number in (1, 2, 3, 4):
        job.add(number, number)
    job.coordinator.commit(SetData(job.paths.checkpoint(2), b"garbage"))
    job.objects.write(job.checkpoints.pointer(3).payload, b"other bytes")
    job.objects.delete(job.checkpoints.pointer(4).payload)

    found = job.checkpoints.recover()

    assert [pointer.number for pointer, _ in found.checkpoints] == [1]
    assert [int(item.name) for item in found.unreadable] == [2, 3, 4]


@pytest.mark.flink(
    "ZooKeeperCompletedCheckpointStoreTest#testRecoverFailsIfDownloadFails",
    entry=82,
    mutant="unknown-counts-as-bad",
)
def test_storage_that_does_not_answer_stops_the_recovery(job: Job) -> None:
    """Storage that does not answer stops the recovery.

    Flink: ZooKeeperCompletedCheckpointStoreTest#testRecoverFailsIfDownloadFails [82].
    [C4] Unknown is not known-bad: no older checkpoint is taken for the latest.
    """
    job.add(1, 1)
    away = CheckpointStore(
        job.coordinator, Failing(job.objects, "read"), job.paths, job.keys, LinkedWorkArea(job.config.work_path)
    )

    with pytest.raises(StorageUnavailableError):
        away.recover()


def test_recovery_trims_nothing_and_the_next_checkpoint_does(job: Job) -> None:
    """[C4] What is too much goes with the next one."""
    for number in (1, 2, 3):
        job.add(number, number)

    assert len(job.checkpoints.recover().checkpoints) == 3
    job.add(4, 4)
    assert job.checkpoints.retain(job.leadership, 3) == (1,)
    assert numbers(job) == [4, 3, 2]


def test_an_add_that_fails_leaves_the_old_ones_alone(job: Job) -> None:
    """[C1] The new pointer is durable before an old one is touched."""
    job.add(1, 1)
    job.coordinator.commit(SetData(job.paths.epoch, b"another leader"))

    with pytest.raises(LeadershipError):
        job.add(2, 2)

    assert (numbers(job), pins(job, 1)) == ([1], [True])


@pytest.mark.flink(
    "DefaultCompletedCheckpointStoreTest#testAtLeastOneCheckpointRetained",
    entry=74,
    mutant="retain-none",
)
@pytest.mark.parametrize("keep", [1, 0, -5])
def test_at_least_one_is_retained(job: Job, keep: int) -> None:
    """At least one checkpoint is retained, at any request.

    Flink: DefaultCompletedCheckpointStoreTest#testAtLeastOneCheckpointRetained [74]. Rule C2.
    """
    for number in (1, 2, 3):
        job.add(number, number)

    job.checkpoints.retain(job.leadership, keep)

    assert numbers(job) == [3]


def test_a_stop_checkpoint_is_subsumed_like_any_other(job: Job) -> None:
    """[C2] It is sharp, but its successors begin from it."""
    stop = job.checkpoint(1, 1).model_copy(update={"reason": CheckpointKind.STOP})
    job.checkpoints.add(job.leadership, stop)
    job.add(2, 2)

    assert job.checkpoints.retain(job.leadership, 1) == (1,)


@pytest.mark.flink("CheckpointsCleanerTest#testNotCleanCheckpointInUse", entry=85, mutant="collector-ignores-the-list")
def test_what_a_reader_takes_at_the_last_moment_is_kept_although_its_pointer_goes(job: Job) -> None:
    """What a reader takes at the last moment keeps its files, although its pointer goes.

    Flink: CheckpointsCleanerTest#testNotCleanCheckpointInUse [85].
    [C6] The lease came after the look at the leases. Fails without the second look, after the pointer is gone.
    """
    for number in (1, 2, 3):
        job.add(number, number, number)
    reader = Reader(job, "checkpoint-1")

    assert job.checkpoints.retain(reader, 2) == (1,)  # type: ignore[arg-type]  # what is used of a leadership

    assert (numbers(job), pins(job, 1), job.checkpoints.waiting()) == ([3, 2], [True], 1)
    # Neither the pin nor the payload is taken for something that no record names.
    job.checkpoints.retain(job.leadership, 2)
    assert (pins(job, 1), payloads(job)) == ([True], [1, 2, 3])
    assert reader.lease is not None
    reader.lease.release()
    job.checkpoints.retain(job.leadership, 2)
    assert (pins(job, 1), payloads(job), job.checkpoints.waiting()) == ([False], [2, 3], 0)


def payloads(job: Job) -> list[int]:
    return [payload.number for payload in job.checkpoints.payloads()]


def test_a_removal_that_fails_is_done_by_the_next_leader(config: HaConfig, coordinator: Coordinator) -> None:
    """[C3, FLIP-270] The first leader dies with the files still there; the list outlives it."""
    with led_job(config, coordinator) as job:
        job.add(1, 1)
        job.add(2, 2)
        job.checkpoints.subsume(job.leadership, 1)
        assert (pins(job, 1, 2), job.checkpoints.waiting()) == ([True, True], 1)

    with lead(config, coordinator) as successor:
        job.checkpoints.clean_up(successor)

    assert (pins(job, 1, 2), job.checkpoints.waiting()) == ([False, True], 0)


@pytest.mark.flink(
    "ZooKeeperCompletedCheckpointStoreTest#testAddCheckpointWithFailedRemove",
    entry=81,
    mutant="removal-error-is-raised",
)
def test_a_file_that_cannot_be_removed_disturbs_nobody(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old checkpoint that cannot be removed fails nothing; it waits on the list.

    Flink: ZooKeeperCompletedCheckpointStoreTest#testAddCheckpointWithFailedRemove [81]. Rule C3.
    """

    def refuse(path: Path) -> None:
        raise PermissionError(13, "no", str(path))

    job.add(1, 1)
    job.add(2, 2)
    with monkeypatch.context() as patch:
        patch.setattr("airflow_provider_ha.checkpoints.areas.linked_work_area.remove_tree", refuse)
        assert job.checkpoints.retain(job.leadership, 1) == (1,)
    assert (numbers(job), job.checkpoints.waiting()) == ([2], 1)

    job.checkpoints.clean_up(job.leadership)

    assert (pins(job, 1), job.checkpoints.waiting()) == ([False], 0)


@pytest.mark.parametrize(
    ("terminal", "retained", "left"), [(True, True, [2, 1]), (True, False, []), (False, False, [2, 1])]
)
def test_only_the_end_of_a_run_gives_checkpoints_up_and_only_if_asked(
    job: Job, terminal: bool, retained: bool, left: list[int]
) -> None:
    """[C5, FLINK-4201] FINISHED, CANCELED and FAILED are ends; a lost or suspended job removes nothing."""
    for number in (1, 2):
        job.add(number, number)

    job.checkpoints.shutdown(job.leadership, terminal=terminal, retained=retained)

    assert numbers(job) == left
    assert pins(job, 1, 2) == [bool(left)] * 2


@pytest.mark.flink(
    "DefaultCompletedCheckpointStoreTest#testShutdownShouldNotDiscardStateHandleWhenJobIsNotGloballyTerminalState",
    entry=79,
    mutant="suspension-cleans-up",
)
def test_a_job_that_is_not_over_removes_nothing_not_even_what_was_marked(job: Job) -> None:
    """A job that is not over removes nothing, not even what was marked before.

    Flink: DefaultCompletedCheckpointStoreTest
    #testShutdownShouldNotDiscardStateHandleWhenJobIsNotGloballyTerminalState [79].
    [C5, contract 5] Only FINISHED, CANCELED and FAILED clean up.
    """
    job.add(1, 1)
    job.add(2, 2)
    job.checkpoints.subsume(job.leadership, 1)

    job.checkpoints.shutdown(job.leadership, terminal=False)

    assert (pins(job, 1), job.checkpoints.waiting()) == ([True], 1)


def test_the_end_of_a_run_removes_no_checkpoint_under_a_lease(job: Job) -> None:
    job.add(1, 1)
    held = lease(job, "checkpoint-1")

    job.checkpoints.shutdown(job.leadership, terminal=True, retained=False)

    assert (numbers(job), pins(job, 1)) == ([1], [True])
    held.release()


@pytest.mark.flink(
    "DefaultCompletedCheckpointStoreTest#testShutdownFailsAnyFutureCallsToAddCheckpoint",
    entry=80,
    mutant="store-stays-open",
)
def test_nothing_is_added_after_the_end(job: Job) -> None:
    """After the end of a run no checkpoint is added, and a late caller hears it.

    Flink: DefaultCompletedCheckpointStoreTest#testShutdownFailsAnyFutureCallsToAddCheckpoint [80]. Rule C5.
    """
    job.checkpoints.shutdown(job.leadership, terminal=True)

    with pytest.raises(CheckpointError, match="closed"):
        job.add(1, 1)


def test_a_counter_that_was_lost_does_not_give_numbers_out_again(job: Job) -> None:
    """[I1] The pointers know better."""
    job.add(4, 4)
    job.coordinator.commit(Delete(job.paths.checkpoint_id_counter))

    assert job.checkpoints.next_number() == 5


def test_a_counter_that_is_used_up_is_an_error_and_writes_nothing(job: Job) -> None:
    """[I4] 64 bits, and then no more."""
    job.coordinator.commit(Create(job.paths.checkpoint_id_counter, str(MAX_NUMBER).encode()))
    job.objects.check_writable()

    with pytest.raises(CoordinationError, match="ends at"):
        job.checkpoints.add(job.leadership, job.checkpoint(job.checkpoints.next_number(), 1))

    assert (numbers(job), payloads(job)) == ([], [])


def test_a_savepoint_that_is_read_at_the_last_moment_goes_later_and_blocks_its_name(job: Job, tmp_path: Path) -> None:
    """[H6] Its files have the place that a new one of that id would have. Fails without the look at the list."""
    live = copy_live(tmp_path / "live")
    job.savepoints.create(job.leadership.commit, job.request("s1", 9), LocalTree(live))
    reader = Reader(job, "savepoint-s1")

    job.savepoints.dispose(reader.commit, "s1")

    assert (len(job.savepoints.list()), job.savepoints.directory("s1").is_dir()) == (0, True)
    with pytest.raises(JobStateError, match="still being removed"):
        job.savepoints.create(job.leadership.commit, job.request("s1", 9), LocalTree(live))
    assert reader.lease is not None
    reader.lease.release()
    job.savepoints.create(job.leadership.commit, job.request("s1", 8), LocalTree(live))
    assert job.checkpoints.waiting() == 0
    assert job.savepoints.verify("s1") == []


def test_what_is_left_of_a_savepoint_is_removed_by_the_jobs_leader(job: Job, tmp_path: Path) -> None:
    job.savepoints.create(job.leadership.commit, job.request("s1", 9), LocalTree(copy_live(tmp_path / "live")))
    reader = Reader(job, "savepoint-s1")
    job.savepoints.dispose(reader.commit, "s1")
    assert reader.lease is not None
    reader.lease.release()

    job.checkpoints.clean_up(job.leadership)

    assert not job.savepoints.directory("s1").exists()
