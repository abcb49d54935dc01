"""``spark-ha savepoint``: savepoints as directories and archives, without a cluster and of a managed job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.reader_leases import active
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.checkpoints.portable_helpers import (
    QUERY,
    archive,
    checkpoint,
    member,
    members_of,
    names_in,
    savepoint,
    write_batch,
)
from tests.support.clusters.coordination_helpers import JOB
from tests.support.spark import recorded_job


YES, NO, UNKNOWN, WRONG_CALL = 0, 1, 2, 64
Call = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command on a host that knows no cluster; returns (exit code, JSON, stderr)."""
    for name in ("SPARK_HA_ZOOKEEPER", "SPARK_HA_STORAGE_ROOT", "SPARK_HA_CLUSTER_ID"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: object) -> tuple[int, Any, str]:
        done = CliRunner().invoke(app, ["savepoint", *map(str, words), "--json"], obj=ClusterTarget())
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, json.loads(done.stdout) if done.stdout else None, done.stderr

    return call


@pytest.fixture
def live(tmp_path: Path) -> Path:
    return checkpoint(tmp_path / "live" / QUERY)


def test_a_savepoint_travels_without_a_cluster(alone: Call, live: Path, tmp_path: Path) -> None:
    made, back, packed, at = (tmp_path / name for name in ("sp", "back", "sp.tar.zst", "from-sp"))

    created = alone("create", live, "--to", made, "--label", "before-upgrade")
    verified = alone("verify", made)
    exported = alone("export", made, "--to", packed)
    imported = alone("import", packed, "--to", back)
    restored = alone("restore", back, "--to", at)

    assert [code for code, _, _ in (created, verified, exported, imported, restored)] == [YES] * 5
    assert (created[1]["cut"], created[1]["shares_inodes"]) == ({QUERY: 2}, False)
    assert (verified[1]["restorable"], verified[1]["files"]) == (True, [])
    assert exported[1]["bytes"] == packed.stat().st_size
    assert imported[1] == created[1] | {"directory": str(back)}
    assert restored[1]["checkpoints"] == {QUERY: str(at / QUERY)}
    assert verify(LocalTree(at / QUERY)).startable is True


def test_several_queries_and_their_sinks_are_one_savepoint(alone: Call, live: Path, tmp_path: Path) -> None:
    down = checkpoint(tmp_path / "live" / "down", range(5))
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(3):
        (log / str(batch)).write_text("v1")
    queries = ("--query", f"down={down}", "--query", f"up={live}")

    code, document, _ = alone(
        "create",
        *queries,
        "--batch",
        "down=3",
        "--sink",
        f"up=file:{tmp_path / 'out'}",
        "--link",
        "--to",
        tmp_path / "sp",
    )

    assert (code, document["cut"], document["shares_inodes"]) == (YES, {"down": 3, "up": 2}, True)
    assert names_in(tmp_path / "sp" / "sinks") == ["up"]


def test_a_savepoint_without_digests_says_so_wherever_it_is_shown(alone: Call, live: Path, tmp_path: Path) -> None:
    created = alone("create", live, "--link", "--no-digests", "--to", tmp_path / "sp")
    verified = alone("verify", tmp_path / "sp")
    told = CliRunner().invoke(app, ["savepoint", "verify", str(tmp_path / "sp")], obj=ClusterTarget())

    assert [created[0], verified[0], told.exit_code] == [YES] * 3
    assert (created[1]["digested"], verified[1]["digested"]) == (False, False)
    assert verified[1]["not_digested"] == created[1]["files"]
    assert "4 of its 4 files were created without a digest" in told.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("--batch", "0"),
        ("--batch", f"{QUERY}=0"),
    ],
    ids=" ".join,
)
def test_of_a_single_query_the_name_may_be_left_out(
    alone: Call, live: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    code, document, _ = alone("create", live, *words, "--to", tmp_path / "sp")

    assert (code, document["cut"]) == (YES, {QUERY: 0})


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("words",), "savepoint trigger words"),
        ((), "Name at least one query"),
        (("s3://bucket/checkpoint",), "not on a file system of this host"),
        (("./words", "--batch", "last"), "not the number of a batch"),
        (("./words", "--batch", "-1"), "not the number of a batch"),
        (("./words", "--query", "words=./other"), "named twice"),
        (("--query", "words"), "NAME=VALUE"),
        (("--query", "a=./words", "--query", "a=./words"), "NAME=VALUE"),
        (("--query", "a=./words", "--query", "b=./words", "--sink", "./out"), "NAME=VALUE"),
        (("--query", "a=./words", "--query", "b=./words", "--sink", "c=./out"), "names no query"),
        (("--query", "a=./words", "--query", "b=./words", "--sink", "a="), "NAME=VALUE"),
        (("./words", "--spark-version", "soon"), "soon"),
        (("./words", "--no-digests"), "Link instead of copy"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_an_impossible_savepoint_is_refused_without_an_effect(
    alone: Call, live: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], reason: str
) -> None:
    monkeypatch.chdir(live.parent)

    code, document, stderr = alone("create", *words, "--to", "./sp")

    assert (code, names_in(live.parent)) == (WRONG_CALL, [QUERY])
    assert reason in stderr
    assert document["error"]["next_step"]


def test_a_directory_that_is_not_there_is_unknown(alone: Call, live: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(live.parent)

    code, document, stderr = alone("create", "./absent", "--to", "./sp")

    assert (code, names_in(live.parent)) == (2, [QUERY])  # its file system may not be mounted
    assert "not a directory of this host" in stderr
    assert document["error"]["next_step"]


def test_a_batch_that_is_not_there_is_a_no(alone: Call, live: Path, tmp_path: Path) -> None:
    code, document, _ = alone("create", live, "--batch", "9", "--to", tmp_path / "sp")

    assert (code, document["error"]["type"]) == (NO, "CheckpointMissingError")
    assert names_in(tmp_path) == ["live"]


def test_damage_is_a_no_with_the_file(alone: Call, tmp_path: Path) -> None:
    directory, _ = savepoint(tmp_path)
    (directory / QUERY / "offsets" / "2").write_text("v1\n{}\n{}")

    code, document, _ = alone("verify", directory)

    assert (code, document["restorable"]) == (NO, False)
    assert [problem["path"] for problem in document["files"]] == [f"{QUERY}/offsets/2"]


def test_a_savepoint_of_a_batch_that_cannot_be_restored_is_a_no(alone: Call, tmp_path: Path) -> None:
    """Its bytes are as the manifest records, but what they say is nothing that Spark starts from."""
    directory, made = savepoint(tmp_path)
    part = made.queries[QUERY].model_copy(update={"batch": 7})
    (directory / "manifest.json").write_bytes(made.model_copy(update={"queries": {QUERY: part}}).to_bytes())

    code, document, _ = alone("verify", directory, "--depth", "quick")

    assert (code, document["files"], document["queries"][QUERY]["restorable"]) == (NO, [], False)


@pytest.mark.parametrize(("place", "code"), [("absent", UNKNOWN), ("live", NO)])
def test_a_missing_path_is_unknown_and_a_foreign_directory_is_no_savepoint(
    alone: Call, live: Path, place: str, code: int
) -> None:
    assert alone("verify", live.parents[1] / place)[0] == code


@pytest.mark.parametrize("words", [("sp",), ("./sp", "s1")], ids=" ".join)
def test_a_job_needs_a_savepoint_and_a_directory_is_one(
    alone: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    savepoint(tmp_path)
    monkeypatch.chdir(tmp_path)

    code, _, stderr = alone("verify", *words)

    assert code == WRONG_CALL
    assert "names no savepoint" in stderr


def test_a_hostile_archive_is_a_no_and_leaves_nothing(alone: Call, tmp_path: Path) -> None:
    directory, made = savepoint(tmp_path)
    hostile = archive(tmp_path / "bad.tar", [*members_of(directory, made), (member("../\x1b[2Jevil"), b"")])
    before = names_in(tmp_path)

    code, document, stderr = alone("import", hostile, "--to", tmp_path / "back")

    assert (code, names_in(tmp_path)) == (NO, before)
    assert "evil" in document["error"]["message"]
    assert "\x1b" not in stderr + document["error"]["message"]


def test_people_get_sentences(live: Path, tmp_path: Path) -> None:
    def say(*words: object) -> str:
        done = CliRunner().invoke(app, ["savepoint", *map(str, words)], obj=ClusterTarget())
        assert done.exit_code == YES, done.stderr
        return done.stdout

    assert f"{QUERY}=2" in say("create", live, "--to", tmp_path / "sp")
    assert "is whole and can be restored" in say("verify", tmp_path / "sp")
    assert "sp.tar.gz" in say("export", tmp_path / "sp", "--to", tmp_path / "sp.tar.gz")
    assert f"{QUERY}=2" in say("import", tmp_path / "sp.tar.gz", "--to", tmp_path / "back")
    assert str(tmp_path / "at" / QUERY) in say("restore", tmp_path / "back", "--to", tmp_path / "at")


@pytest.fixture
def exported(spark_ha: Any, config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Iterator[tuple[Job, Path]]:
    """A job that this process leads, and the archive of its savepoint ``s1``, which the job does not have any more."""
    with led_job(config, coordinator) as job:
        store = JobGraphStore(coordinator, job.objects, job.paths)
        script = Artifact(name="app.py", blob=Blob(sha256="0" * 64, size=0))
        graph = store.write_graph(JobGraph(job_id=JOB, name=JOB, application=script))
        asked = replace(job.request("s1", 9), graph=graph.sha256)
        job.savepoints.create(job.leadership.commit, asked, LocalTree(recorded_job.copy_live(tmp_path / "live")))
        code, _, stderr = spark_ha("savepoint", "export", JOB, "s1", "--to", str(tmp_path / "s1.tar.zst"))
        assert code == YES, stderr
        assert active(coordinator, job.paths, "savepoint-s1", SystemClock()) == []
        yield job, tmp_path / "s1.tar.zst"


def once_nobody_leads(spark_ha: Any, *words: str) -> tuple[int, str, str]:
    """Call the command until the lock is free: a session that was lost on a slow machine holds it a while longer."""

    def call() -> tuple[int, str, str] | None:
        code, stdout, stderr = spark_ha(*words)
        return None if "is still led" in stderr else (code, stdout, stderr)

    return wait_until(call, timeout=60, what="the lock of the job")


@pytest.mark.timeout(300)
def test_the_savepoint_of_a_managed_job_travels(spark_ha: Any, exported: tuple[Job, Path], tmp_path: Path) -> None:
    job, packed = exported

    verified, document, _ = spark_ha("savepoint", "verify", JOB, "s1", "--json")
    job.savepoints.dispose(job.leadership.commit, "s1")
    imported, _, _ = spark_ha("savepoint", "import", str(packed), "--to", str(tmp_path / "back"))
    restored, _, _ = spark_ha("savepoint", "restore", str(tmp_path / "back"), "--to", str(tmp_path / "at"))

    assert (verified, imported, restored) == (YES, YES, YES)
    assert json.loads(document)["restorable"] is True
    assert verify(LocalTree(tmp_path / "at" / recorded_job.QUERY)).latest_restorable == 9


@pytest.mark.timeout(300)
def test_it_comes_back_into_its_job_when_nobody_drives_it(spark_ha: Any, exported: tuple[Job, Path]) -> None:
    job, packed = exported
    words = ("savepoint", "import", str(packed), "--job", JOB, "--json")
    has_it = spark_ha(*words)[0]
    job.savepoints.dispose(job.leadership.commit, "s1")
    is_led = spark_ha(*words)[0]
    job.leadership.release()
    (job.savepoints.directory("s1") / "of-a-dead-import").mkdir(parents=True)

    came_back, document, stderr = once_nobody_leads(spark_ha, *words)

    assert (has_it, is_led, came_back) == (NO, NO, YES), stderr
    assert job.savepoints.verify("s1") == []
    assert json.loads(document)["directory"] == str(job.savepoints.directory("s1"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("change", "reason"),
    [({"job_id": "other"}, "of job 'other'"), ({"graph": "1" * 64}, "does not have the job graph")],
)
def test_what_the_job_could_not_be_restored_from_is_refused(
    spark_ha: Any, exported: tuple[Job, Path], tmp_path: Path, change: dict[str, str], reason: str
) -> None:
    job, _ = exported
    made = job.savepoints.load("s1").model_copy(update=change)
    foreign = archive(tmp_path / "foreign.tar", members_of(job.savepoints.directory("s1"), made))
    job.savepoints.dispose(job.leadership.commit, "s1")
    job.leadership.release()

    code, _, stderr = once_nobody_leads(spark_ha, "savepoint", "import", str(foreign), "--job", JOB)

    assert code == NO
    assert reason in stderr
    assert not job.savepoints.directory("s1").exists()


@pytest.mark.timeout(300)
def test_an_archive_whose_manifest_another_release_wrote_is_adopted_with_the_bytes_that_it_has(
    spark_ha: Any, exported: tuple[Job, Path], tmp_path: Path
) -> None:
    """The pointer holds the digest of the manifest as it lies there, not as this release would write it."""
    job, _ = exported
    (_, data), *files = members_of(job.savepoints.directory("s1"), job.savepoints.load("s1"))
    spaced = json.dumps(json.loads(data), indent=1).encode()
    other = archive(tmp_path / "other.tar", [(member("manifest.json", size=len(spaced)), spaced), *files])
    job.savepoints.dispose(job.leadership.commit, "s1")
    job.leadership.release()

    code, _, stderr = once_nobody_leads(spark_ha, "savepoint", "import", str(other), "--job", JOB)

    assert code == YES, stderr
    assert (job.savepoints.directory("s1") / "manifest.json").read_bytes() == spaced
    assert job.savepoints.verify("s1") == []


@pytest.mark.parametrize("limit", ["--retain", "--retain-days"])
def test_only_what_a_schedule_made_can_be_given_a_limit(spark_ha: Any, limit: str) -> None:
    code, _, stderr = spark_ha("savepoint", "trigger", JOB, limit, "3")

    assert code == WRONG_CALL
    assert "only savepoints of a schedule are ever removed" in stderr


@pytest.mark.parametrize("words", [(), ("--to", "./back", "--job", JOB)], ids=" ".join)
def test_an_archive_goes_to_one_place(alone: Call, tmp_path: Path, words: tuple[str, ...]) -> None:
    code, _, stderr = alone("import", tmp_path / "sp.tar", *words)

    assert code == WRONG_CALL
    assert "one place" in stderr


def test_verifying_a_missing_savepoint_creates_no_node(
    spark_ha: Any, config: HaConfig, coordinator: Coordinator
) -> None:
    with led_job(config, coordinator) as job:
        code, _, stderr = spark_ha("savepoint", "verify", JOB, "none")
        nodes = coordinator.children(job.paths.leases("none").rpartition("/")[0])

    assert (code, nodes) == (NO, [])
    assert "none" in stderr


def test_a_running_query_that_goes_on_is_not_held_up(alone: Call, live: Path, tmp_path: Path) -> None:
    """The second savepoint of a query has its newer batch, and the first one stays what it was."""
    first = alone("create", live, "--to", tmp_path / "one")[1]
    write_batch(live, 3)

    second = alone("create", live, "--to", tmp_path / "two")[1]

    assert (first["cut"], second["cut"]) == ({QUERY: 2}, {QUERY: 3})
    assert alone("verify", tmp_path / "one")[0] == YES
