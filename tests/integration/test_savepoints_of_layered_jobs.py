"""``spark-ha savepoint`` for jobs on S3 or HDFS, and names in place of ids."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_lookup import stored_savepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import restore_files
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.cli import savepoint
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.errors import CheckpointCorruptError, ObjectExistsError
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph
from airflow_provider_ha.storage.local_store import LocalStore
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.checkpoints.layered_files import FIRST, LayeredFiles
from tests.support.clusters.coordination_helpers import JOB
from tests.support.spark.recorded_job import QUERY, recorded_job


BATCH, LATER = 9, 10

YES, NO, UNKNOWN = 0, 1, 2

Call = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LayeredFiles:
    """The work area of the cluster, with a working directory in which a real query has executed its batches."""
    files = LayeredFiles(tmp_path / "work")
    monkeypatch.setattr("airflow_provider_ha.jobs.job_context.open_work_area", lambda *_: files.area)
    live = files.area.create(FIRST)
    recorded = recorded_job() / "live"
    for path in sorted(path for path in recorded.rglob("*") if path.is_file()):
        live.write(str(path.relative_to(recorded)), path.read_bytes())
    return files


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, work: LayeredFiles) -> Job:
    """A job with savepoints ``s1`` and ``s2``, whose application is known; it has no leader."""
    with led_job(config, coordinator) as led:
        found = replace(led, savepoints=SavepointStore(coordinator, led.paths, led.keys, work.area))
        script = Artifact(name="app.py", blob=Blob(sha256="0" * 64, size=1))
        graphs = JobGraphStore(coordinator, led.objects, led.paths)
        graph = graphs.write_graph(JobGraph(job_id=JOB, name=JOB, application=script))
        for savepoint_id, batch in (("s1", BATCH), ("s2", LATER)):
            request = replace(found.request(savepoint_id, batch), graph=graph.sha256)
            found.savepoints.create(led.leadership.commit, request, work.area.tree(FIRST))
        coordinator.ensure(led.paths.runs)
    return found


@pytest.fixture
def call(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command for this cluster; returns (exit code, JSON, stderr)."""

    def invoke(*words: object) -> tuple[int, Any, str]:
        target = ClusterTarget(options={"zookeeper": config.zookeeper}, fallback=lambda: config)
        monkeypatch.setattr(ClusterTarget, "config", lambda _: config)
        done = CliRunner().invoke(app, [*map(str, words), "--json"], obj=target)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, json.loads(done.stdout) if done.stdout else None, done.stderr

    return invoke


def test_a_savepoint_is_verified_to_the_last_byte(call: Call, job: Job, work: LayeredFiles) -> None:
    whole = call("savepoint", "verify", JOB, "s1")
    damaged = work.root / job.keys.savepoint("s1") / QUERY / "metadata"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b" ")
    (damaged.parent / "stranger").write_bytes(b"not of the manifest")

    broken = call("savepoint", "verify", JOB, "s1")

    assert (whole[0], whole[1]["restorable"], whole[1]["files"]) == (YES, True, [])
    assert broken[0] == NO
    assert [found["path"] for found in broken[1]["files"]] == [f"{QUERY}/metadata", f"{QUERY}/stranger"]


def test_a_savepoint_is_exported_and_comes_back_as_it_was(
    call: Call, job: Job, coordinator: Coordinator, tmp_path: Path
) -> None:
    packed = tmp_path / "s1.tar.zst"
    before = job.savepoints.load("s1")

    exported = call("savepoint", "export", JOB, "s1", "--to", packed)
    disposed = call("delete", "savepoint", JOB, "s1", "--yes")
    imported = call("savepoint", "import", packed, "--job", JOB)

    assert [code for code, _, _ in (exported, disposed, imported)] == [YES] * 3
    assert exported[1]["bytes"] == packed.stat().st_size
    assert job.savepoints.load("s1") == before
    assert job.savepoints.verify("s1") == []
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".s1")] == []


def test_plain_checkpoints_are_made_of_it_on_this_host(call: Call, job: Job, tmp_path: Path) -> None:
    code, document, _ = call("savepoint", "restore", JOB, "s1", "--to", tmp_path / "plain")

    plain = tmp_path / "plain" / QUERY
    assert (code, document["checkpoints"]) == (YES, {QUERY: str(plain)})
    assert progress(LocalTree(plain)) == Progress(BATCH, BATCH)
    assert verify(LocalTree(plain), depth="full").startable


@pytest.mark.parametrize("to", ["s3a://bucket/plain", "hdfs://namenode:8020/plain"])
def test_plain_checkpoints_are_made_of_it_in_any_store(
    call: Call, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    store = LocalStore(tmp_path / "elsewhere", new=True)
    monkeypatch.setattr(StorageAccess, "files", lambda *_: store)

    code, document, stderr = call("savepoint", "restore", JOB, "s1", "--to", to)

    assert (code, stderr) == (YES, "")
    assert document["checkpoints"] == {QUERY: f"file://{tmp_path}/elsewhere/{QUERY}"}
    assert verify(LocalTree(tmp_path / "elsewhere" / QUERY), depth="full").startable


def test_nothing_is_restored_over_what_lies_there(job: Job, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "elsewhere", new=True)
    store.write("stats/offsets/0", b"of another query")

    with pytest.raises(ObjectExistsError, match="is not empty"):
        restore_files(stored_savepoint(job.savepoints, "s1"), store)

    assert [file.key for file in store.list("")] == ["stats/offsets/0"]


def test_what_is_damaged_in_between_ends_the_restore(
    job: Job, work: LayeredFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look has passed; the file is another one when it is copied."""
    stored, store = stored_savepoint(job.savepoints, "s1"), LocalStore(tmp_path / "elsewhere", new=True)
    state = next(path for path in (work.root / job.keys.savepoint("s1") / QUERY / "state").rglob("*.zip"))
    monkeypatch.setattr(
        "airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore.check", lambda *_, **__: None
    )
    data = state.read_bytes()
    state.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))

    with pytest.raises(CheckpointCorruptError, match="digest"):
        restore_files(stored, store)

    assert store.names(f"{QUERY}/offsets/") == []


def test_an_archive_of_another_job_is_refused(call: Call, job: Job, tmp_path: Path, coordinator: Coordinator) -> None:
    packed = tmp_path / "s1.tar"
    call("savepoint", "export", JOB, "s1", "--to", packed)
    coordinator.ensure(*job.paths.cluster.job("another").skeleton)

    code, _, stderr = call("savepoint", "import", packed, "--job", "another")

    assert code == NO
    assert "another" in stderr


def test_what_an_import_that_died_left_is_no_part_of_the_savepoint(
    call: Call, job: Job, work: LayeredFiles, tmp_path: Path
) -> None:
    packed = tmp_path / "s1.tar"
    call("savepoint", "export", JOB, "s1", "--to", packed)
    call("delete", "savepoint", JOB, "s1", "--yes")
    work.area.tree(job.keys.savepoint("s1")).write(f"{QUERY}/metadata", b"of an import that died")

    code, _, stderr = call("savepoint", "import", packed, "--job", JOB)

    assert (code, stderr) == (YES, "")
    assert job.savepoints.verify("s1") == []


def test_every_command_takes_the_beginning_of_an_id_or_a_label(source: Job, spark_ha: Any) -> None:
    for number, label in (("one", "before the upgrade"), ("two", "")):
        request = replace(source.request(f"nightly-{number}", 9), label=label)
        source.savepoints.create(source.leadership.commit, request, LocalTree(recorded_job() / "live"))

    shown = json.loads(spark_ha("savepoint", "show", "flights", "nightly-o", "--json")[1])
    verified, document, _ = spark_ha("savepoint", "verify", "flights", "before the upgrade", "--json")
    planned = json.loads(
        spark_ha("job", "restore", "--dry-run", "flights", "--start-from", "savepoint-nightly-t", "--json")[1]
    )
    code, _, stderr = spark_ha("delete", "savepoint", "flights", "nightly", "--yes")
    unasked, stdout, advice = spark_ha("delete", "savepoint", "flights", "nightly-o")

    assert (unasked, stdout, "Add --yes" in advice) == (64, "", True)
    assert shown["savepoint_id"] == "nightly-one"
    assert (verified, json.loads(document)["savepoint_id"]) == (0, "nightly-one")
    assert planned["source_id"] == "nightly-two"
    assert code == 64
    assert "'nightly' may name 2 savepoints of job 'flights': nightly-two, nightly-one" in stderr
    assert {pointer.savepoint_id for pointer in source.savepoints.list()} == {"nightly-one", "nightly-two"}


def test_a_list_warns_of_the_oldest_savepoint_when_very_many_records_are_kept(
    source: Job, spark_ha: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.savepoints.create(source.leadership.commit, source.request("old", 9), LocalTree(recorded_job() / "live"))
    before = spark_ha("savepoint", "list", "flights")
    monkeypatch.setattr(savepoint, "MANY", 0)

    code, _, stderr = spark_ha("savepoint", "list", "flights")

    assert (code, before[2]) == (0, "")
    assert "the records of 1 checkpoints are kept for exact replay, by savepoint old" in stderr
