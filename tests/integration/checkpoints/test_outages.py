"""File systems that are really full or read-only: each write says so in one way, and leaves nothing half made."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import fence_directory, fork
from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.areas.working_records import carry
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchLog
from airflow_provider_ha.checkpoints.spark import atomic
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress
from airflow_provider_ha.checkpoints.spark.checksums import copy_file
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.errors import ObjectExistsError, StorageUnavailableError
from airflow_provider_ha.host.supervisor.main import require_room
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.outage import OUTAGES, is_outage
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint
from tests.support.clusters.full_disk import SmallDisk, small_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", size="4m", inodes=500) as mounted:
        yield mounted


@pytest.fixture
def live(disk: SmallDisk) -> Path:
    """A working directory on the small disk."""
    return checkpoint(disk.path / "live" / QUERY).parent


def fork_elsewhere(live: Path) -> object:
    return fork(live / QUERY, live.parent / "fork" / QUERY, keep_planned=False, copy=True)


def copy_within_a_directory(live: Path) -> object:
    with atomic.building(live.parent / "copy") as hidden:
        return copy_file(live / QUERY / "metadata", hidden / "metadata")


WRITES: dict[str, Callable[[Path], object]] = {
    "pin": lambda live: pin(live, live.parent / "pin", {QUERY: 2}),
    "fork by copy": fork_elsewhere,
    "copy of a file": copy_within_a_directory,
    "file written aside": lambda live: atomic.write_aside(live / QUERY / "offsets" / "3", b"x" * 8192),
    "carried batches": lambda live: carry(LocalTree(live), LocalTree(live), {QUERY: Progress(2, 2)}, {}),
    "note of a function": lambda live: ForeachBatchLog(LocalTree(live.parent / "given")).open(1),
    "object": lambda live: LocalStore(live.parent / "store").create("a/b", b"x" * 8192),
    "room of a launch": lambda live: require_room(live),
}


def names(directory: Path) -> set[str]:
    return {
        str(path.relative_to(directory)) for path in directory.rglob("*") if not path.parts[-1].startswith(".ballast")
    }


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("exhaust", [SmallDisk.fill, SmallDisk.fill_inodes], ids=["bytes", "inodes"])
def test_full_disk_is_an_outage_for_every_write_and_works_again_once_it_is_not(
    disk: SmallDisk, live: Path, write: Callable[[Path], object], exhaust: Callable[[SmallDisk], None]
) -> None:
    if exhaust is SmallDisk.fill and write is WRITES["pin"]:
        pytest.skip("links need no bytes")
    exhaust(disk)
    disk_has = {path for path in names(live) if ".tmp" in path}

    with pytest.raises(StorageUnavailableError, match="No space left on device"):
        write(live)
    assert {path for path in names(disk.path) if ".tmp" in path} == disk_has
    disk.free()

    write(live)


def test_read_only_disk_is_an_outage_for_a_fence(disk: SmallDisk, live: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk.path)], check=True)

    with pytest.raises(StorageUnavailableError, match="Read-only file system"):
        fence_directory(live)


@pytest.mark.parametrize("number", sorted(OUTAGES - {errno.EPERM}), ids=lambda number: errno.errorcode[number])
def test_link_that_meets_an_outage_is_an_outage(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    source = tmp_path / "source"
    source.write_text("x")
    monkeypatch.setattr(os, "link", refuse)

    with pytest.raises(StorageUnavailableError) as caught:
        atomic.link(source, tmp_path / "target")

    assert os.strerror(number) in str(caught.value)
    assert caught.value.next_step


@pytest.mark.parametrize("number", sorted(atomic.NO_LINKS), ids=errno.errorcode.get)
def test_file_system_without_links_is_no_outage(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("x")
    monkeypatch.setattr(os, "link", refuse)

    atomic.link(source, target)

    assert target.read_text() == "x"


def _missing(directory: Path) -> None:
    atomic.link(directory / "nothing", directory / "target")


def _exists(directory: Path) -> None:
    (directory / "one").write_text("x")
    (directory / "two").write_text("x")
    atomic.link(directory / "one", directory / "two")


def _file_in_the_way(directory: Path) -> None:
    (directory / "file").write_text("x")
    atomic.write_aside(directory / "file" / "below", b"x")


@pytest.mark.parametrize(
    ("mistake", "raised"),
    [(_missing, FileNotFoundError), (_exists, FileExistsError), (_file_in_the_way, OSError)],
    ids=["missing", "exists", "file-in-the-way"],
)
def test_answer_or_mistake_passes_as_it_is(
    tmp_path: Path, mistake: Callable[[Path], Any], raised: type[OSError]
) -> None:
    with pytest.raises(raised) as caught:
        mistake(tmp_path)

    assert not is_outage(caught.value)


def test_directory_that_exists_is_no_outage(tmp_path: Path) -> None:
    with pytest.raises(ObjectExistsError), atomic.building(tmp_path):
        pass
