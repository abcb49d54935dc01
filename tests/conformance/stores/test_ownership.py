"""Who owns what was restored from: what is claimed, and when it goes.

Ported from ``SharedStateRegistryTest``. Flink counts who uses a file; here a checkpoint has its files under its own
name, so what goes takes nothing from what is newer, and what was restored from goes by the rule of retention alone.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.model import Claim, SavepointPointer
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint, ClaimMode, Owner
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.store.retention_policy import SavepointRetention
from airflow_provider_ha.coordination.reader_leases import hold
from airflow_provider_ha.errors import LeadershipError
from tests.conformance.stores.stage import Stage, add_savepoint, flink, pins, pointers, savepoints
from tests.support.checkpoints.checkpoint_helpers import AT, Job, elsewhere
from tests.support.clusters.coordination_helpers import JOB


MINE = "mine"
META = "metadata"


def plan_from(source: str, source_id: str, mode: ClaimMode, **values: object) -> RestorePlan:
    """Return the plan of a restore; what it does to the queries does not matter here."""
    return RestorePlan.model_validate(
        {
            "job_id": JOB,
            "source_job": JOB,
            "source": source,
            "source_id": source_id,
            "directory": "",
            "verdict": Verdict.SAFE,
            "queries": {},
            "age_seconds": 0,
            "created_at": AT,
            "claim_mode": mode,
            "owner": Owner.JOB,
            **values,
        }
    )


def restore(job: Job, plan: RestorePlan, *, run: int = 1) -> None:
    """Claim as a driver does with its first checkpoint, without the checkpoint."""
    job.leadership.commit(*job.checkpoints.claims.ops(plan, run=run, epoch=job.leadership.epoch))


def claimed_by(job: Job, savepoint_id: str) -> int | None:
    node = job.coordinator.get(job.paths.savepoint(savepoint_id))
    return SavepointPointer.from_bytes(node.data, source=node.path).claimed_by


def share(source: Path, target: Path) -> Path:
    """Give a state file a second name, as a fork and a pin do."""
    target.parent.mkdir(parents=True, exist_ok=True)
    os.link(source, target)
    return target


@flink("SharedStateRegistryTest#testUnregisterUnusedSavepointState", entry=100, mutant="claimed-goes-too-early")
def test_a_claimed_savepoint_goes_when_the_retained_checkpoints_do_without_it(job: Job) -> None:
    """A claimed savepoint stays while it is among what is retained, and then goes without harm to what shares with it.

    Flink: SharedStateRegistryTest#testUnregisterUnusedSavepointState [100].
    """
    add_savepoint(job, MINE, 1)
    state = job.savepoints.directory(MINE) / "000012.sst"
    state.write_bytes(b"state")
    restore(job, plan_from("savepoint", MINE, ClaimMode.CLAIM))
    job.add(1, 2, 2)
    shared = share(state, job.pin_path(1) / "000012.sst")

    job.checkpoints.retain(job.leadership, 2)
    assert savepoints(job) == [MINE]
    job.add(2, 3, 3)
    job.checkpoints.retain(job.leadership, 2)

    assert (savepoints(job), job.savepoints.directory(MINE).exists()) == ([], False)
    assert (pointers(job), shared.read_bytes()) == ([1, 2], b"state")
    assert job.coordinator.children(job.paths.cluster.to_delete) == []


@flink("SharedStateRegistryTest#testUnregisterInitialCheckpoint", entry=101, mutant="restored-checkpoints-stay")
def test_a_checkpoint_that_was_restored_from_is_subsumed_as_any_other(job: Job) -> None:
    """A checkpoint that a run was restored from is the job's before and after: its successor's files do not hold it.

    Flink: SharedStateRegistryTest#testUnregisterInitialCheckpoint [101].
    """
    job.add(1, 1, 1)
    (job.pin_path(1) / "000012.sst").write_bytes(b"state")
    restored = plan_from("checkpoint", "1", ClaimMode.CLAIM)
    assert job.checkpoints.claims.ops(restored, run=2, epoch=job.leadership.epoch) == []
    shared = share(job.pin_path(1) / "000012.sst", job.pin_path(2) / "000012.sst")
    job.checkpoints.add(job.leadership, job.checkpoint(2, 2, 2).model_copy(update={"run": 2}))

    assert job.checkpoints.retain(job.leadership, 1) == (1,)

    assert (pointers(job), pins(job), shared.read_bytes()) == ([2], [2], b"state")


@flink("SharedStateRegistryTest#testUnregisterNonInitialCheckpoint", entry=102, mutant="shared-files-hold-checkpoints")
def test_a_checkpoint_is_subsumed_although_the_next_one_shares_its_files(job: Job) -> None:
    """The first of two checkpoints with the same state file goes; the second one has the file under its own name.

    Flink: SharedStateRegistryTest#testUnregisterNonInitialCheckpoint [102].
    """
    job.add(1, 1, 1)
    (job.pin_path(1) / "000012.sst").write_bytes(b"state")
    shared = share(job.pin_path(1) / "000012.sst", job.pin_path(2) / "000012.sst")
    job.checkpoints.add(job.leadership, job.checkpoint(2, 2, 2))

    assert job.checkpoints.retain(job.leadership, 1) == (1,)

    assert (pins(job), shared.read_bytes()) == ([2], b"state")


def test_what_is_not_claimed_stays_the_users(job: Job) -> None:
    add_savepoint(job, MINE, 1)
    restore(job, plan_from("savepoint", MINE, ClaimMode.NO_CLAIM, owner=Owner.USER))
    for number in (1, 2, 3):
        job.add(number, number, number)
        job.checkpoints.retain(job.leadership, 1)

    assert (savepoints(job), claimed_by(job, MINE)) == ([MINE], None)


def test_a_savepoint_is_claimed_once(job: Job) -> None:
    add_savepoint(job, MINE, 1)
    restore(job, plan_from("savepoint", MINE, ClaimMode.CLAIM), run=1)

    restore(job, plan_from("savepoint", MINE, ClaimMode.CLAIM), run=2)

    assert claimed_by(job, MINE) == 1


def test_a_deposed_leader_claims_nothing(stage: Stage, job: Job) -> None:
    add_savepoint(job, MINE, 1)
    claim_savepoint = job.checkpoints.claims.ops(plan_from("savepoint", MINE, ClaimMode.CLAIM), run=1, epoch=1)
    stage.depose(job)

    with pytest.raises(LeadershipError):
        job.leadership.commit(*claim_savepoint)

    assert claimed_by(job, MINE) is None


def test_ownership_passes_with_the_first_checkpoint_or_not_at_all(stage: Stage, job: Job) -> None:
    """A driver that loses its job before its first checkpoint is known leaves the savepoint to its user."""
    add_savepoint(job, MINE, 1)
    plan = plan_from("savepoint", MINE, ClaimMode.CLAIM)
    claim = job.checkpoints.claims.ops(plan, run=1, epoch=job.leadership.epoch)
    stage.depose(job)
    with pytest.raises(LeadershipError):
        job.checkpoints.add(job.leadership, job.checkpoint(1, 2, 2), *claim)
    assert (claimed_by(job, MINE), pointers(job)) == (None, [])

    successor = stage.leader("successor")
    again = successor.checkpoints.claims.ops(plan, run=1, epoch=successor.leadership.epoch)
    successor.checkpoints.add(successor.leadership, successor.checkpoint(1, 2, 2), *again)

    assert (claimed_by(job, MINE), pointers(job)) == (1, [1])


def test_checkpoints_of_earlier_runs_outlive_no_claim(job: Job) -> None:
    job.add(1, 1, 1)
    job.add(2, 2, 2)
    add_savepoint(job, MINE, 2)
    restore(job, plan_from("savepoint", MINE, ClaimMode.CLAIM), run=2)

    job.checkpoints.retain(job.leadership, 1)

    assert savepoints(job) == [MINE]


def test_what_was_claimed_waits_for_a_checkpoint_that_has_its_own_files(job: Job) -> None:
    add_savepoint(job, MINE, 1)
    restore(job, plan_from("savepoint", MINE, ClaimMode.CLAIM))
    job.checkpoints.add(job.leadership, job.checkpoint(1, 2, 2, pin=False))

    job.checkpoints.retain(job.leadership, 1)
    assert savepoints(job) == [MINE]
    job.add(2, 3, 3)
    job.checkpoints.retain(job.leadership, 1)

    assert savepoints(job) == []


def test_who_reads_what_was_claimed_keeps_it(stage: Stage, job: Job) -> None:
    add_savepoint(job, MINE, 1)
    restore(job, plan_from("savepoint", MINE, ClaimMode.CLAIM))
    reader = stage.session("reader")
    lease = hold(reader, job.paths, f"savepoint-{MINE}", holder="a copy", seconds=60, clock=stage.wall)
    job.add(1, 2, 2)

    job.checkpoints.retain(job.leadership, 1)
    assert savepoints(job) == [MINE]
    lease.release()
    job.checkpoints.retain(job.leadership, 1)

    assert savepoints(job) == []


def test_a_claim_is_seen_through_by_the_next_leader(stage: Stage, job: Job) -> None:
    add_savepoint(job, MINE, 1)
    restore(job, plan_from("savepoint", MINE, ClaimMode.CLAIM))
    job.add(1, 2, 2)
    job.checkpoints.subsume(job.leadership, 1)  # marked; then this leader dies
    assert savepoints(job) == []
    assert job.savepoints.directory(MINE).exists()
    stage.depose(job)

    successor = stage.leader("successor")
    successor.checkpoints.clean_up(successor.leadership)

    assert not job.savepoints.directory(MINE).exists()


def test_a_schedule_leaves_alone_what_the_job_has_claimed(job: Job) -> None:
    for number, savepoint_id in enumerate(("oldest", "older", "newest")):
        add_savepoint(job, savepoint_id, number, schedule="nightly")
    restore(job, plan_from("savepoint", "oldest", ClaimMode.CLAIM))

    assert job.savepoints.retain(job.leadership.commit, SavepointRetention("nightly", 2)) == ()

    assert sorted(savepoints(job)) == ["newest", "older", "oldest"]


def claim_directory(job: Job, adopted: AdoptedCheckpoint) -> None:
    job.coordinator.ensure(job.paths.run(1))
    restore(job, plan_from("path", adopted.path, ClaimMode.CLAIM, adopted={"q": adopted}))


def test_a_claimed_directory_from_elsewhere_goes_as_a_savepoint_does(job: Job, tmp_path: Path) -> None:
    adopted = elsewhere(tmp_path)
    claim_directory(job, adopted)

    job.checkpoints.retain(job.leadership, 1)
    assert Path(adopted.path).exists()
    job.add(1, 2, 2)
    job.checkpoints.retain(job.leadership, 1)

    assert not Path(adopted.path).exists()
    claim = job.coordinator.get(job.paths.run_claim(1))
    assert Claim.from_bytes(claim.data, source=claim.path).given_up
    assert job.coordinator.children(job.paths.cluster.to_delete) == []


def test_a_directory_is_claimed_once_by_a_run(job: Job, tmp_path: Path) -> None:
    adopted = elsewhere(tmp_path)
    claim_directory(job, adopted)

    again = plan_from("path", adopted.path, ClaimMode.CLAIM, adopted={"q": adopted})

    assert job.checkpoints.claims.ops(again, run=1, epoch=job.leadership.epoch) == []


def test_what_is_not_sparks_is_never_removed_with_a_claimed_directory(job: Job, tmp_path: Path) -> None:
    adopted = elsewhere(tmp_path)
    notes = Path(adopted.path) / "notes.txt"
    notes.write_text("of the user")
    claim_directory(job, adopted)
    job.add(1, 2, 2)

    job.checkpoints.retain(job.leadership, 1)

    assert [path.name for path in Path(adopted.path).iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    "gone", [("state",), ("state", "commits", "offsets"), ("state", "commits", "offsets", "metadata")]
)
def test_a_removal_that_died_is_taken_up_again(job: Job, tmp_path: Path, gone: tuple[str, ...]) -> None:
    adopted = elsewhere(tmp_path)
    claim_directory(job, adopted)
    job.add(1, 2, 2)
    job.checkpoints.subsume(job.leadership, 1)
    for name in gone:
        path = Path(adopted.path) / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    job.checkpoints.clean_up(job.leadership)

    assert not Path(adopted.path).exists()
    assert job.coordinator.children(job.paths.cluster.to_delete) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [("metadata", '{"id":"7d1f0c52-3a8e-4b6d-9c1f-2e4a6b8c0d1e"}'), ("metadata", "no id"), ("offsets/3", "v1\n{}")],
    ids=["another query", "no query", "a query that went on"],
)
def test_a_directory_that_is_not_what_was_claimed_any_more_stays(
    job: Job, tmp_path: Path, file: str, text: str
) -> None:
    adopted = elsewhere(tmp_path)
    claim_directory(job, adopted)
    (Path(adopted.path) / file).write_text(text)
    job.add(1, 2, 2)

    job.checkpoints.retain(job.leadership, 1)

    assert (Path(adopted.path) / "state" / "0" / "0" / "1.delta").read_bytes() == b"state"
    assert job.coordinator.children(job.paths.cluster.to_delete) == []


def test_a_directory_of_the_cluster_is_never_removed_as_one_from_elsewhere(job: Job) -> None:
    adopted = elsewhere(job.config.work_path)
    claim_directory(job, adopted)
    job.add(1, 2, 2)

    job.checkpoints.retain(job.leadership, 1)

    assert Path(adopted.path, "metadata").exists()
    assert len(job.coordinator.children(job.paths.cluster.to_delete)) == 1
