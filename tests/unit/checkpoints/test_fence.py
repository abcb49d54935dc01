"""The fence: a rename that a zombie cannot undo."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import fence_directory, resolve
from airflow_provider_ha.errors import CheckpointMissingError


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
