"""Pointers and their payloads: the same tests on the fake ensemble and on a real one, on a file system and on real S3.

The names in brackets are contracts of ``docs/explanation/design.md`` and rules of Flink's state handle store.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.store.pointer_scan import stable_children
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Op, SetData
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import (
    ConfigurationError,
    CoordinationError,
    LeadershipError,
    NodeExistsError,
    NodeMissingError,
    NotConnectedError,
    ObjectExistsError,
    OutcomeUnknownError,
    StorageUnavailableError,
    VersionConflictError,
)
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectStore
from tests.support.clusters.coordination_helpers import job_paths
from tests.support.clusters.pointer_helpers import Before, Failing, Pointers, Raising
from tests.support.s3.s3_server import s3_store


BACKENDS = ("fake", "zookeeper")


@pytest.fixture
def objects(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """S3 beside the fake ensemble, files beside the real one: each of the four is met by every test."""
    if backend == "fake":
        return s3_store(request.getfixturevalue("moto"))
    return LocalStore(tmp_path / "root" / "cluster")


@pytest.fixture
def job(
    config: HaConfig, coordinator: Coordinator, leadership: Leadership, objects: ObjectStore, tmp_path: Path
) -> Pointers:
    return Pointers(coordinator, leadership, objects, job_paths(config), tmp_path / "work")


# Adding


def test_a_pointer_is_found_with_its_payload(job: Pointers) -> None:
    note = job.add("1", b"state")

    found = job.found("1")

    assert (found.record, found.version) == (note, 0)
    assert job.store().payload(note) == b"state"


def test_the_payload_lies_there_before_the_pointer_is_written(job: Pointers) -> None:
    """[contract 2, H2] Fails when the pointer is written first."""
    seen: list[bytes] = []

    def commit(*ops: Op) -> list[int]:
        seen.append(job.objects.read(note.key))
        return job.leadership.commit(*ops)

    note = job.note(b"state")
    job.store().add(commit, "1", note, b"state")

    assert seen == [b"state"]


def test_a_payload_that_cannot_be_written_gets_no_pointer(job: Pointers) -> None:
    with pytest.raises(StorageUnavailableError):
        job.store(objects=Failing(job.objects, "create")).add(job.leadership.commit, "1", job.note(b"x"), b"x")

    assert job.names() == []


def test_a_deposed_leader_adds_nothing_and_leaves_no_payload(job: Pointers) -> None:
    """[contract 1, H7] Fails when a certain rejection does not discard the new payload."""
    job.depose()

    with pytest.raises(LeadershipError):
        job.store().add(job.leadership.commit, "1", job.note(b"state"), b"state")

    assert (job.names(), job.payloads()) == ([], [])


@pytest.mark.parametrize(
    "error", [NotConnectedError("away"), ConfigurationError("no access"), VersionConflictError("")]
)
def test_what_was_certainly_rejected_leaves_no_payload(job: Pointers, error: Exception) -> None:
    """[H7] Fails when one of them is not counted as certain."""
    with pytest.raises(type(error)):
        job.store().add(Raising(job.leadership.commit, error, applied=False), "1", job.note(b"state"), b"state")

    assert (job.names(), job.payloads()) == ([], [])


def test_a_rejected_write_of_the_transaction_leaves_neither_pointer_nor_payload(job: Pointers) -> None:
    counter = job.paths.checkpoint_id_counter
    job.coordinator.commit(Create(counter, b"5"))

    with pytest.raises(NodeExistsError):
        job.store().add(job.leadership.commit, "1", job.note(b"state"), b"state", Create(counter, b"6"))

    assert (job.names(), job.payloads()) == ([], [])


@pytest.mark.parametrize("error", [OutcomeUnknownError("no answer"), CoordinationError("an unforeseen error")])
def test_an_uncertain_outcome_keeps_the_payload_and_is_resolved_by_trying_again(
    job: Pointers, error: CoordinationError
) -> None:
    """[H7, FLINK-22494] Fails when anything but a certain rejection discards."""
    note = job.note(b"state")

    with pytest.raises(type(error)):
        job.store().add(Raising(job.leadership.commit, error, applied=False), "1", note, b"state")

    assert job.payloads() == ["a.json"]
    job.store().add(job.leadership.commit, "1", note, b"state")
    assert job.found("1").record == note


def test_a_write_whose_answer_was_lost_is_recognised_by_its_bytes(job: Pointers) -> None:
    """[H8, FLINK-24543] Fails without reading back."""
    lost = Raising(job.leadership.commit, OutcomeUnknownError("no answer"), applied=True)

    job.store().add(lost, "1", job.note(b"state"), b"state")

    assert (job.names(), job.payloads()) == (["1"], ["a.json"])


def test_exists_may_mean_our_own_write(job: Pointers) -> None:
    """[H8] The transaction was applied, and a repetition of it met itself. Fails when "exists" always means another."""
    note = job.note(b"state")
    error = NodeExistsError("exists")
    error.path = f"{job.paths.checkpoints}/1"

    job.store().add(Raising(job.leadership.commit, error, applied=True), "1", note, b"state")

    assert job.store().payload(job.found("1").record) == b"state"


@pytest.mark.flink("ZooKeeperStateHandleStoreTest#testAddAndLockExistingNode", entry=71, mutant="exists-is-success")
def test_another_pointer_of_the_name_wins_and_the_new_payload_goes(job: Pointers) -> None:
    """A name that is taken stays with its pointer, and the payload of the second is discarded.

    Flink: ZooKeeperStateHandleStoreTest#testAddAndLockExistingNode [71].
    Differs: Flink looks before it writes the payload; here the transaction decides, because a look proves nothing.
    [H6, H8] Fails when "exists" always means success: two writers would both believe that they won.
    """
    first = job.add("1", b"first")

    with pytest.raises(NodeExistsError):
        job.store().add(job.leadership.commit, "1", job.note(b"second", "b"), b"second")

    assert job.found("1").record == first
    assert job.payloads() == ["1.json"]


def test_a_payload_of_an_earlier_try_is_not_discarded_by_a_later_one(job: Pointers) -> None:
    """The earlier try may have been applied after all. Fails when a certain rejection always discards."""
    job.objects.create(job.note(b"state").key, b"state")

    with pytest.raises(NotConnectedError):
        job.store().add(
            Raising(job.leadership.commit, NotConnectedError("away"), applied=False), "1", job.note(b"state"), b"state"
        )

    assert job.payloads() == ["a.json"]


def test_a_payload_is_never_overwritten(job: Pointers) -> None:
    job.objects.create(job.note(b"").key, b"of another process")

    with pytest.raises(ObjectExistsError):
        job.store().add(job.leadership.commit, "1", job.note(b"state"), b"state")

    assert job.objects.read(job.note(b"").key) == b"of another process"
    assert job.names() == []


def test_an_outcome_that_cannot_be_read_back_stays_unknown(job: Pointers) -> None:
    """Fails when a read-back that fails is taken for "not there"."""
    error = NodeExistsError("exists")
    error.path = f"{job.paths.checkpoints}/1"

    def away() -> None:
        raise NotConnectedError("away")

    session = Before(job.coordinator, lambda: None, away, reading=job.paths.checkpoints)
    with pytest.raises(OutcomeUnknownError):
        job.store(session).add(Raising(job.leadership.commit, error, applied=False), "1", job.note(b"state"), b"state")

    assert job.payloads() == ["a.json"]


# Replacing


@pytest.mark.flink("ZooKeeperStateHandleStoreTest#testReplace", entry=72, mutant="replace-forgets-the-old-payload")
def test_a_replaced_pointer_gives_its_old_payload_up(job: Pointers) -> None:
    """A replacement refers to the new payload, and the old one is removed.

    Flink: ZooKeeperStateHandleStoreTest#testReplace [72].
    Differs: [H9] the list removes the old one, so that a death in between leaves a trace of it.
    """
    job.add("1", b"old")

    job.store().replace(job.leadership.commit, job.found("1"), job.note(b"new", "b"), b"new")
    done = job.remover().work_off(job.leadership.commit).done

    assert (job.found("1").version, len(done)) == (1, 1)
    assert job.store().payload(job.found("1").record) == b"new"
    assert (job.payloads(), job.entries()) == (["b.json"], [])


@pytest.mark.flink(
    "ZooKeeperStateHandleStoreTest#testReplaceDiscardStateHandleAfterFailure",
    entry=68,
    mutant="replace-is-not-versioned",
)
def test_a_pointer_that_changed_is_not_replaced_and_the_new_payload_goes(job: Pointers) -> None:
    """A replacement of what has changed since is rejected, and its payload is discarded.

    Flink: ZooKeeperStateHandleStoreTest#testReplaceDiscardStateHandleAfterFailure [68].
    [H9] Fails without the version, and when the rejection does not discard the new payload.
    """
    job.add("1", b"old")
    seen = job.found("1")
    job.store().replace(job.leadership.commit, seen, job.note(b"other", "b"), b"other")

    with pytest.raises(VersionConflictError):
        job.store().replace(job.leadership.commit, seen, job.note(b"new", "c"), b"new")

    assert job.store().payload(job.found("1").record) == b"other"
    assert job.payloads() == ["1.json", "b.json"]


def test_a_pointer_that_is_gone_is_not_replaced(job: Pointers) -> None:
    job.add("1", b"old")
    seen = job.found("1")
    job.coordinator.commit(Delete(f"{job.paths.checkpoints}/1"))

    with pytest.raises(NodeMissingError):
        job.store().replace(job.leadership.commit, seen, job.note(b"new", "b"), b"new")

    assert job.payloads() == ["1.json"]


def test_an_uncertain_replacement_discards_neither_payload(job: Pointers) -> None:
    """[H9] Fails when what is not known to be applied, or not to be, discards anything."""
    job.add("1", b"old")
    unsure = Raising(job.leadership.commit, OutcomeUnknownError("no answer"), applied=False)

    with pytest.raises(OutcomeUnknownError):
        job.store().replace(unsure, job.found("1"), job.note(b"new", "b"), b"new")

    assert (job.payloads(), job.entries()) == (["1.json", "b.json"], [])


def test_a_replacement_whose_answer_was_lost_is_recognised_at_the_next_try(job: Pointers) -> None:
    job.add("1", b"old")
    seen, new = job.found("1"), job.note(b"new", "b")
    lost = Raising(job.leadership.commit, OutcomeUnknownError("no answer"), applied=True)
    job.store().replace(lost, seen, new, b"new")

    job.store().replace(job.leadership.commit, seen, new, b"new")

    assert job.found("1").record == new
    assert len(job.entries()) == 1
    assert job.payloads() == ["1.json", "b.json"]


# Scanning


@pytest.mark.flink("ZooKeeperStateHandleStoreTest#testCorruptedData", entry=73, mutant="scan-skips-what-it-cannot-read")
def test_what_cannot_be_read_is_part_of_the_answer(job: Pointers) -> None:
    """A pointer or payload that cannot be read is part of the answer, and hides no other.

    Flink: ZooKeeperStateHandleStoreTest#testCorruptedData [73].
    Differs: Flink logs such a pointer and leaves it out.
    [H11, contract 6] Fails when an undecodable pointer or a bad payload is skipped.
    """
    for name in ("1", "2", "3", "4"):
        job.add(name)
    job.coordinator.commit(SetData(f"{job.paths.checkpoints}/2", b"garbage"))
    job.objects.write(job.found("3").record.key, b"other bytes")
    job.objects.delete(job.found("4").record.key)

    loaded = job.store().load()

    assert [(found.name, data) for found, data in loaded.found] == [("1", b"1")]
    assert [item.name for item in loaded.unreadable] == ["2", "3", "4"]
    assert all(item.reason for item in loaded.unreadable)
    assert [item.name for item in job.store().scan().unreadable] == ["2"]


def test_storage_that_does_not_answer_is_no_damage(job: Pointers) -> None:
    """[contract 6] Unknown is not known-bad."""
    job.add("1")

    with pytest.raises(StorageUnavailableError):
        job.store(objects=Failing(job.objects, "read")).load()


def test_a_scan_shows_the_pointers_of_one_moment(job: Pointers) -> None:
    """[H11] While 1 is read, 2 becomes the latest and 1 goes. Fails without the second look: it would see none."""
    job.add("1")

    def subsume() -> None:
        job.add("2")
        job.coordinator.commit(Delete(f"{job.paths.checkpoints}/1"))

    scan = job.store(Before(job.coordinator, subsume, reading="/checkpoints/1")).scan()

    assert [found.name for found in scan.found] == ["2"]


def test_pointers_that_never_hold_still_are_an_error_and_no_guess(job: Pointers) -> None:
    parent = job.paths.checkpoints
    job.coordinator.commit(Create(f"{parent}/0"))
    changes = [lambda number=number: job.coordinator.commit(Create(f"{parent}/x{number}")) for number in range(80)]

    with pytest.raises(CoordinationError, match="changed during each"):
        stable_children(Before(job.coordinator, *changes, reading=f"{parent}/0"), parent)


# Marking for deletion


def test_marking_removes_the_pointer_and_leaves_an_entry(job: Pointers) -> None:
    """[H3, H4] At every moment either the pointer or the entry names the payload."""
    job.add("1")
    job.pin()

    entry = job.mark("1")

    assert (job.names(), job.entries()) == ([], [entry])
    assert job.store().find("1") is None
    assert job.payloads() == ["1.json"]


def test_a_deposed_leader_marks_nothing(job: Pointers) -> None:
    """Fails when the mark is not one fenced transaction."""
    job.add("1")
    job.depose()

    with pytest.raises(LeadershipError):
        job.store().mark(job.leadership.commit, "1", "checkpoint-1")

    assert (job.names(), job.entries()) == (["1"], [])


def test_what_was_marked_before_is_not_marked_again(job: Pointers) -> None:
    job.add("1")
    job.pin()
    entry = job.mark("1")

    assert job.store().mark(job.leadership.commit, "1", "checkpoint-1") is None
    assert job.entries() == [entry]


def test_a_mark_whose_answer_was_lost_is_recognised(job: Pointers) -> None:
    job.add("1")
    lost = Raising(job.leadership.commit, OutcomeUnknownError("no answer"), applied=True)

    assert job.store().mark(lost, "1", "checkpoint-1") == job.entries()[0]


def test_a_mark_that_may_have_failed_is_raised(job: Pointers) -> None:
    job.add("1")
    unsure = Raising(job.leadership.commit, OutcomeUnknownError("no answer"), applied=False)

    with pytest.raises(OutcomeUnknownError):
        job.store().mark(unsure, "1", "checkpoint-1")

    assert job.names() == ["1"]


def test_a_name_can_be_used_again_while_the_old_one_waits_to_be_deleted(job: Pointers) -> None:
    """[H6] There is no half-deleted node in the way."""
    job.add("1", b"old")
    job.pin()
    job.mark("1")

    job.store().add(job.leadership.commit, "1", job.note(b"new", "b"), b"new")
    job.remover().work_off(job.leadership.commit)

    assert job.store().payload(job.found("1").record) == b"new"


def test_removal_of_a_pointer_alone_is_loud(job: Pointers) -> None:
    job.add("1")
    seen = job.found("1")

    with pytest.raises(OutcomeUnknownError):
        job.store().remove(Raising(job.leadership.commit, OutcomeUnknownError("?"), applied=False), seen)
    assert job.names() == ["1"]
    assert job.store().remove(Raising(job.leadership.commit, OutcomeUnknownError("?"), applied=True), seen)
    assert not job.store().remove(job.leadership.commit, seen)


def test_the_digest_of_a_payload_is_compared(job: Pointers) -> None:
    note = job.add("1", b"state")

    assert note.sha256 == hashlib.sha256(b"state").hexdigest()


def test_paths_of_a_job_lead_back_to_its_cluster(job: Pointers) -> None:
    assert job.paths.cluster.job(job.paths.job_id) == job.paths
    nested = JobPaths("/a/b/cluster/flights", "flights")
    assert nested.cluster.job("flights") == nested
