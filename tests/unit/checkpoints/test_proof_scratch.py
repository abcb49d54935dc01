"""The copy that Spark gets: where it is made, that it is removed, and that the checkpoint is only read."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.proof_copy import PREFIX, _remove_dead, check_space, copy_closure, scratch
from airflow_provider_ha.errors import ConfigurationError, StorageUnavailableError
from tests.support.checkpoints.portable_helpers import QUERY, all_names, checkpoint


def old(path: Path) -> Path:
    """Make a directory that looks as if its maker had made it long ago."""
    path.mkdir()
    (path / "copy").mkdir()
    os.utime(path, (time.time() - 3600,) * 2)
    return path


def open_files() -> int:
    """Return how many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_the_copy_has_a_hidden_name_next_to_the_checkpoint_and_is_removed(tmp_path: Path) -> None:
    checkpoint = tmp_path / "counts"
    checkpoint.mkdir()
    with scratch(checkpoint, None) as place:
        (place / "file").touch()
        assert place.parent == tmp_path
        assert place.name.startswith(".")
        assert place.stat().st_mode & 0o777 == 0o700

    assert list(tmp_path.iterdir()) == [checkpoint]


def test_it_is_gone_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), scratch(tmp_path / "counts", tmp_path):
        raise KeyboardInterrupt

    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_proof_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left = old(tmp_path / f"{PREFIX}dead")
    with scratch(tmp_path / "counts", tmp_path):
        assert not left.exists()


def test_removing_what_a_killed_proof_left_keeps_no_file_open(tmp_path: Path) -> None:
    """An open directory would hold its lock for as long as this process lives."""
    for number in range(3):
        old(tmp_path / f"{PREFIX}dead-{number}")
    before = open_files()

    _remove_dead(tmp_path)

    assert open_files() == before


def test_what_a_live_proof_holds_is_left_alone(tmp_path: Path) -> None:
    held = old(tmp_path / f"{PREFIX}alive")
    descriptor = os.open(held, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with scratch(tmp_path / "counts", tmp_path):
        assert held.exists()
    os.close(descriptor)


def test_one_that_is_just_being_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}born").mkdir()
    with scratch(tmp_path / "counts", tmp_path):
        assert (tmp_path / f"{PREFIX}born").exists()


def test_a_link_is_no_remains(tmp_path: Path) -> None:
    target = old(tmp_path / "target")
    (tmp_path / f"{PREFIX}link").symlink_to(target)
    os.utime(tmp_path / f"{PREFIX}link", (time.time() - 3600,) * 2, follow_symlinks=False)
    with scratch(tmp_path / "counts", tmp_path):
        assert (target / "copy").exists()


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not a directory"), scratch(tmp_path, tmp_path / "missing"):
        pass


def test_a_copy_that_could_fill_the_disk_is_refused(tmp_path: Path) -> None:
    check_space(tmp_path, 1)
    with pytest.raises(StorageUnavailableError, match="--scratch"):
        check_space(tmp_path, shutil.disk_usage(tmp_path).free // 2)


def test_whoever_writes_to_the_copy_does_not_write_to_the_checkpoint(tmp_path: Path) -> None:
    live = checkpoint(tmp_path / QUERY)
    names = all_names(live)
    before = {name: (live / name).read_bytes() for name in names if (live / name).is_file()}

    copy_closure(LocalTree(live), 2, tmp_path / "copy")
    for path in (tmp_path / "copy").rglob("*"):
        if path.is_file():
            path.write_text("written in place")

    assert (tmp_path / "copy" / "offsets" / "2").read_text() == "written in place"
    assert all_names(live) == names
    assert {name: (live / name).read_bytes() for name in before} == before
