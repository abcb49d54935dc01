"""Directories of hard links.

The fence: a rename that a zombie cannot undo.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import fence_directory, resolve
from airflow_provider_ha.checkpoints.spark.atomic import flush_tree, linked
from airflow_provider_ha.errors import CheckpointMissingError


def test_a_link_makes_the_directory_that_it_lies_in(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert linked(tmp_path / "file", tmp_path / "a" / "b" / "file")
    assert (tmp_path / "a" / "b" / "file").samefile(tmp_path / "file")


def test_a_source_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        linked(tmp_path / "file", tmp_path / "a" / "file")


def test_every_directory_of_a_tree_is_flushed_its_root_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        (tmp_path / "root" / str(number) / "inner").mkdir(parents=True)
    flushed: list[Path] = []
    real = os.fsync

    def noting(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    flush_tree(tmp_path / "root")
    assert sorted(flushed) == sorted([tmp_path / "root", *(tmp_path / "root").rglob("*")])
    assert flushed[-1] == tmp_path / "root"


def test_a_fenced_directory_is_found_again_although_a_zombie_recreates_it(tmp_path: Path) -> None:
    root = tmp_path / "e1-x"
    (root / "stats").mkdir(parents=True)

    fenced = fence_directory(root)
    (root / "stats" / "state").mkdir(parents=True)

    assert fenced == fence_directory(root) == resolve(root) == tmp_path / "e1-x.dead"
    assert [item.name for item in (fenced / "stats").iterdir()] == []


def test_a_directory_that_nobody_has_fenced_is_itself(tmp_path: Path) -> None:
    (tmp_path / "e1-x").mkdir()

    assert resolve(tmp_path / "e1-x") == tmp_path / "e1-x"


def test_a_directory_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointMissingError, match="e1-x is not there"):
        fence_directory(tmp_path / "e1-x")
