"""What a rebuild makes of storage that changes while it is read, and of what is damaged there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.store.savepoints.manifest import write_manifest
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ObjectMissingError, RecordCorruptError
from airflow_provider_ha.jobs.rebuild import rebuild
from airflow_provider_ha.jobs.rebuild.rebuild_plan import PlannedNode
from airflow_provider_ha.jobs.rebuild.storage_evidence import _archived, find_checkpoints, find_jobs, find_savepoints
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.local_store import LocalStore
from tests.support.checkpoints.checkpoint_helpers import AT


KEYS = JobKeys("flights")


def test_jobs_are_known_by_either_root_and_other_names_are_none(tmp_path: Path) -> None:
    config = HaConfig.build(
        zookeeper="zk:1", storage_root=f"file://{tmp_path}/blobs", work_root=f"file://{tmp_path}/work"
    )
    (config.work_path / "jobs" / "by-work").mkdir(parents=True)
    (config.work_path / "jobs" / "lost+found").mkdir()
    store = LocalStore(tmp_path / "blobs")
    store.write("jobs/by-blobs/journal/1", b"")

    assert find_jobs(config, store) == ["by-blobs", "by-work"]


def test_a_payload_that_is_collected_after_the_listing_is_no_problem(tmp_path: Path) -> None:
    store, problems = LocalStore(tmp_path / "store"), list[str]()
    store.write(f"{KEYS.payloads}00000000000000000001-e1-x", b"")

    class Collected(LocalStore):
        def read(self, key: str) -> bytes:
            raise ObjectMissingError(f"object {key!r} is not there")

    found = list(find_checkpoints(Collected(tmp_path / "store"), KEYS, LinkedWorkArea(tmp_path), problems))

    assert (found, problems) == ([], [])


@pytest.mark.parametrize(
    ("error", "told"),
    [(ObjectMissingError("it is gone"), []), (RecordCorruptError("its checksum is wrong"), ["its checksum is wrong"])],
    ids=["collected since", "damaged"],
)
def test_an_archive_that_cannot_be_read_does_not_hide_the_next_one(error: Exception, told: list[str]) -> None:
    span = SimpleNamespace(first=1, first_at=AT, last=9, last_at=AT, epoch=1, run=1, graph="g")

    def head(name: Any) -> Any:
        if name.text == "first":
            raise error
        return SimpleNamespace(spans=[span], sha256="0" * 64, size=1)

    names = [SimpleNamespace(text="first"), SimpleNamespace(text="second")]
    history: Any = SimpleNamespace(archives=lambda: names, head=head)
    problems: list[str] = []

    found = [each.pointer.number for each in _archived(history, KEYS, problems)]

    assert (found, problems) == ([1, 9], told)


def savepoint(area: Path, name: str, files: dict[str, ManifestFile]) -> None:
    directory = area / KEYS.savepoint(name)
    directory.mkdir(parents=True)
    made = Savepoint(
        savepoint_id=name,
        job_id=KEYS.job_id,
        run=1,
        epoch=1,
        created_at=AT,
        queries={},
        files=files,
        graph="g",
        spark_version="4.2.0",
    )
    write_manifest(directory, made)


def test_only_whole_savepoints_get_a_pointer_and_what_is_damaged_is_named(tmp_path: Path) -> None:
    savepoint(tmp_path, "whole", {})
    savepoint(tmp_path, "damaged", {"q/offsets/0": ManifestFile(size=10, digest="0")})
    (tmp_path / KEYS.savepoints / ".copy-of-a-dead-process").mkdir()
    problems: list[str] = []

    found = [each.pointer.savepoint_id for each in find_savepoints(KEYS, LinkedWorkArea(tmp_path), problems)]

    assert found == ["whole"]
    assert len(problems) == 1
    assert problems[0].startswith("savepoint damaged: ")
    assert "q/offsets/0" in problems[0]


def test_nodes_are_made_in_portions_that_a_transaction_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "_OPS_PER_TRANSACTION", 3)
    monkeypatch.setattr(rebuild, "_BYTES_PER_TRANSACTION", 100)
    small = [PlannedNode(f"/{number}", b"", "test") for number in range(4)]
    large = PlannedNode("/large", b"x" * 99, "test")

    parts = [[node.path for node in part] for part in rebuild._parts([*small, large, small[0]])]

    assert parts == [["/0", "/1", "/2"], ["/3"], ["/large"], ["/0"]]
