"""Reading a file of a checkpoint: what stands under its name is looked at before it is believed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.format import files
from airflow_provider_ha.checkpoints.format.closure import checksum_files
from airflow_provider_ha.errors import CheckpointCorruptError


def _open(directory: Path, name: str) -> bytes:
    with files.opened(directory, name) as file:
        return file.read_at(0, file.size)


BOTH = pytest.mark.parametrize("read", [files.read, _open])
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
    assert checksum_files(tmp_path, ["f"]) == {"f.crc": 3}
