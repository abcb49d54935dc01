"""Which blobs are garbage, and when nothing may be deleted: on files and S3, on the fake ensemble and a real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointKind, CheckpointPointer, Savepoint
from airflow_provider_ha.checkpoints.store.orphaned_blobs import OrphanedBlobs, delete_orphans, find_orphans
from airflow_provider_ha.checkpoints.store.payload_history import PayloadHistory
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import StorageError, StorageUnavailableError
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, GraphPointer, JobGraph
from airflow_provider_ha.jobs.model import StartKind, StartPoint
from airflow_provider_ha.jobs.runs.journal import JobJournal
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.coordination_helpers import job_paths
from tests.support.clusters.jobs_helpers import NOON, a_run, a_submission
from tests.support.clusters.pointer_helpers import Failing
from tests.support.s3.s3_server import s3_store


BACKENDS = ("fake", "zookeeper")


@dataclass
class Later:
    """A clock that is ahead, so that a blob of this test is old."""

    hours: float = 25.0

    def lease_time(self) -> float:
        return 0.0

    def now(self) -> datetime:
        return datetime.now(timezone.utc) + timedelta(hours=self.hours)


@dataclass
class House:
    """A cluster in which each graph is named by one kind of record alone, and each file by one graph."""

    coordinator: Coordinator
    cluster: ClusterPaths
    store: ObjectStore
    work_path: Path

    @property
    def job(self) -> JobPaths:
        return self.cluster.job("flights")

    @property
    def keys(self) -> JobKeys:
        return JobKeys("flights")

    @property
    def manifest(self) -> Path:
        return self.work_path / self.keys.savepoint("s1") / "manifest.json"

    def scan(self, *, hours: float = 25.0, store: Any = None) -> OrphanedBlobs:
        return find_orphans(
            self.coordinator, self.cluster, store or self.store, LinkedWorkArea(self.work_path), clock=Later(hours)
        )

    def garbage(self) -> set[str]:
        return {info.key.rpartition("/")[2] for info in self.scan().garbage}

    def blob(self, content: str) -> Blob:
        sha256, size = put_blob(self.store, content.encode())
        return Blob(sha256=sha256, size=size)

    def graph(self, name: str) -> tuple[Blob, set[str]]:
        """Upload a graph and its one file; returns the graph and the digests of both."""
        file = self.blob(f"file of {name}")
        graph = JobGraph(job_id="flights", name=name, application=Artifact(name="app.py", blob=file))
        sha256, size = put_blob(self.store, graph.to_bytes())
        return Blob(sha256=sha256, size=size), {sha256, file.sha256}


def checkpoint(graph: str) -> Checkpoint:
    return Checkpoint(
        job_id="flights",
        number=1,
        run=1,
        epoch=1,
        reason=CheckpointKind.PERIODIC,
        created_at=NOON,
        queries={},
        directory="live",
        pin=None,
        graph=graph,
        spark_version="4.2.0",
    )


def savepoint(graph: str) -> Savepoint:
    return Savepoint(
        savepoint_id="s1",
        job_id="flights",
        run=1,
        epoch=1,
        created_at=NOON,
        queries={},
        files={},
        graph=graph,
        spark_version="4.2.0",
    )


@pytest.fixture
def house(
    backend: str, config: HaConfig, coordinator: Coordinator, request: pytest.FixtureRequest, tmp_path: Path
) -> House:
    """An empty one, with the job's nodes."""
    store: ObjectStore = LocalStore(tmp_path / "root" / "cluster")
    if backend == "fake":
        store = s3_store(request.getfixturevalue("moto"))
    paths = job_paths(config)
    coordinator.ensure(*paths.skeleton)
    work_path = tmp_path / "work"
    work_path.mkdir()
    store.write("probe/x", b"")
    return House(coordinator, paths.cluster, store, work_path)


def named_by_run(house: House) -> tuple[set[str], Callable[[], object]]:
    graph, digests = house.graph("run")
    run = a_run().model_copy(update={"graph": graph})
    house.coordinator.commit(Create(house.job.run(1), run.to_bytes()))
    return digests, lambda: house.coordinator.commit(Delete(house.job.run(1)))


def named_by_plan(house: House) -> tuple[set[str], Callable[[], object]]:
    plan = house.blob("a restore plan")
    graph, digests = house.graph("restored")
    start = StartPoint(kind=StartKind.CHECKPOINT, plan=plan)
    run = a_run(2).model_copy(update={"graph": graph, "start": start})
    house.coordinator.commit(Create(house.job.run(2), run.to_bytes()))
    return digests | {plan.sha256}, lambda: house.coordinator.commit(Delete(house.job.run(2)))


def named_by_pointer(house: House) -> tuple[set[str], Callable[[], object]]:
    graph, digests = house.graph("pointer")
    house.coordinator.commit(Create(house.job.job_graph, GraphPointer(graph=graph, run=1).to_bytes()))
    return digests, lambda: house.coordinator.commit(Delete(house.job.job_graph))


def named_by_payload(house: House) -> tuple[set[str], Callable[[], object]]:
    graph, digests = house.graph("payload")
    key = house.keys.payload(1, 1)
    house.store.create(key, checkpoint(graph.sha256).to_bytes())
    return digests, lambda: house.store.delete(key)


def named_by_archive(house: House) -> tuple[set[str], Callable[[], object]]:
    graph, digests = house.graph("archive")
    history = PayloadHistory(house.store, house.keys)
    name = history.archive([checkpoint(graph.sha256)])
    return digests, lambda: history.drop(name)


def named_by_manifest(house: House) -> tuple[set[str], Callable[[], object]]:
    graph, digests = house.graph("manifest")
    house.manifest.parent.mkdir(parents=True)
    house.manifest.write_bytes(savepoint(graph.sha256).to_bytes())

    def remove() -> None:
        house.manifest.unlink()
        house.manifest.parent.rmdir()

    return digests, remove


def named_by_journal(house: House) -> tuple[set[str], Callable[[], object]]:
    graph, digests = house.graph("journal")
    run = a_run(3).model_copy(update={"graph": graph})
    JobJournal(house.store, house.keys).submission(run, a_submission())
    (entry,) = house.store.list(house.keys.journals)
    return digests, lambda: house.store.delete(entry.key)


NAMING = [
    named_by_run,
    named_by_plan,
    named_by_pointer,
    named_by_payload,
    named_by_archive,
    named_by_manifest,
    named_by_journal,
]


def test_only_unreferenced_blobs_are_garbage(house: House) -> None:
    """Fails when one kind of record is not read, or a graph is not followed to its files."""
    named = set().union(*(name(house)[0] for name in NAMING))
    orphan = house.blob("of a submission that never came to its run")

    found = house.scan()

    assert [info.key for info in found.garbage] == [keys.blob(orphan.sha256)]
    assert (found.blobs, found.named, found.young, found.problems) == (len(named) + 1, len(named), 0, ())


@pytest.mark.parametrize("name", NAMING)
def test_a_blob_becomes_garbage_when_its_last_name_goes(house: House, name: Callable[..., Any]) -> None:
    digests, forget = name(house)
    assert house.garbage() == set()

    forget()

    assert house.garbage() == digests


def test_what_is_younger_than_a_day_is_left_alone(house: House) -> None:
    """Its run may be about to be made. Fails without the age."""
    house.blob("just uploaded")

    found = house.scan(hours=23.0)

    assert (found.garbage, found.young) == ((), 1)


def test_deletion_takes_the_garbage_and_nothing_else(house: House) -> None:
    named, _ = named_by_run(house)
    house.blob("orphan")

    deleted = delete_orphans(house.store, house.scan())

    assert len(deleted) == 1
    assert {info.key for info in house.store.list(keys.BLOBS)} == {keys.blob(digest) for digest in named}


def test_what_an_upload_has_renewed_since_the_scan_stays(house: House) -> None:
    """The upload found its blob and will name it. Fails without the second look at its time."""
    orphan = keys.blob(house.blob("orphan").sha256)
    found = house.scan()

    def renewed() -> bool:  # S3 counts whole seconds
        house.store.touch(orphan)
        now = house.store.info(orphan)
        return now is not None and now.modified != found.garbage[0].modified

    wait_until(renewed, timeout=5, what="a newer time")

    assert delete_orphans(house.store, found) == []
    assert house.store.info(orphan) is not None


def garbled_run(house: House) -> None:
    house.coordinator.commit(SetData(house.job.run(1), b"garbage"))


def changed_run(house: House) -> None:
    data = house.coordinator.get(house.job.run(1)).data
    house.coordinator.commit(SetData(house.job.run(1), data.replace(b"request-1", b"request-2")))


def garbled_payload(house: House) -> None:
    house.store.write(house.keys.payload(1, 1), b"{}")


def garbled_manifest(house: House) -> None:
    house.manifest.parent.mkdir(parents=True)
    house.manifest.write_bytes(b"{")


def no_manifest(house: House) -> None:
    house.manifest.parent.mkdir(parents=True)


def garbled_journal(house: House) -> None:
    house.store.write(house.keys.journal("submission", "1"), b"x")


def graph_gone(house: House) -> None:
    graph, _ = house.graph("gone")
    run = a_run(2).model_copy(update={"graph": graph})
    house.coordinator.commit(Create(house.job.run(2), run.to_bytes()))
    house.store.delete(keys.blob(graph.sha256))


def graph_damaged(house: House) -> None:
    graph, _ = house.graph("damaged")
    run = a_run(2).model_copy(update={"graph": graph})
    house.coordinator.commit(Create(house.job.run(2), run.to_bytes()))
    house.store.write(keys.blob(graph.sha256), b"{}")


def graph_that_is_none(house: House) -> None:
    run = a_run(2).model_copy(update={"graph": house.blob("not a graph")})
    house.coordinator.commit(Create(house.job.run(2), run.to_bytes()))


def payload_gone(house: House) -> None:
    pointer = CheckpointPointer(
        number=1,
        epoch=1,
        run=1,
        reason=CheckpointKind.PERIODIC,
        payload=house.keys.payload(1, 1),
        sha256="0" * 64,
        size=1,
        cut={},
        created_at=NOON,
    )
    house.coordinator.commit(Create(house.job.checkpoint(1), pointer.to_bytes()))


def unknown_job(house: House) -> None:
    (house.work_path / "jobs" / "forgotten").mkdir(parents=True)


def quarantine(house: House) -> None:
    house.coordinator.ensure(house.cluster.quarantine)
    house.coordinator.commit(Create(house.cluster.quarantined("flights"), b"garbage"))


UNREADABLE = [
    garbled_run,
    changed_run,
    garbled_payload,
    garbled_manifest,
    no_manifest,
    garbled_journal,
    graph_gone,
    graph_damaged,
    graph_that_is_none,
    payload_gone,
    unknown_job,
    quarantine,
]


@pytest.mark.parametrize("spoil", UNREADABLE)
def test_one_thing_that_cannot_be_read_stops_every_deletion(house: House, spoil: Callable[[House], None]) -> None:
    """[contract 6] It might have named the orphan. Fails when it is skipped."""
    named_by_run(house)
    orphan = house.blob("orphan")
    assert house.scan().problems == ()
    spoil(house)

    found = house.scan()

    assert len(found.problems) == 1
    with pytest.raises(StorageError, match="no blob is deleted"):
        delete_orphans(house.store, found)
    assert house.store.info(keys.blob(orphan.sha256)) is not None


def test_a_lost_tree_is_distinguished_from_a_tree_without_references(house: House, config: HaConfig) -> None:
    """Fails when an empty ZooKeeper is believed: every graph would be garbage."""
    named_by_run(house)
    lost = ClusterPaths(config.root, f"{config.cluster_id}-lost")

    found = find_orphans(house.coordinator, lost, house.store, LinkedWorkArea(house.work_path), clock=Later())

    assert "rebuild" in found.problems[0].reason


@pytest.mark.parametrize("call", ["read", "list"])
def test_storage_that_does_not_answer_is_an_error_and_no_answer(house: House, call: str) -> None:
    named_by_run(house)
    named_by_payload(house)

    with pytest.raises(StorageUnavailableError):
        house.scan(store=Failing(house.store, call))


def test_savepoints_that_are_not_mounted_are_an_error_and_no_answer(house: House) -> None:
    """Fails when a work path that is away looks like one without savepoints."""
    house.work_path.rmdir()

    with pytest.raises(StorageUnavailableError, match="Mount"):
        house.scan()


def test_a_restore_that_passes_the_name_on_while_it_is_scanned_loses_nothing(house: House) -> None:
    """A new run names the blob, then the checkpoint goes. Fails when ZooKeeper is read before storage."""
    graph, digests = house.graph("handed on")
    key = house.keys.payload(1, 1)
    house.store.create(key, checkpoint(graph.sha256).to_bytes())

    class Interrupted:
        done = False

        def list(self, prefix: str) -> object:
            if prefix == house.keys.payloads and not self.done:
                self.done = True
                run = a_run().model_copy(update={"graph": graph})
                house.coordinator.commit(Create(house.job.run(1), run.to_bytes()))
                house.store.delete(key)
            return house.store.list(prefix)

        def __getattr__(self, name: str) -> Any:
            return getattr(house.store, name)

    found = house.scan(store=Interrupted())

    assert (found.garbage, found.problems) == ((), ())
    assert found.named == len(digests)
