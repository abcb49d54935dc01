"""ZooKeeper loses its data, and the tree of a cluster whose jobs work in a store is made again from the store alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.fleet.znode_tree import read_tree, walk
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.rebuild.rebuild import RebuildPlan, plan_rebuild
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.checkpoints.recorded_in_store import files_of
from tests.support.clusters.rebuild_helpers import Driver, drive, job, submit


pytestmark = pytest.mark.timeout(300)
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


def content(config: HaConfig, coordinator: Coordinator) -> dict[str, bytes]:
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
    expected, epoch = content(config, coordinator), driver.leadership.epoch
    wipe(config, coordinator)

    code, out, _ = spark_ha("rebuild", "--yes", "--json")

    (found,) = json.loads(out)["jobs"]
    assert (code, found["problems"]) == (YES, [])
    assert content(config, coordinator) == expected
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
