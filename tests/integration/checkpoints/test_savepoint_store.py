"""Savepoints of a directory that Spark really made: copied, verified, made known, disposed of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.pins import sink_directory
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.file_sink_log import FileSinkLog
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store.retention_policy import SavepointRetention
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.coordination.reader_leases import hold
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    JobStateError,
    LeadershipError,
)
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.spark.recorded_job import QUERY, copy_output


pytestmark = pytest.mark.timeout(300)


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def ids(job: Job) -> list[str]:
    return sorted(pointer.savepoint_id for pointer in job.savepoints.list())


def test_a_savepoint_is_whole_by_itself(job: Job, live: Path, tmp_path: Path) -> None:
    out = copy_output(tmp_path / "out")
    sink = QuerySink(kind=SinkKind.FILE, format="json", path=str(out), max_batch=13)

    made = job.savepoints.create(
        job.leadership.commit, replace(job.request("s1", 9), sinks={QUERY: sink}), LocalTree(live)
    )

    directory = job.savepoints.directory("s1")
    on_disk = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    assert on_disk == {*made.files, "manifest.json"}
    assert FileSinkLog(sink_directory(directory, QUERY)).closure_names(9) == ["7.compact", "8", "9"]
    assert [entry.batch for entry in made.queries[QUERY].entries] == [9]
    assert job.savepoints.load("s1") == made
    assert job.savepoints.verify("s1") == []
    assert (directory / QUERY / "offsets" / "9").stat().st_nlink == 1


def test_asking_twice_with_one_id_makes_one_savepoint(job: Job, live: Path) -> None:
    first = job.savepoints.create(job.leadership.commit, job.request("s1", 8), LocalTree(live))

    assert job.savepoints.create(job.leadership.commit, job.request("s1", 9), LocalTree(live)) == first


def test_what_an_earlier_try_left_without_a_pointer_is_made_again(job: Job, live: Path) -> None:
    job.savepoints.copy(job.request("s1", 8), LocalTree(live))

    made = job.savepoints.create(job.leadership.commit, job.request("s1", 9), LocalTree(live))

    assert made.queries[QUERY].batch == 9
    assert job.savepoints.verify("s1") == []


@pytest.mark.parametrize("pattern", ["offsets/9", "state/0/0/10_*.zip", "metadata"])
def test_a_bit_that_flips_between_copy_and_verification_is_found(job: Job, live: Path, pattern: str) -> None:
    made = job.savepoints.copy(job.request("s1", 9), LocalTree(live))
    (bad,) = (job.savepoints.directory("s1") / QUERY).glob(pattern)
    flip_a_bit(bad)

    with pytest.raises(CheckpointCorruptError, match=f"{bad.name}.*digest"):
        job.savepoints.publish(job.leadership.commit, made)

    assert ids(job) == []


def test_later_damage_is_reported_with_its_file(job: Job, live: Path) -> None:
    job.savepoints.create(job.leadership.commit, job.request("s1", 9), LocalTree(live))
    directory = job.savepoints.directory("s1")
    flip_a_bit(directory / QUERY / "commits" / "9")
    (directory / QUERY / "offsets" / "8").unlink()

    problems = job.savepoints.verify("s1")

    assert problems == [
        f"{QUERY}/commits/9: its digest is not the one in the manifest",
        f"{QUERY}/offsets/8: it is in the manifest but missing",
    ]


def test_a_manifest_with_another_digest_than_its_pointer_is_refused(job: Job, live: Path) -> None:
    job.savepoints.create(job.leadership.commit, job.request("s1", 9), LocalTree(live))
    other = job.savepoints.copy(job.request("s2", 8), LocalTree(live))
    (job.savepoints.directory("s1") / "manifest.json").write_bytes(other.to_bytes())

    with pytest.raises(CheckpointCorruptError, match=r"manifest\.json"):
        job.savepoints.load("s1")


def test_a_purged_cut_leaves_nothing_behind(job: Job, live: Path) -> None:
    (live / QUERY / "offsets" / "8").unlink()

    with pytest.raises(CheckpointMissingError):
        job.savepoints.create(job.leadership.commit, job.request("s1", 9), LocalTree(live))

    assert not job.savepoints.directory("s1").exists()


def test_a_deposed_leader_makes_no_savepoint_known(job: Job, live: Path) -> None:
    epoch = job.coordinator.get(job.paths.epoch)
    job.coordinator.commit(SetData(job.paths.epoch, epoch.data, epoch.version))

    with pytest.raises(LeadershipError):
        job.savepoints.create(job.leadership.commit, job.request("s1", 9), LocalTree(live))

    assert ids(job) == []


def test_a_schedule_removes_its_own_oldest_and_never_its_last(job: Job, live: Path) -> None:
    commit = job.leadership.commit
    job.savepoints.create(commit, job.request("mine", 6), LocalTree(live))
    for number in (7, 8, 9):
        job.savepoints.create(commit, job.request(f"s{number}", number, schedule="nightly"), LocalTree(live))

    assert job.savepoints.retain(commit, SavepointRetention("nightly", 2)) == ("s7",)
    assert job.savepoints.retain(commit, SavepointRetention("nightly", 0)) == ("s8",)
    assert ids(job) == ["mine", "s9"]
    assert not job.savepoints.directory("s7").exists()


def test_a_savepoint_under_a_lease_is_not_disposed_of(job: Job, live: Path) -> None:
    job.savepoints.create(job.leadership.commit, job.request("s1", 9), LocalTree(live))
    lease = hold(job.coordinator, job.paths, "savepoint-s1", holder="test", seconds=60, clock=SystemClock())

    with pytest.raises(JobStateError, match="is being read"):
        job.savepoints.dispose(job.leadership.commit, "s1")

    lease.release()
    job.savepoints.dispose(job.leadership.commit, "s1")
    assert (ids(job), job.savepoints.directory("s1").exists()) == ([], False)


def test_the_payloads_that_a_savepoint_would_replay_stay(job: Job, live: Path) -> None:
    job.savepoints.create(job.leadership.commit, job.request("s1", 1), LocalTree(live))
    for number in (1, 2, 3):
        job.add(number, number, number)

    job.checkpoints.retain(job.leadership, 1)
    kept = [payload.number for payload in job.checkpoints.payloads()]
    job.savepoints.dispose(job.leadership.commit, "s1")
    job.checkpoints.retain(job.leadership, 1)

    assert kept == [1, 2, 3]
    assert [payload.number for payload in job.checkpoints.payloads()] == [3]
