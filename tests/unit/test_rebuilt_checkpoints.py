"""Which payloads in storage are checkpoints again when ZooKeeper's content is gone."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointKind, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.jobs.rebuild.storage_evidence import find_checkpoints
from airflow_provider_ha.storage.local_store import LocalStore
from tests.support.checkpoints.layered_files import FIRST, JOB, LayeredFiles
from tests.support.checkpoints.portable_helpers import QUERY


@pytest.fixture(params=["linked", "layered"])
def area(request: pytest.FixtureRequest, tmp_path: Path) -> WorkArea:
    """An empty work area."""
    root = tmp_path / "work"
    return LinkedWorkArea(root) if request.param == "linked" else LayeredFiles(root).area


def kept(tmp_path: Path, area: WorkArea, queries: dict[str, QueryCut] | None = None) -> list[bool]:
    """Store the payload of a checkpoint that lies in its working directory; return whether it is one again."""
    made = Checkpoint(
        job_id=JOB.job_id,
        number=1,
        run=1,
        epoch=1,
        reason=CheckpointKind.PERIODIC,
        created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        queries=queries or {},
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


@pytest.mark.parametrize(
    ("removed", "again"),
    [
        pytest.param([], True, id="nothing"),
        pytest.param(["offsets/0"], True, id="earlier"),
        pytest.param(["offsets/1"], False, id="before"),
        pytest.param(["offsets/2"], False, id="planned"),
        pytest.param(["commits/2"], False, id="committed"),
    ],
)
def test_a_checkpoint_whose_batch_the_collector_has_removed_is_not_rebuilt(
    tmp_path: Path, removed: list[str], again: bool
) -> None:
    files = LayeredFiles(tmp_path / "work")
    files.run(FIRST)
    for name in removed:
        (files.query(FIRST) / name).unlink()
    cut = {QUERY: QueryCut(batch=2, sink=QuerySink(kind=SinkKind.FOREACH_BATCH))}

    assert kept(tmp_path, files.area, cut) == [again]


def test_a_query_without_a_commit_needs_no_file(tmp_path: Path, area: WorkArea) -> None:
    area.create(FIRST)
    cut = {QUERY: QueryCut(batch=-1, sink=QuerySink(kind=SinkKind.FOREACH_BATCH))}

    assert kept(tmp_path, area, cut) == [True]
