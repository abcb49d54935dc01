"""Reading a file of a checkpoint: what stands under its name is looked at before it is believed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark import files, object_tree
from airflow_provider_ha.checkpoints.spark.closure import checksum_files
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree
from airflow_provider_ha.errors import CheckpointCorruptError
from airflow_provider_ha.storage.object_store import ObjectInfo


def _read(directory: Path, name: str) -> bytes:
    return files.read(LocalTree(directory), name)


def _open(directory: Path, name: str) -> bytes:
    with files.opened(LocalTree(directory), name) as file:
        return file.read_at(0, file.size)


BOTH = pytest.mark.parametrize("read", [_read, _open])
Read = Callable[[Path, str], bytes]


@BOTH
def test_a_file_is_read(read: Read, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"content")
    assert read(tmp_path, "a/file") == b"content"


@BOTH
def test_a_link_is_not_followed(read: Read, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"content")
    (tmp_path / "file").symlink_to(tmp_path / "outside")
    with pytest.raises(files.NotAFileError):
        read(tmp_path, "file")


@BOTH
def test_a_directory_is_no_file(read: Read, tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(files.NotAFileError):
        read(tmp_path, "file")


@BOTH
def test_a_pipe_is_told_and_not_waited_for(read: Read, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file")
    with pytest.raises(files.NotAFileError):
        read(tmp_path, "file")


@BOTH
@pytest.mark.parametrize("name", ["file", "file/below"])
def test_what_is_not_there_is_gone(name: str, read: Read, tmp_path: Path) -> None:
    if name != "file":
        (tmp_path / "file").write_bytes(b"content")
    with pytest.raises(files.FileGoneError):
        read(tmp_path, name)


@BOTH
@pytest.mark.parametrize("name", ["/etc/hostname", "../outside", "a//b", "a/./b", "", "a\0b"])
def test_a_name_that_leads_out_is_refused(name: str, read: Read, tmp_path: Path) -> None:
    with pytest.raises(CheckpointCorruptError, match="leads out"):
        read(tmp_path / "checkpoint", name)


def test_only_files_are_checksum_files(tmp_path: Path) -> None:
    (tmp_path / "f.crc").write_bytes(b"sum")
    (tmp_path / ".f.crc").symlink_to(tmp_path / "f.crc")
    (tmp_path / ".f.crc.crc").mkdir()
    assert checksum_files(LocalTree(tmp_path), ["f"]) == {"f.crc": 3}


def sparse(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, size)


@pytest.mark.parametrize(
    ("name", "limit"), [("offsets/0", 256 << 20), ("metadata", 256 << 20), ("sources/0/9.compact", 1 << 30)]
)
def test_a_file_that_is_larger_than_spark_writes_it_is_refused_before_it_is_read(
    name: str, limit: int, tmp_path: Path
) -> None:
    sparse(tmp_path / name, 30 << 30)

    with pytest.raises(
        CheckpointCorruptError, match=f"it has 32,212,254,720 bytes, more than the limit of {limit:,} bytes"
    ) as refused:
        files.read(LocalTree(tmp_path), name)

    assert refused.value.path == name


def test_a_file_that_grows_while_it_is_read_is_bounded_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST", 40_000)
    (tmp_path / "log").write_bytes(b"x" * 100_000)
    seen = iter([100])  # what it had when it was opened
    monkeypatch.setattr(LocalTree, "_open", lambda *_: (os.open(tmp_path / "log", os.O_RDONLY), next(seen)))

    with pytest.raises(CheckpointCorruptError, match="more than the limit of 40,000 bytes"):
        files.read(LocalTree(tmp_path), "log")


def test_a_directory_with_more_names_than_a_checkpoint_needs_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "NAMES", 3)
    for name in "abcd":
        (tmp_path / name).touch()

    with pytest.raises(files.UnreadableError, match="it has more than 3 entries"):
        files.names(LocalTree(tmp_path))
    (tmp_path / "d").unlink()

    assert files.names(LocalTree(tmp_path)) == ["a", "b", "c"]


class Objects:
    """Lists sizes, and fails the test when it is asked for a byte."""

    uri = "s3://bucket"

    def __init__(self, **sizes: int) -> None:
        self._sizes = sizes

    def list(self, prefix: str, *, markers: bool = False) -> Iterator[ObjectInfo]:
        return (ObjectInfo(key, size) for key, size in self._sizes.items() if key.startswith(prefix))

    def read(self, key: str) -> bytes:
        raise AssertionError(key)

    def read_range(self, item: ObjectInfo, offset: int, length: int) -> bytes:
        raise AssertionError((item, offset, length))


def test_an_object_that_is_larger_than_spark_writes_it_is_refused_before_it_is_read() -> None:
    tree = ObjectTree(Objects(metadata=30 << 30))

    with pytest.raises(CheckpointCorruptError, match="it has 32,212,254,720 bytes"):
        files.read(tree, "metadata")


def test_a_prefix_with_more_objects_than_a_checkpoint_needs_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_tree, "NAMES", 2)

    with pytest.raises(files.UnreadableError, match="more than"):
        ObjectTree(Objects(a=1, b=1, c=1)).names()
