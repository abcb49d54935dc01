"""Which payloads in storage are checkpoints again when ZooKeeper's content is gone."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointKind
from airflow_provider_ha.checkpoints.working.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.control.rebuild.pointers import find_checkpoints
from airflow_provider_ha.storage.local import LocalStore
from tests.support.checkpoints.layered_files import FIRST, JOB, LayeredFiles


@pytest.fixture(params=["linked", "layered"])
def area(request: pytest.FixtureRequest, tmp_path: Path) -> WorkArea:
    """An empty work area."""
    root = tmp_path / "work"
    return LinkedWorkArea(root) if request.param == "linked" else LayeredFiles(root).area


def kept(tmp_path: Path, area: WorkArea) -> list[bool]:
    """Store the payload of a checkpoint that lies in its working directory; return whether it is one again."""
    made = Checkpoint(
        job_id=JOB.job_id,
        number=1,
        run=1,
        epoch=1,
        reason=CheckpointKind.PERIODIC,
        created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        queries={},
        directory=FIRST,
        pin=None,
        graph="0" * 64,
        spark_version="4.2.0",
    )
    store = LocalStore(tmp_path / "store")
    store.write(JOB.payload(1, 1), made.to_bytes())
    problems: list[str] = []
    found = [item.pinned for item in find_checkpoints(store, JOB, area, problems)]
    assert problems == []
    return found


def test_a_checkpoint_in_a_working_directory_that_is_there_is_one_again(tmp_path: Path, area: WorkArea) -> None:
    area.create(FIRST)

    assert kept(tmp_path, area) == [True]


def test_a_checkpoint_in_a_fenced_working_directory_is_one_again(tmp_path: Path, area: WorkArea) -> None:
    area.create(FIRST)
    area.fence(FIRST)

    assert kept(tmp_path, area) == [True]


def test_a_checkpoint_in_a_working_directory_that_is_over_is_none_any_more(tmp_path: Path, area: WorkArea) -> None:
    area.create(FIRST)
    area.remove(FIRST)

    assert kept(tmp_path, area) == [False]
