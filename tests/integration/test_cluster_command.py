"""``spark-ha delete cluster`` on a real cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete
from airflow_provider_ha.errors import HaError, StorageUnavailableError
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.cluster_removal import erase_cluster
from airflow_provider_ha.jobs.job_context import JobContext
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.whole_jobs import SAVEPOINT, files_of, whole_job


ERASE = ("delete", "cluster")


def test_everything_goes_but_savepoints_and_epochs(
    spark_ha: Any, over: JobContext, config: HaConfig, coordinator: Coordinator
) -> None:
    client = HaClient(config, coordinator)
    epoch = coordinator.get(over.paths.epoch).version

    code, out, _ = spark_ha(*ERASE, "--yes", "--json")

    assert code == 0
    assert json.loads(out) == {
        "cluster": config.cluster_id,
        "state": "deleted",
        "jobs": ["copy"],
        "runs": 1,
        "checkpoints": 2,
        "savepoints": [f"copy/{SAVEPOINT}"],
    }
    assert client.list_jobs() == []
    assert [each.savepoint_id for each in client.job("copy").savepoints.list().pointers] == [SAVEPOINT]
    assert coordinator.get(over.paths.epoch).version > epoch
    assert not any("live" in path.parts for path in files_of(over))


def test_a_second_erase_finds_nothing_and_succeeds(spark_ha: Any, over: JobContext) -> None:
    del over
    spark_ha(*ERASE, "--yes")

    code, out, _ = spark_ha(*ERASE, "--yes", "--json")

    assert (code, json.loads(out)["jobs"]) == (0, [])


@pytest.mark.parametrize("words", [("--dry-run",), (), ("--json",)])
def test_nothing_goes_without_a_confirmation(spark_ha: Any, over: JobContext, words: tuple[str, ...]) -> None:
    before = files_of(over)

    code, out, error = spark_ha(*ERASE, *words)

    assert files_of(over) == before
    if words == ("--dry-run",):
        assert code == 0
        assert "planned" in out
    else:
        assert code == 64
        assert "Add --yes" in out + error


def test_a_live_job_keeps_all_of_them(
    spark_ha: Any, over: JobContext, config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    whole_job(helpers.context(config, coordinator, job_id="alive"), helpers.script(tmp_path), over=False)
    before = files_of(over)

    code, _, error = spark_ha(*ERASE, "--yes")

    assert code == 1
    assert "'alive'" in error
    assert "spark-ha job stop alive" in error
    assert files_of(over) == before
    assert over.runs.numbers() == [1]


def test_a_cluster_whose_jobs_are_recovered_by_another_process_is_refused(
    spark_ha: Any, over: JobContext, config: HaConfig
) -> None:
    before = files_of(over)
    with HaClient.open(config) as other, ClusterLeader(other, by="recoverer", address="host-1:7") as leader:
        leader.lead(timeout=10)

        code, _, error = spark_ha(*ERASE, "--yes")

    assert code == 1
    assert "is led by host-1:7" in error
    assert files_of(over) == before


def test_a_savepoint_that_cannot_be_read_keeps_everything(over: JobContext, config: HaConfig) -> None:
    """What it needs is not known then, so what would be removed is not known either."""
    [manifest] = [path for path in files_of(over) if path.name == "manifest.json"]
    manifest.write_text("garbled")
    before = files_of(over)

    with HaClient.open(config) as client, ClusterLeader(client, by="test") as leader:
        leader.lead(timeout=10)
        with pytest.raises(HaError, match="manifest"):
            erase_cluster(client, leader.leadership, by="test")

    assert files_of(over) == before
    assert over.runs.numbers() == [1]


@pytest.mark.parametrize("words", [("--dry-run",), ("--yes",)])
def test_files_of_a_job_that_this_zookeeper_does_not_know_stay(
    over: JobContext, coordinator: Coordinator, words: tuple[str, ...], spark_ha: Any
) -> None:
    """ZooKeeper has lost its data, or is another one."""
    before = files_of(over)
    _forget(coordinator, over.paths.cluster.base)

    code, _, err = spark_ha(*ERASE, *words)

    assert code == 1
    assert "there are files of copy, and ZooKeeper does not know these jobs" in err
    assert "spark-ha cluster rebuild" in err
    assert files_of(over) == before


def test_without_the_work_root_nothing_is_erased(
    over: JobContext, config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    """It is not mounted on this host; the store is elsewhere, and is reached."""
    client = HaClient(config.model_copy(update={"work_root": f"file://{tmp_path}/not-mounted"}), coordinator)
    before = [each.key for each in client.store.list("")]

    with ClusterLeader(client, by="test") as leader:
        leader.lead(timeout=10)
        with pytest.raises(StorageUnavailableError, match="is not there"):
            erase_cluster(client, leader.leadership, by="test")

    assert [each.key for each in client.store.list("")] == before
    assert over.snapshot().run is not None


def test_a_savepoint_without_its_manifest_keeps_everything(over: JobContext, spark_ha: Any) -> None:
    manifest = over.config.work_path / over.keys.savepoints / SAVEPOINT / MANIFEST
    away = manifest.rename(manifest.with_name("away"))
    before = files_of(over)

    code, _, err = spark_ha(*ERASE, "--yes")

    assert code != 0
    assert f"savepoint {SAVEPOINT!r} of job 'copy' has no manifest" in err
    assert files_of(over) == before
    assert away.exists()


def test_the_numbers_of_checkpoints_go_on_after_an_erase(over: JobContext, spark_ha: Any) -> None:
    spark_ha(*ERASE, "--yes")

    assert set(over.coordinator.children(over.paths.base)) == {
        "job_manager_lock",
        "checkpoint_id_counter",
        "savepoints",
    }


def _forget(coordinator: Coordinator, path: str) -> None:
    for name in coordinator.children(path):
        _forget(coordinator, f"{path}/{name}")
    coordinator.commit(Delete(path))
