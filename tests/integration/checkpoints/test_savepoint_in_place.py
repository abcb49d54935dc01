"""Savepoints where nothing can be renamed: file by file, the manifest last, and restored from there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.layered.layered_tree import LayeredTree
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.store.savepoints.creation import TreeDraft
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.checkpointing.publisher import Provenance
from airflow_provider_ha.driver.checkpointing.savepoint_job import SavepointJob
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError, ObjectExistsError
from airflow_provider_ha.jobs.model import OperationKind
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.checkpoints.layered_files import FIRST, JOB, SECOND, LayeredFiles
from tests.support.spark.recorded_job import QUERY, recorded_job


BATCH = 9


@pytest.fixture
def work(tmp_path: Path) -> LayeredFiles:
    """A working directory in which a real query has executed its batches."""
    files = LayeredFiles(tmp_path / "work")
    live = files.area.create(FIRST)
    recorded = recorded_job() / "live"
    for path in sorted(path for path in recorded.rglob("*") if path.is_file()):
        live.write(str(path.relative_to(recorded)), path.read_bytes())
    return files


@pytest.fixture
def savepoints(job: Job, work: LayeredFiles) -> SavepointStore:
    return SavepointStore(job.coordinator, job.paths, job.keys, work.area)


def test_a_savepoint_is_whole_and_can_be_restored(job: Job, work: LayeredFiles, savepoints: SavepointStore) -> None:
    made = savepoints.create(job.leadership.commit, job.request("s1", BATCH), work.area.tree(FIRST))

    assert savepoints.load("s1") == made
    assert savepoints.verify("s1") == []
    work.area.create(SECOND)
    work.area.bring_in(savepoints.tree("s1") / QUERY, f"{SECOND}/{QUERY}", batch=BATCH)
    assert progress(work.area.tree(SECOND) / QUERY) == Progress(BATCH, BATCH)


def test_large_files_go_over_the_disk_and_arrive_whole(
    job: Job, work: LayeredFiles, savepoints: SavepointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_ha.checkpoints.store.savepoints.creation._IN_MEMORY", 10)

    savepoints.create(job.leadership.commit, job.request("s1", BATCH), work.area.tree(FIRST))

    assert savepoints.verify("s1") == []


def test_what_an_attempt_that_died_left_is_no_part_of_the_savepoint(
    job: Job, work: LayeredFiles, savepoints: SavepointStore
) -> None:
    key = JOB.savepoint("s1")
    work.area.tree(key).write(f"{QUERY}/state/0/0/77.delta", b"of another cut")

    savepoints.create(job.leadership.commit, job.request("s1", BATCH), work.area.tree(FIRST))

    assert not savepoints.tree("s1").fresh().has(f"{QUERY}/state/0/0/77.delta")


def test_a_copy_without_its_manifest_is_no_savepoint(
    job: Job, work: LayeredFiles, savepoints: SavepointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    create = LayeredTree.create

    def until_the_manifest(tree: LayeredTree, name: str, data: bytes) -> None:
        if name == MANIFEST:
            raise KeyboardInterrupt
        written.append(name)
        create(tree, name, data)

    monkeypatch.setattr(LayeredTree, "create", until_the_manifest)
    with pytest.raises(KeyboardInterrupt):
        savepoints.create(job.leadership.commit, job.request("s1", BATCH), work.area.tree(FIRST))

    assert written
    assert not savepoints.has("s1")
    with pytest.raises(CheckpointMissingError):
        savepoints.load("s1")


def test_a_leader_that_was_deposed_during_its_copy_replaces_nothing_of_its_successor(
    job: Job, work: LayeredFiles, savepoints: SavepointStore
) -> None:
    draft, live = TreeDraft(work.area.tree(JOB.savepoint("s1"))), work.area.tree(FIRST)
    savepoints.create(job.leadership.commit, job.request("s1", BATCH), live)

    with pytest.raises(ObjectExistsError):
        draft.bring([(f"{QUERY}/metadata", live / QUERY, "offsets/13")])

    assert savepoints.verify("s1") == []


def test_a_copy_that_was_changed_gets_no_pointer(
    job: Job, work: LayeredFiles, savepoints: SavepointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(tree: LayeredTree, name: str, data: bytes) -> None:
        tree._reader.files.write(f"{tree._prefix}{name}", data + b"x" if name.endswith("/metadata") else data)

    monkeypatch.setattr(LayeredTree, "create", changed)

    with pytest.raises(CheckpointCorruptError):
        savepoints.create(job.leadership.commit, job.request("s1", BATCH), work.area.tree(FIRST))

    assert not savepoints.has("s1")


def test_a_savepoint_holds_the_batches_that_came_after_the_last_look(
    job: Job, work: LayeredFiles, savepoints: SavepointStore
) -> None:
    live = work.area.tree(FIRST)
    newest = [path for path in work.query(FIRST, QUERY).rglob("*") if path.is_file() and path.name.startswith("13")]
    aside = {path: path.read_bytes() for path in newest}
    for path in newest:
        path.unlink()
    live.names()  # the last look
    for path, data in aside.items():
        path.write_bytes(data)
    registry = QueryRegistry(SystemClock())
    sink = QuerySink(kind=SinkKind.FOREACH_BATCH)
    registry.expect([RestingQuery(QUERY, live / QUERY, sink)], complete=True)
    provenance = Provenance(job.paths.job_id, 1, "g", "4.2.0")
    maker = SavepointJob(savepoints, job.leadership, registry, provenance, live, savepoints.tree)
    asked: Any = SimpleNamespace(operation_id="s1", operation=OperationKind.SAVEPOINT, arguments={})

    made = maker.create(asked)

    assert savepoints.load(made["savepoint_id"]).cut == {QUERY: 13}
