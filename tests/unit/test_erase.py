"""What an erase takes for older than itself, and what it makes of processes that still write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import JobStateError, ObjectMissingError, VersionConflictError
from airflow_provider_ha.fleet import cluster_removal
from airflow_provider_ha.fleet.cluster_removal import _beginning, _erase_files, _require_no_live_run, _UserData
from airflow_provider_ha.jobs.removal.job_deletion import remove_nodes
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectInfo
from tests.conformance.stores.stage import Stage, nodes
from tests.conftest import FAST


class CoarseStore(LocalStore):
    """A file system that tells times as S3 does: in whole seconds."""

    def info(self, key: str) -> ObjectInfo | None:
        found = super().info(key)
        return None if found is None else replace(found, modified=found.modified.replace(microsecond=0))


def test_what_was_written_in_the_same_second_is_older_than_the_beginning(tmp_path: Path) -> None:
    store = CoarseStore(tmp_path / "store")
    store.write("before", b"")

    moment = _beginning(store)

    store.write("after", b"")
    before, after = store.info("before"), store.info("after")
    assert before is not None
    assert after is not None
    assert before.modified < moment <= after.modified
    assert sorted(found.key for found in store.list("")) == ["after", "before"], "no probe is left"


def test_a_storage_that_loses_what_it_took_has_no_beginning(tmp_path: Path) -> None:
    class Forgetful(LocalStore):
        def info(self, key: str) -> ObjectInfo | None:
            return None

    with pytest.raises(ObjectMissingError, match=r"erase-\w+ is missing right after its creation.*Check the storage"):
        _beginning(Forgetful(tmp_path / "store"))


def test_a_run_that_is_made_during_the_erase_stops_it() -> None:
    job: Any = SimpleNamespace(job_id="flights", runs=SimpleNamespace(live_run=lambda: 2))

    with pytest.raises(JobStateError, match=r"'flights' has a new run.*Submit nothing"):
        _require_no_live_run(job)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    storage = f"file://{tmp_path}/storage"
    return Stage(HaConfig.build(zookeeper="fake:1", storage_root=storage, cluster_id="fake", timings=FAST))


def busy(session: Any, write: Callable[[int], None]) -> Any:
    """Return the session of an erase, during whose looks another process writes."""
    looks: list[str] = []

    def children(path: str) -> list[str]:
        found: list[str] = session.children(path)
        looks.append(path)
        write(looks.count(path))
        return found

    return SimpleNamespace(children=children)


def test_nodes_that_appear_during_the_erase_are_removed_by_another_pass(stage: Stage) -> None:
    job, writer = stage.leader("erase"), stage.session("writer")
    base = job.paths.operations
    job.coordinator.ensure(f"{base}/a")

    def write(look: int) -> None:
        if look == 1 and writer.find(f"{base}/a/late") is None:
            writer.commit(Create(f"{base}/a/late"))

    remove_nodes(busy(job.coordinator, write), job.leadership, base, spared=())

    assert nodes(writer, base) == {}


def test_a_process_that_does_not_stop_writing_ends_the_erase_with_an_error(stage: Stage) -> None:
    job, writer = stage.leader("erase"), stage.session("writer")
    base, late = job.paths.operations, iter(range(10**6))
    job.coordinator.ensure(f"{base}/a")

    def write(_: int) -> None:
        writer.commit(Create(f"{base}/a/{next(late)}"))

    with pytest.raises(VersionConflictError, match=f"{base}/a has children"):
        remove_nodes(busy(job.coordinator, write), job.leadership, base, spared=())

    assert f"{base}/a" in nodes(writer, base)


def erased_client(folder: Path, area: WorkArea) -> Any:
    """Return what an erase of files needs of a client."""
    (folder / "store").mkdir()
    return SimpleNamespace(
        area=area,
        store=LocalStore(folder / "store"),
        config=SimpleNamespace(home_path=folder / "home", work_uri=(folder / "work").as_uri()),
        paths=ClusterPaths("spark-ha", "default"),
    )


def test_a_directory_that_no_job_made_stays(tmp_path: Path) -> None:
    for name in ("flights/live/e1", "lost+found/x"):
        (tmp_path / "work" / "jobs" / name).mkdir(parents=True)
    client = erased_client(tmp_path, LinkedWorkArea(tmp_path / "work"))

    _erase_files(client, _UserData(frozenset(), ()), datetime.now(timezone.utc))

    assert not (tmp_path / "work" / "jobs" / "flights" / "live").exists()
    assert (tmp_path / "work" / "jobs" / "lost+found" / "x").is_dir()


def test_a_working_directory_in_a_store_is_removed_and_not_only_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No driver comes any more whose collector would remove it."""
    files = LocalStore(tmp_path / "work", new=True)
    files.write("jobs/flights/live/e1-0123456789ab/hourly/offsets/0", b"v1")
    monkeypatch.setattr(cluster_removal, "open_files", lambda _: files)
    client = erased_client(tmp_path, LayeredWorkArea(files))

    _erase_files(client, _UserData(frozenset(), ()), datetime.now(timezone.utc))

    assert list(files.list("jobs/")) == []
