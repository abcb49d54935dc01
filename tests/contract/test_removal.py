"""What is marked for deletion goes, after a crash at any step, and never while a reader holds it.

On the fake ensemble and on a real one; the names in brackets are rules of Flink's state handle store.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.store.removal import DeletionEntry, DeletionList, RemovalResult, Remover, waiting
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Op, SetData
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.reader_leases import ReaderLease, active, hold
from airflow_provider_ha.errors import LeadershipError, OutcomeUnknownError, RecordCorruptError
from airflow_provider_ha.storage.local_store import LocalStore
from tests.support.clusters.coordination_helpers import job_paths
from tests.support.clusters.pointer_helpers import Failing, Pointers, Raising


BACKENDS = ("fake", "zookeeper")


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, leadership: Leadership, tmp_path: Path) -> Pointers:
    return Pointers(coordinator, leadership, LocalStore(tmp_path / "objects"), job_paths(config), tmp_path / "work")


@pytest.fixture
def pin(job: Pointers) -> Path:
    """A pin that goes with pointer 1, which is added here."""
    job.add("1")
    return job.pin()


def lease(job: Pointers, what: str = "checkpoint-1") -> ReaderLease:
    return hold(job.coordinator, job.paths, what, holder="a restore", seconds=60, clock=job.clock)


def work_off(job: Pointers, **options: object) -> RemovalResult:
    return job.remover(**options).work_off(job.leadership.commit)


def test_files_and_payload_go_and_then_the_entry(job: Pointers, pin: Path) -> None:
    """[H5] Fails when the entry goes first: at that moment the files must be gone."""
    entry = job.mark("1")
    seen: list[tuple[bool, list[str]]] = []

    def commit(*ops: Op) -> list[int]:
        seen.append((pin.exists(), job.payloads()))
        return job.leadership.commit(*ops)

    done = job.remover().work_off(commit)

    assert done == RemovalResult(done=(entry,))
    assert seen == [(False, [])]
    assert job.entries() == []


def test_what_a_reader_holds_stays_until_the_lease_ends(job: Pointers, pin: Path) -> None:
    """[FLINK-6612] Fails without the look at the leases."""
    held = lease(job)
    entry = job.mark("1")

    kept = work_off(job)

    assert [item.entry for item in kept.postponed] == [entry]
    assert "a restore" in kept.postponed[0].reason
    assert (pin.is_dir(), job.payloads()) == (True, ["1.json"])
    held.release()
    assert work_off(job).done == (entry,)
    assert not pin.exists()


def test_a_lease_that_has_run_out_protects_nothing_and_goes_too(job: Pointers, pin: Path) -> None:
    """Its reader may be dead: unlike a lock node, it blocks no process for longer than it said."""
    lease(job)
    job.mark("1")
    job.clock.pass_by(61)

    assert len(work_off(job).done) == 1
    assert not pin.exists()
    assert job.coordinator.find(job.paths.leases("checkpoint-1")) is None


def test_a_lease_that_cannot_be_read_may_protect_something(job: Pointers, pin: Path) -> None:
    held = lease(job)
    job.coordinator.commit(SetData(held.path, b"garbage"))
    job.mark("1")

    assert len(work_off(job).postponed) == 1
    assert pin.is_dir()


def test_a_reader_that_comes_at_the_last_moment_is_not_robbed_of_its_lease(job: Pointers, pin: Path) -> None:
    """The files are gone, and so was the pointer before. The entry waits, and the lease stays its reader's."""
    lease(job)
    job.mark("1")
    job.clock.pass_by(61)
    taken: list[ReaderLease] = []

    def commit(*ops: Op) -> list[int]:
        taken.append(lease(job))
        return job.leadership.commit(*ops)

    kept = job.remover().work_off(commit)

    assert len(kept.postponed) == 1
    assert [item.lease_id for item in active(job.coordinator, job.paths, "checkpoint-1", job.clock)] == [
        taken[0].record.lease_id
    ]


def test_a_lease_is_taken_although_the_node_of_the_leases_goes_at_that_moment(job: Pointers) -> None:
    """Fails when a reader does not make the parent again."""
    parent = job.paths.leases("checkpoint-1")

    class Interrupted:
        removed = False

        def ensure(self, *paths: str) -> None:
            job.coordinator.ensure(*paths)
            if not self.removed:
                self.removed = True
                job.coordinator.commit(Delete(parent))

        def __getattr__(self, name: str) -> Any:
            return getattr(job.coordinator, name)

    hold(Interrupted(), job.paths, "checkpoint-1", holder="a restore", seconds=60, clock=job.clock)

    assert len(active(job.coordinator, job.paths, "checkpoint-1", job.clock)) == 1


@pytest.mark.flink("ZooKeeperStateHandleStoreTest#testRepeatableCleanup", entry=55, mutant="entry-goes-first")
def test_a_removal_that_storage_refused_is_repeated(job: Pointers, pin: Path) -> None:
    """A removal that storage refused stays on the list and is finished by the next call.

    Flink: ZooKeeperStateHandleStoreTest#testRepeatableCleanup [55].
    [H5] The discard fails once; the entry stays, and the second call finishes.
    """
    entry = job.mark("1")

    kept = work_off(job, objects=Failing(job.objects, "delete"))

    assert [item.entry for item in kept.postponed] == [entry]
    assert job.payloads() == ["1.json"]
    assert work_off(job).done == (entry,)
    assert job.payloads() == []


def test_a_removal_that_died_before_the_entry_went_is_repeated(job: Pointers, pin: Path) -> None:
    """[H5] Files that are gone already are no error."""
    job.mark("1")
    unsure = Raising(job.leadership.commit, OutcomeUnknownError("no answer"), applied=False)
    assert len(job.remover().work_off(unsure).postponed) == 1
    assert not pin.exists()

    assert len(work_off(job).done) == 1


def test_a_removal_that_died_in_a_directory_is_finished(job: Pointers, pin: Path) -> None:
    """Fails when a directory that was renamed to be removed is forgotten under its hidden name."""
    job.mark("1")
    half_removed = pin.with_name(f".{pin.name}.1234.removed")
    pin.rename(half_removed)

    work_off(job)

    assert list(pin.parent.iterdir()) == []


def test_a_new_leader_finishes_what_a_deposed_one_has_begun(
    job: Pointers, pin: Path, coordinator: Coordinator, config: HaConfig
) -> None:
    """[case 22, FLINK-10011] The old leader's session lives on, and nothing of it is in the way."""
    entry = job.mark("1")
    job.depose()
    with pytest.raises(LeadershipError):
        work_off(job)
    assert job.entries() == [entry]

    assert job.remover().work_off(coordinator.commit).done == (entry,)
    assert not pin.exists()


def test_two_removers_at_once_do_no_harm(job: Pointers, pin: Path) -> None:
    entry = job.mark("1")

    def commit(*ops: Op) -> list[int]:
        assert work_off(job).done == (entry,)  # the other one is faster
        return job.leadership.commit(*ops)

    assert job.remover().work_off(commit).done == (entry,)


def test_a_missing_entry_of_the_list_of_deletions_is_done(job: Pointers, pin: Path) -> None:
    entry = job.mark("1")
    work_off(job)

    assert job.remover().work_off(job.leadership.commit, entries=[entry]).done == (entry,)


def test_only_the_entries_of_the_job_are_worked_off(job: Pointers, pin: Path) -> None:
    entry = job.mark("1")
    other = DeletionList(job.coordinator, job.paths.cluster.job("flights-2"), clock=job.clock)
    foreign = other.entry("checkpoint-1")
    job.coordinator.commit(foreign)

    done = job.remover().work_off(job.leadership.commit, job_id=job.paths.job_id).done

    assert done == (entry,)
    assert other.waiting() == job.entries()
    assert len(waiting(job.coordinator, job.paths.cluster)) == 1


@pytest.mark.parametrize(
    "key",
    [
        "jobs/flights/checkpoints/pins/../../../other",
        "jobs/other/checkpoints/pins/pin",
        "jobs/flights/checkpoints/pins",
        "jobs/flights/checkpoints/pins/",
        "jobs/flights/live/e1-a",
        "jobs/flights",
        "/etc",
        "blobs/sha256/ab",
        "",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused_and_nothing_is_removed(job: Pointers, pin: Path, key: str) -> None:
    """Fails without the check of what comes out of ZooKeeper."""
    for path in ("jobs/other/checkpoints/pins/pin", "jobs/flights/live/e1-a"):
        (job.work_path / path).mkdir(parents=True, exist_ok=True)
    before = sorted(job.work_path.rglob("*"))
    record = DeletionEntry(job_id="flights", what="checkpoint-1", directories=(key,), marked_at=job.clock.now())
    job.coordinator.ensure(job.paths.cluster.to_delete)
    job.coordinator.commit(Create(f"{job.paths.cluster.to_delete}/flights~checkpoint-1~x", record.to_bytes()))

    (kept,) = work_off(job).postponed

    assert "refused" in kept.reason
    assert sorted(job.work_path.rglob("*")) == before
    with pytest.raises(RecordCorruptError):
        job.to_delete.entry("checkpoint-1", directories=(key,))


@pytest.mark.parametrize("name", ["other~checkpoint-1~x", "flights~checkpoint-2~x"])
def test_an_entry_under_a_foreign_name_is_refused(job: Pointers, pin: Path, name: str) -> None:
    """A job's leader would otherwise be made to remove what another name protects."""
    entry = job.to_delete.entry("checkpoint-1", directories=(job.pin_key(),))
    job.coordinator.commit(Create(f"{job.paths.cluster.to_delete}/{name}", entry.data))

    assert len(work_off(job).postponed) == 1
    assert pin.is_dir()


def test_an_entry_that_cannot_be_read_is_reported_and_hides_no_other(job: Pointers, pin: Path) -> None:
    entry = job.mark("1")
    job.coordinator.commit(Create(f"{job.paths.cluster.to_delete}/flights~checkpoint-0~x", b"garbage"))

    came = work_off(job)

    assert came.done == (entry,)
    assert [item.entry for item in came.postponed] == ["flights~checkpoint-0~x"]


def test_an_entry_with_objects_waits_for_who_can_reach_storage(job: Pointers, pin: Path) -> None:
    job.mark("1")
    remover = Remover(job.coordinator, job.paths.cluster, LinkedWorkArea(job.work_path), objects=None, clock=job.clock)

    assert len(remover.work_off(job.leadership.commit).postponed) == 1
    assert job.payloads() == ["1.json"]
