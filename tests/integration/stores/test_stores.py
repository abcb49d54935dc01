"""Cluster in a store: markers of its roots, drills, and a rebuild."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.coordination.reader_leases import active
from airflow_provider_ha.errors import (
    CheckpointMissingError,
    ConfigurationError,
    ObjectMissingError,
    StorageUnavailableError,
)
from airflow_provider_ha.fleet.znode_tree import read_tree, walk
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.rebuild.rebuild import RebuildPlan, plan_rebuild
from airflow_provider_ha.jobs.submit.preparation import upload
from airflow_provider_ha.jobs.verification.job_drill import DrillRequest, drill
from airflow_provider_ha.jobs.verification.job_verification import PROOFS, ProofOptions
from airflow_provider_ha.jobs.verification.verification_records import DrillStore, DrillVerdict
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.storage.open_storage import open_root, open_store, storage_uri
from airflow_provider_ha.storage.roots import MARKER, ClusterRoots, read_marker
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.checkpoints.layered_files import SECOND
from tests.support.checkpoints.portable_helpers import QUERY as WORDS
from tests.support.checkpoints.portable_helpers import checkpoint
from tests.support.checkpoints.recorded_in_store import files_of, take_over
from tests.support.clusters.rebuild_helpers import Driver, drive, job, submit
from tests.support.spark.recorded_job import QUERY, recorded_job


pytestmark = pytest.mark.timeout(300)
WORKING = "jobs/flights/live/e1-a"


def markers(config: HaConfig) -> list[ClusterRoots | None]:
    return [read_marker(open_root(config, uri)) for uri in (storage_uri(config), config.work_uri)]


def test_both_roots_get_the_identity_that_zookeeper_has(config: HaConfig, coordinator: Coordinator) -> None:
    client = HaClient(config, coordinator)

    client.store.write("a", b"")
    before = markers(config)
    HaClient(config, coordinator).store.write("a", b"")

    assert before[0] is not None
    assert before == markers(config) == [before[0], before[0]]
    assert client.roots.known()


@pytest.mark.parametrize("root", ["storage", "work"])
def test_what_lost_its_marker_is_not_written_to(config: HaConfig, coordinator: Coordinator, root: str) -> None:
    HaClient(config, coordinator).store.write("a", b"")
    open_root(config, storage_uri(config) if root == "storage" else config.work_uri).delete(MARKER)
    client = HaClient(config, coordinator)

    for act in (lambda: client.store.write("b", b""), lambda: client.area.create(WORKING), client.area.require):
        with pytest.raises(StorageUnavailableError, match="not mounted"):
            act()
    with pytest.raises(ObjectMissingError):
        open_root(config, storage_uri(config)).read("b")


def test_a_directory_is_gone_only_from_a_root_that_is_there(config: HaConfig, coordinator: Coordinator) -> None:
    client = HaClient(config, coordinator)
    client.store.write("a", b"")
    with pytest.raises(CheckpointMissingError):
        client.area.fence(WORKING)

    open_root(config, config.work_uri).delete(MARKER)

    with pytest.raises(StorageUnavailableError):
        client.area.fence(WORKING)


def test_a_root_of_another_cluster_is_refused(config: HaConfig, coordinator: Coordinator) -> None:
    HaClient(config, coordinator).store.write("a", b"")
    root = open_root(config, config.work_uri)
    root.write(MARKER, ClusterRoots(uuid="of another", storage="s", work="w").to_bytes())

    with pytest.raises(ConfigurationError, match="which is not the same storage"):
        HaClient(config, coordinator).store.write("b", b"")


APPLICATION = Path(__file__).resolve().parents[2] / "apps" / "stats.py"
BATCH = 13

KEYS, OPEN_WINDOWS = 3, 1  # after that batch, which closed the others

LOAD_ONLY = ProofOptions(start=False)
STARTED = ProofOptions(heap="512m", deadline=600.0)


def ask(options: ProofOptions = LOAD_ONLY, **values: Any) -> DrillRequest:
    return DrillRequest(drill_id="weekly", requested_by="test", options=options, **values)


def content(config: HaConfig) -> dict[str, str]:
    """Return the versions of all files below the work root."""
    return {file.key: f"{file.size} {file.mtime} {file.etag}" for file in files_of(config).list("")}


@pytest.fixture
def words(job: Job, area: WorkArea, tmp_path: Path) -> Job:
    """The job with a query without state, and savepoint ``s1`` of its batch 2."""
    put_blob(job.objects, b"of a submission")  # which makes the storage root
    live = area.create(SECOND)
    written = checkpoint(tmp_path / "written")
    for path in (path for path in written.rglob("*") if path.is_file()):
        live.write(f"{WORDS}/{path.relative_to(written)}", path.read_bytes())
    request = dataclasses.replace(job.request("s1", 2), cut={WORDS: 2}, graph="0" * 64)
    job.savepoints.create(job.leadership.commit, request, area.tree(SECOND))
    return job


@pytest.fixture
def stats(job: Job, context: JobContext, area: WorkArea, tmp_path: Path) -> Job:
    """The job with a query with state: checkpoint 1 in the directory of its second epoch, and savepoint ``s1``."""
    application = JobSpec(
        job_id=context.job_id,
        request_id="made",
        application=str(APPLICATION),
        arguments=[str(recorded_job() / "input"), str(tmp_path / "out")],
        conf={"spark.sql.session.timeZone": "UTC"},
    )
    graph = context.graphs.write_graph(upload(context, application)).sha256
    take_over(area)
    made = job.checkpoint(1, BATCH, pin=False).model_copy(update={"directory": SECOND, "graph": graph})
    job.checkpoints.add(job.leadership, made)
    request = dataclasses.replace(job.request("s1", BATCH), graph=graph)
    job.savepoints.create(job.leadership.commit, request, area.tree(SECOND))
    return job


def test_the_newest_savepoint_is_drilled_and_the_job_does_not_notice(words: Job, context: JobContext) -> None:
    before = content(words.config)

    done = drill(context, ask())

    assert (done.verdict, done.reasons, done.source, done.cut) == (DrillVerdict.PASSED, (), "savepoint-s1", {WORDS: 2})
    assert done.size > 0
    # On files of this host the records lie below the same root.
    assert {name: file for name, file in content(words.config).items() if "/drills/" not in name} == before
    assert list((words.config.home_path / PROOFS).iterdir()) == []
    assert active(words.coordinator, words.paths, "savepoint-s1", SystemClock()) == []
    assert DrillStore(context.store, context.keys).list() == ([done], [])


def test_a_savepoint_with_a_changed_byte_fails_by_its_digest(words: Job, context: JobContext) -> None:
    files, name = files_of(words.config), f"{words.keys.savepoint('s1')}/{WORDS}/metadata"
    files.write(name, files.read(name).replace(b"9b2d", b"9b2e"))

    done = drill(context, ask())

    assert done.verdict is DrillVerdict.FAILED
    assert done.reasons == (f"{WORDS}/metadata: its digest is not the one in the manifest",)


def test_a_checkpoint_in_the_directory_of_an_epoch_is_drilled(words: Job, context: JobContext) -> None:
    made = words.checkpoint(1, 2, pin=False)
    part = made.queries.popitem()[1]
    words.checkpoints.add(words.leadership, made.model_copy(update={"directory": SECOND, "queries": {WORDS: part}}))

    done = drill(context, ask(start_from="latest"))

    assert (done.verdict, done.source, done.cut) == (DrillVerdict.PASSED, "checkpoint-1", {WORDS: 2})


def test_the_command_drills_and_lists(words: Job, spark_ha: Any) -> None:
    drilled = spark_ha("drill", "run", words.paths.job_id, "--load-only")
    listed = spark_ha("drill", "list", words.paths.job_id)

    assert (drilled[0], listed[0]) == (0, 0)
    assert "savepoint-s1" in listed[1]


@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("start_from", ["savepoint", pytest.param("latest", marks=pytest.mark.hours)])
def test_spark_goes_on_from_what_lies_in_the_store(
    stats: Job, context: JobContext, tmp_path: Path, start_from: str
) -> None:
    before = content(stats.config)

    done = drill(context, ask(STARTED, start_from=start_from))

    assert (done.verdict, done.reasons) == (DrillVerdict.PASSED, ())
    query = done.queries[QUERY]
    assert (query.batch, query.loaded, query.started) == (BATCH, "proven", "proven")
    assert query.state_rows == OPEN_WINDOWS * KEYS
    assert not (tmp_path / "out").exists()
    assert {name: file for name, file in content(stats.config).items() if "/drills/" not in name} == before


YES = 0

# What is not made again: who led, how it stood, and why processes ended.
NOT_REBUILT = {"leader", "heartbeat", "status", "exit", "epoch"}


@pytest.fixture
def driver(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Driver:
    """The second driver of a run, after a takeover: checkpoint 1 in the directory of the first, 2 to 4 in its own."""
    context = job(config, coordinator, "flights")
    first = drive(context, submit(context, tmp_path))
    first.checkpoint(1)
    first.leadership.release()
    context.area.fence(first.key)
    second = drive(context, first.run)
    for batch in (2, 3, 4):
        second.checkpoint(batch)
    second.savepoint("before-upgrade")
    return second


def plan(config: HaConfig, coordinator: Coordinator) -> RebuildPlan:
    return plan_rebuild(config, open_store(config), coordinator)


def rebuilt_content(config: HaConfig, coordinator: Coordinator) -> dict[str, bytes]:
    """Return path -> bytes of what a rebuild promises to restore."""
    tree = read_tree(coordinator, ClusterPaths(config.root, config.cluster_id).base)
    found = {node.path: coordinator.get(node.path).data for node in walk(tree)} if tree else {}
    return {path: data for path, data in found.items() if path.rpartition("/")[2] not in NOT_REBUILT}


def wipe(config: HaConfig, coordinator: Coordinator) -> None:
    """Remove every node of the cluster."""
    tree = read_tree(coordinator, ClusterPaths(config.root, config.cluster_id).base)
    for node in reversed(list(walk(tree)) if tree else []):
        coordinator.commit(Delete(node.path))


def test_the_tree_comes_back_by_the_command(
    config: HaConfig, coordinator: Coordinator, driver: Driver, spark_ha: Any
) -> None:
    expected, epoch = rebuilt_content(config, coordinator), driver.leadership.epoch
    wipe(config, coordinator)

    code, out, _ = spark_ha("cluster", "rebuild", "--yes", "--json")

    (found,) = json.loads(out)["jobs"]
    assert (code, found["problems"]) == (YES, [])
    assert rebuilt_content(config, coordinator) == expected
    snapshot = job(config, coordinator, "flights").snapshot()
    assert (snapshot.state, snapshot.checkpoint_numbers) == (JobState.LOST, (1, 2, 3, 4))
    assert snapshot.epoch > epoch


def test_a_checkpoint_whose_batch_was_collected_is_none_any_more(
    config: HaConfig, coordinator: Coordinator, driver: Driver
) -> None:
    """Its payload stays for exact replay, and its directory for the checkpoints after it."""
    for log in ("offsets", "commits"):
        for batch in (1, 2):
            files_of(config).delete(f"{driver.key}/counts/{log}/{batch}")

    (found,) = plan(config, coordinator).jobs

    assert (found.checkpoints, found.problems) == ((1, 4), ())  # 3 needs the boundaries of batch 2
    assert found.counter == 4


def test_a_savepoint_that_lacks_a_file_is_named_and_hides_nothing(
    config: HaConfig, coordinator: Coordinator, driver: Driver
) -> None:
    files_of(config).delete(f"{driver.context.keys.savepoint('before-upgrade')}/manifest.json")
    files_of(config).write(f"{driver.context.keys.savepoint('before-upgrade')}/counts/metadata", b"left")

    (found,) = plan(config, coordinator).jobs

    assert (found.savepoints, found.checkpoints) == ((), (1, 2, 3, 4))
    assert "before-upgrade" in found.problems[0]


def test_a_directory_of_an_earlier_epoch_that_is_gone_takes_only_its_checkpoints(
    config: HaConfig, coordinator: Coordinator, driver: Driver
) -> None:
    files, first = files_of(config), f"{driver.context.keys.live}e1-"
    for file in list(files.list(driver.context.keys.live)):
        if file.key.startswith(first):
            files.delete(file.key)

    (found,) = plan(config, coordinator).jobs

    assert found.checkpoints == (2, 3, 4)


def test_a_store_that_does_not_answer_is_not_an_empty_cluster(
    config: HaConfig, coordinator: Coordinator, driver: Driver
) -> None:
    driver.leadership.release()
    nowhere: dict[str, Any] = {"work_root": "s3://no-such-bucket/work"}
    if config.hdfs is not None:
        nowhere = {"hdfs": config.hdfs.model_copy(update={"namenodes": ("http://127.0.0.1:9",)})}
    elif config.s3 is None:
        pytest.skip("a directory of this host that is not there: tests/integration/test_rebuild.py")

    with pytest.raises(StorageUnavailableError):
        plan(config.model_copy(update=nowhere), coordinator)
