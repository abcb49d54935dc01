"""Directories that ZooKeeper names: none leads out of its job, on a real ZooKeeper and real directories (S10, S10b)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, Claim, QuerySink, SavepointPointer, SinkKind
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.select import select
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.store.orphaned_blobs import take_census
from airflow_provider_ha.checkpoints.store.removal import DeletionList
from airflow_provider_ha.checkpoints.store.working_directories import superfluous_directories
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import Create, SetData
from airflow_provider_ha.driver.checkpointing.start_point import prepare_start
from airflow_provider_ha.errors import CheckpointCorruptError, HaError, RecordCorruptError
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.model import Generation, JobState, Run, RunResult, StartKind, StartPoint
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.rebuild.storage_evidence import find_checkpoints
from airflow_provider_ha.jobs.removal.cleanup import clean_up
from airflow_provider_ha.jobs.restore.job_restore import plan_for
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.storage.blobs import put_blob
from tests.support.checkpoints.checkpoint_helpers import AT, Job, elsewhere
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.jobs_helpers import NOON, a_run, a_submission
from tests.support.spark.recorded_job import QUERY


@pytest.fixture
def victim(job: Job, tmp_path: Path) -> Path:
    """A directory that is none of the job's, with a query in it; ``by-link`` of the job leads there."""
    directory = tmp_path / "team-b" / "mine"
    (directory / "q" / "offsets").mkdir(parents=True)
    (directory / "q" / "offsets" / "0").write_text("v1")
    live = job.config.work_path / job.keys.live
    live.mkdir(parents=True)
    (live / "e1-link").symlink_to(directory)
    return directory


@pytest.fixture
def neighbour(job: Job) -> Path:
    """A working directory of another job of the cluster, and an older one beside it."""
    live = job.config.work_path / "jobs" / "another" / "live"
    for name in ("e1-old", "e2-new"):
        (live / name).mkdir(parents=True)
    return live


def hostile(job: Job, victim: Path) -> dict[str, str]:
    """Return keys that lead out of what is the job's, by how they do it."""
    return {
        "absolute": str(victim),
        "parents": f"{job.keys.live}../../../../../team-b/mine",
        "link": f"{job.keys.live}e1-link",
        "another job": "jobs/another/live/e2-new",
        "the job itself": job.keys.base,
    }


WAYS = ("absolute", "parents", "link", "another job", "the job itself")


def tree(*roots: Path) -> list[str]:
    """Return every path below, to compare what there is before and after."""
    return sorted(str(path) for root in roots for path in root.rglob("*"))


def set_generation(job: Job, directory: str) -> Generation:
    generation = Generation(run=1, epoch=1, directory=directory)
    job.coordinator.commit(Create(job.paths.generation, generation.to_bytes()))
    return generation


def refusal(act: Callable[[], object]) -> HaError:
    with pytest.raises(RecordCorruptError) as caught:
        act()
    return caught.value


def plan(job: Job, directory: str, **values: object) -> RestorePlan:
    return RestorePlan.model_validate(
        {
            "job_id": job.paths.job_id,
            "source_job": job.paths.job_id,
            "source": "checkpoint",
            "source_id": "1",
            "directory": directory,
            "verdict": Verdict.SAFE,
            "queries": {"q": QueryPlan(batch=0, sink=QuerySink(kind=SinkKind.OTHER))},
            "age_seconds": 0,
            "created_at": AT,
            **values,
        }
    )


def run_of(job: Job, restore: RestorePlan | None) -> Run:
    if restore is None:
        return a_run(1)
    sha256, size = put_blob(job.objects, restore.to_bytes())
    start = StartPoint(kind=StartKind.CHECKPOINT, source_id="1", plan=Blob(sha256=sha256, size=size))
    return a_run(1).model_copy(update={"start": start})


def start(job: Job, run: Run, previous: Generation | None) -> object:
    key = job.keys.working_directory(2, "new")
    return prepare_start(job.objects, LinkedWorkArea(job.config.work_path), job.paths, run, previous, key=key)


@pytest.mark.parametrize("way", WAYS)
def test_a_drivers_start_renames_nothing_that_a_hostile_generation_names(
    job: Job, victim: Path, neighbour: Path, way: str
) -> None:
    generation = set_generation(job, hostile(job, victim)[way])
    before = tree(victim.parent, neighbour)

    error = refusal(lambda: start(job, run_of(job, None), generation))

    assert (job.paths.generation in error.message, bool(error.next_step)) == (True, True)
    assert tree(victim.parent, neighbour) == before
    assert not (job.config.work_path / job.keys.working_directory(2, "new")).exists()


@pytest.mark.parametrize("way", WAYS)
def test_a_drivers_start_reads_nothing_that_a_hostile_plan_names(
    job: Job, victim: Path, neighbour: Path, way: str
) -> None:
    own = set_generation(job, job.keys.working_directory(1, "own"))
    (job.config.work_path / own.directory).mkdir()
    before = tree(victim.parent, neighbour)

    error = refusal(lambda: start(job, run_of(job, plan(job, hostile(job, victim)[way])), own))

    assert (job.paths.run(1) in error.message, bool(error.next_step)) == (True, True)
    assert tree(victim.parent, neighbour) == before
    assert (job.config.work_path / own.directory).is_dir()  # refused before the fence renames what is the job's own


def test_a_plan_may_name_a_directory_of_the_job_that_it_copies(job: Job) -> None:
    directory = "jobs/another/checkpoints/pins/0000000000000000001-e1"
    (job.config.work_path / directory).mkdir(parents=True)
    copied = plan(job, directory, source_job="another", queries={}, same_output=False)

    start(job, run_of(job, copied), None)

    assert (job.config.work_path / job.keys.live).is_dir()


@pytest.mark.parametrize("name", ["../../outside", "/outside", "..", ""])
def test_a_plan_whose_query_leads_out_of_the_working_directory_is_no_plan(job: Job, name: str) -> None:
    query = QueryPlan(batch=0, sink=QuerySink(kind=SinkKind.OTHER))
    restore = plan(job, job.keys.pin(1, 1)).model_copy(update={"queries": {name: query}})

    assert "not the name of a file or directory" in refusal(lambda: start(job, run_of(job, restore), None)).message


def test_a_record_of_a_source_that_leads_out_of_the_log_is_no_record(job: Job) -> None:
    entry = BatchEntry(batch=1, offsets="").model_copy(update={"log_offsets": {"../../../x": 0}})
    query = QueryPlan(batch=0, sink=QuerySink(kind=SinkKind.OTHER)).model_copy(update={"replay": (entry,)})
    restore = plan(job, job.keys.pin(1, 1)).model_copy(update={"queries": {"q": query}})

    assert "not the name of a file or directory" in refusal(lambda: start(job, run_of(job, restore), None)).message


@pytest.mark.parametrize("way", WAYS)
def test_a_clean_up_removes_nothing_beside_what_a_hostile_generation_names(
    job: Job, victim: Path, neighbour: Path, way: str
) -> None:
    ended(job)
    set_generation(job, hostile(job, victim)[way])
    before = tree(victim.parent, neighbour)
    job.leadership.release()

    error = refusal(lambda: clean_up(helpers.context(job.config, job.coordinator)))

    assert job.paths.generation in error.message
    assert tree(victim.parent, neighbour) == before


def ended(job: Job) -> None:
    runs = RunStore(job.coordinator, job.paths)
    result = RunResult(state=JobState.FINISHED, epoch=1, at=NOON)
    job.coordinator.commit(runs.create_op(a_run(1)), *runs.submission_ops(1, a_submission()), runs.result_op(1, result))


@pytest.mark.parametrize("way", WAYS)
def test_housekeeping_needs_to_know_where_every_unpinned_checkpoint_lies(
    job: Job, victim: Path, neighbour: Path, way: str
) -> None:
    unpinned = job.checkpoint(1, 1, pin=False).model_copy(update={"directory": hostile(job, victim)[way]})
    job.checkpoints.add(job.leadership, unpinned)
    before = tree(victim.parent, neighbour)

    error = refusal(
        lambda: superfluous_directories(
            job.checkpoints, LinkedWorkArea(job.config.work_path), job.keys.working_directory(2, "new"), drains_after=0
        )
    )

    assert "checkpoint 1" in error.message
    assert tree(victim.parent, neighbour) == before


@pytest.mark.parametrize("way", WAYS)
def test_a_restore_plans_nothing_with_what_a_hostile_generation_names(
    job: Job, victim: Path, neighbour: Path, way: str
) -> None:
    ended(job)
    job.add(1, -1)
    set_generation(job, hostile(job, victim)[way])
    request = RestoreRequest(job_id=job.paths.job_id, request_id="r", start_from="latest")

    with pytest.raises(RecordCorruptError, match=job.paths.generation):
        plan_for(helpers.context(job.config, job.coordinator), request)


@pytest.mark.parametrize("field", ["pin", "directory"])
@pytest.mark.parametrize("way", WAYS)
def test_a_selection_passes_over_a_checkpoint_whose_payload_leads_elsewhere(
    job: Job, victim: Path, neighbour: Path, way: str, field: str
) -> None:
    bad = job.checkpoint(1, 0, pin=field == "pin").model_copy(update={field: hostile(job, victim)[way]})
    job.checkpoints.add(job.leadership, bad)

    selection = select(job.checkpoints, job.savepoints, LinkedWorkArea(job.config.work_path), verify=never)

    assert selection.chosen is None
    assert "is refused" in selection.candidates[0].reason


def never(directory: Tree) -> NoReturn:
    raise AssertionError(f"{directory} was read")


def test_a_payload_whose_query_leads_elsewhere_cannot_be_read(job: Job) -> None:
    checkpoint = job.checkpoint(1, 0)
    bad = checkpoint.model_copy(update={"queries": {"../../x": checkpoint.queries[QUERY]}})

    with pytest.raises(RecordCorruptError, match="not the name of a file or directory"):
        Checkpoint.from_bytes(bad.to_bytes(), source="payload")


@pytest.mark.parametrize("way", WAYS)
def test_a_rebuild_looks_for_no_pin_elsewhere(job: Job, victim: Path, neighbour: Path, way: str) -> None:
    job.checkpoints.add(job.leadership, job.checkpoint(1, 0).model_copy(update={"pin": hostile(job, victim)[way]}))
    problems: list[str] = []

    assert list(find_checkpoints(job.objects, job.keys, LinkedWorkArea(job.config.work_path), problems)) == []

    assert "is refused" in problems[0]


def savepoint_pointer(job: Job, directory: str, savepoint_id: str = "mine") -> SavepointPointer:
    pointer = SavepointPointer(
        savepoint_id=savepoint_id,
        directory=directory,
        manifest_sha256=hashlib.sha256(b"").hexdigest(),
        size=0,
        cut={},
        created_at=AT,
    )
    job.coordinator.commit(Create(job.paths.savepoint(savepoint_id), pointer.to_bytes()))
    return pointer


@pytest.mark.parametrize("way", WAYS)
def test_a_savepoint_is_only_read_in_its_own_place(job: Job, victim: Path, neighbour: Path, way: str) -> None:
    savepoint_pointer(job, hostile(job, victim)[way])

    error = refusal(lambda: job.savepoints.load("mine"))

    assert (job.paths.savepoint("mine") in error.message, bool(error.next_step)) == (True, True)


@pytest.mark.parametrize("way", WAYS)
def test_an_orphan_search_looks_for_no_manifest_elsewhere(job: Job, victim: Path, neighbour: Path, way: str) -> None:
    savepoint_pointer(job, hostile(job, victim)[way])

    census = take_census(
        job.coordinator, job.paths.cluster, job.objects, LinkedWorkArea(job.config.work_path), frozenset()
    )

    assert any("is refused" in problem.reason for problem in census.problems)


def test_disposing_of_a_savepoint_removes_no_other_one_that_its_pointer_names(job: Job) -> None:
    other = job.savepoints.directory("other")
    other.mkdir(parents=True)
    savepoint_pointer(job, job.keys.savepoint("other"))

    job.savepoints.dispose(job.leadership.commit, "mine")

    assert other.is_dir()


def test_a_claimed_savepoint_takes_no_other_one_with_it(job: Job) -> None:
    other = job.savepoints.directory("other")
    other.mkdir(parents=True)
    pointer = savepoint_pointer(job, job.keys.savepoint("other")).model_copy(
        update={"claimed_by": 1, "savepoint_id": "other"}
    )
    job.coordinator.commit(SetData(job.paths.savepoint("mine"), pointer.to_bytes()))
    job.add(1, 1, 1)

    job.checkpoints.retain(job.leadership, 1)

    assert (other.is_dir(), job.coordinator.find(job.paths.savepoint("mine"))) == (True, None)


@pytest.mark.parametrize("name", ["../../x", "/x", "q//x"])
def test_a_manifest_that_names_files_elsewhere_is_refused(job: Job, name: str) -> None:
    directory = job.savepoints.directory("mine")
    directory.mkdir(parents=True)
    manifest = (
        b'{"body":{"created_at":"2026-01-01T00:00:00Z","epoch":1,"files":{"%s":{"size":0}},"graph":"g","job_id":"flights",'
        b'"queries":{},"run":1,"savepoint_id":"mine","spark_version":"4.2.0"},"kind":"savepoint","version":1,'
    ) % name.encode()
    body = manifest.partition(b'"body":')[2].partition(b',"kind"')[0]
    data = manifest + b'"checksum":"%s"}' % hashlib.sha256(body).hexdigest().encode()
    (directory / "manifest.json").write_bytes(data)
    pointer = savepoint_pointer(job, job.keys.savepoint("mine"))
    pointer = pointer.model_copy(update={"manifest_sha256": hashlib.sha256(data).hexdigest()})

    with pytest.raises(CheckpointCorruptError, match="leads out of the savepoint"):
        job.savepoints.load(pointer)


def test_a_removal_follows_no_link(job: Job, victim: Path) -> None:
    pins = job.config.work_path / job.keys.pins
    pins.parent.mkdir(parents=True)
    pins.symlink_to(victim)
    entry = DeletionList(job.coordinator, job.paths, clock=SystemClock()).entry(
        "checkpoint-1", directories=[f"{job.keys.pins}q"]
    )
    job.coordinator.commit(entry)

    report = job.checkpoints.clean_up(job.leadership)

    assert "symbolic link" in report.postponed[0].reason
    assert (victim / "q" / "offsets" / "0").exists()


def list_for_deletion(job: Job, what: str, adopted: AdoptedCheckpoint) -> None:
    entry = DeletionList(job.coordinator, job.paths, clock=SystemClock()).entry(what, adopted=[adopted])
    job.coordinator.commit(entry)


def write_claim(job: Job, adopted: AdoptedCheckpoint, *, given_up: bool = True) -> None:
    job.coordinator.ensure(job.paths.run(1))
    claim = Claim(run=1, epoch=1, adopted={"q": adopted}, at=AT, given_up=given_up)
    job.coordinator.commit(Create(job.paths.run_claim(1), claim.to_bytes()))


@pytest.mark.parametrize("what", ["claim-1", "claim-2", "claim-x", "checkpoint-1"])
def test_an_entry_of_the_deletion_list_removes_nothing_that_no_run_has_claimed(
    job: Job, tmp_path: Path, what: str
) -> None:
    mine, theirs = elsewhere(tmp_path / "mine"), elsewhere(tmp_path / "theirs")
    write_claim(job, mine)
    list_for_deletion(job, what, theirs)
    before = tree(tmp_path / "mine", tmp_path / "theirs")

    report = job.checkpoints.clean_up(job.leadership)

    assert "does not name it" in report.postponed[0].reason
    assert tree(tmp_path / "mine", tmp_path / "theirs") == before


def test_an_entry_with_another_batch_than_was_claimed_removes_nothing(job: Job, tmp_path: Path) -> None:
    mine = elsewhere(tmp_path)
    write_claim(job, mine.model_copy(update={"planned": 1, "committed": 1}))
    list_for_deletion(job, "claim-1", mine)

    job.checkpoints.clean_up(job.leadership)

    assert (Path(mine.path) / "metadata").exists()


def test_what_the_job_has_not_given_up_is_not_removed(job: Job, tmp_path: Path) -> None:
    mine = elsewhere(tmp_path)
    write_claim(job, mine, given_up=False)
    list_for_deletion(job, "claim-1", mine)

    job.checkpoints.clean_up(job.leadership)

    assert (Path(mine.path) / "metadata").exists()


def test_what_was_claimed_and_given_up_is_removed(job: Job, tmp_path: Path) -> None:
    mine = elsewhere(tmp_path)
    write_claim(job, mine)
    list_for_deletion(job, "claim-1", mine)

    job.checkpoints.clean_up(job.leadership)

    assert not Path(mine.path).exists()
