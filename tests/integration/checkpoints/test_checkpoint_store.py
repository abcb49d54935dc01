"""The checkpoints of a job in a real ZooKeeper: what is added, what stays, what a deposed leader cannot do."""

from __future__ import annotations

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import Delete, SetData
from airflow_provider_ha.coordination.reader_leases import hold
from airflow_provider_ha.errors import (
    CheckpointError,
    CheckpointMissingError,
    LeadershipError,
    OutcomeUnknownError,
    RecordCorruptError,
)
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.spark.recorded_job import QUERY


def numbers(job: Job) -> list[int]:
    return [pointer.number for pointer in job.checkpoints.list()]


def payload_numbers(job: Job) -> list[int]:
    return [payload.number for payload in job.checkpoints.payloads()]


def test_a_checkpoint_is_found_again_by_its_pointer(job: Job) -> None:
    made = job.checkpoint(1, 7, 6, 7)

    pointer = job.checkpoints.add(job.leadership, made)

    assert job.checkpoints.list().pointers == (pointer,)
    assert job.checkpoints.load(pointer) == made
    assert (pointer.cut, job.checkpoints.latest_number(), job.checkpoints.next_number()) == ({QUERY: 7}, 1, 2)


def test_adding_again_after_a_lost_answer_changes_nothing(job: Job) -> None:
    made = job.checkpoint(1, 7)
    pointer = job.checkpoints.add(job.leadership, made)

    class Unanswered:
        epoch = job.leadership.epoch

        def commit(self, *ops: object) -> list[int]:
            raise OutcomeUnknownError("no answer came")

    # The counter stands at 1 already, so only the pointer can say that it was written.
    job.coordinator.commit(SetData(job.paths.checkpoint_id_counter, b"0"))
    assert job.checkpoints.add(Unanswered(), made) == pointer  # type: ignore[arg-type]  # what is used of one


def test_a_number_is_not_given_to_two_checkpoints(job: Job) -> None:
    job.checkpoints.add(job.leadership, job.checkpoint(1, 7))

    with pytest.raises(CheckpointError, match="number 1 was used before"):
        job.checkpoints.add(job.leadership, job.checkpoint(1, 8))

    assert [pointer.cut for pointer in job.checkpoints.list()] == [{QUERY: 7}]


def test_a_number_never_comes_again_after_all_pointers_are_gone(job: Job) -> None:
    job.add(1, 7)
    job.coordinator.commit(Delete(job.paths.checkpoint(1)))

    assert (job.checkpoints.latest_number(), job.checkpoints.next_number()) == (None, 2)


def test_a_deposed_leader_adds_and_removes_nothing(job: Job) -> None:
    job.add(1, 7)
    job.add(2, 8)
    epoch = job.coordinator.get(job.paths.epoch)
    job.coordinator.commit(SetData(job.paths.epoch, epoch.data, epoch.version))

    with pytest.raises(LeadershipError):
        job.checkpoints.add(job.leadership, job.checkpoint(3, 9))
    with pytest.raises(LeadershipError):
        job.checkpoints.retain(job.leadership, 1)

    assert numbers(job) == [2, 1]
    assert job.pin_path(1).is_dir()


def test_a_payload_with_another_digest_is_not_taken_for_the_checkpoint(job: Job) -> None:
    pointer = job.checkpoints.add(job.leadership, job.checkpoint(1, 7))
    job.objects.write(pointer.payload, job.checkpoint(1, 6).to_bytes())

    with pytest.raises(RecordCorruptError, match="has another digest than its pointer"):
        job.checkpoints.load(pointer)


def test_a_pointer_that_cannot_be_read_is_reported_and_keeps_the_payloads(job: Job) -> None:
    for number in (1, 2, 3):
        job.add(number, number, number)
    job.coordinator.commit(SetData(job.paths.checkpoint(2), b"garbage"))

    job.checkpoints.retain(job.leadership, 1)

    listing = job.checkpoints.list()
    assert [pointer.number for pointer in listing.pointers] == [3]
    assert [int(item.name) for item in listing.unreadable] == [2]
    assert payload_numbers(job) == [1, 2, 3]
    assert job.pin_path(2).is_dir()


def test_the_oldest_go_with_pin_and_payload(job: Job) -> None:
    for number in (1, 2, 3, 4):
        job.add(number, number, number)

    assert job.checkpoints.retain(job.leadership, 2) == (1, 2)

    assert numbers(job) == [4, 3]
    assert payload_numbers(job) == [3, 4]
    assert [job.pin_path(number).exists() for number in (1, 2, 3, 4)] == [False, False, True, True]


def test_a_checkpoint_under_a_lease_stays(job: Job) -> None:
    for number in (1, 2, 3):
        job.add(number, number, number)
    lease = hold(job.coordinator, job.paths, "checkpoint-1", holder="test", seconds=60, clock=SystemClock())

    assert job.checkpoints.retain(job.leadership, 1) == (2,)
    assert job.pin_path(1).is_dir()
    lease.release()
    assert job.checkpoints.retain(job.leadership, 1) == (1,)


def test_payloads_stay_while_an_older_checkpoint_would_replay_them(job: Job) -> None:
    for number in (1, 2, 3):
        job.add(number, number, number)
    lease = hold(job.coordinator, job.paths, "checkpoint-1", holder="test", seconds=60, clock=SystemClock())
    job.checkpoints.retain(job.leadership, 1)

    assert payload_numbers(job) == [1, 2, 3]

    lease.release()
    job.checkpoints.retain(job.leadership, 1)
    assert payload_numbers(job) == [3]


def test_unreferenced_pins_are_removed_except_an_unfinished_pin(job: Job) -> None:
    job.add(1, 1)
    orphan, hidden, coming = (
        job.pin_path(1).with_name(name) for name in (f"{1:019d}-e0", f".{0:019d}-e0.abc.tmp", f"{2:019d}-e1")
    )
    stale = job.pin_path(1).with_name(f"{0:019d}-e0")
    for path in (orphan, hidden, coming, stale):
        path.mkdir()

    job.checkpoints.retain(job.leadership, 1)

    # Of number 1 only the epoch differs: it is not known to be needless.
    assert [path.exists() for path in (orphan, hidden, coming, stale)] == [True, False, True, False]


def test_a_checkpoint_that_is_not_there_names_the_job(job: Job) -> None:
    with pytest.raises(CheckpointMissingError, match="job 'flights' has no checkpoint 9"):
        job.checkpoints.pointer(9)
