"""What a restore shares with what it was restored from: nothing of the user's, everything of the job's."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint, Owner
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_restore
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.checkpoints import killed_restores
from tests.support.checkpoints.portable_helpers import steps_survived
from tests.support.spark.recorded_job import QUERY, copy_live


BATCH = 9
# The cached job is made by Spark when it is not there yet.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    pin(copy_live(tmp_path / "live"), tmp_path / "savepoint", {QUERY: BATCH})
    return tmp_path / "savepoint"


def plan(owner: Owner, **values: object) -> RestorePlan:
    return RestorePlan(
        job_id="j",
        source_job="j",
        source="savepoint",
        source_id="s",
        directory="savepoint",
        verdict=Verdict.SAFE,
        queries={QUERY: QueryPlan(batch=BATCH, sink=QuerySink(kind=SinkKind.OTHER))},
        age_seconds=0,
        created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        owner=owner,
        **values,
    )


def inodes(directory: Path) -> set[int]:
    return {path.stat().st_ino for path in directory.rglob("*") if path.is_file()}


def truncate_all(directory: Path) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            os.truncate(path, 0)


def test_what_stays_the_users_can_be_truncated_in_place_under_the_run(savepoint: Path, tmp_path: Path) -> None:
    prepare_restore(LinkedWorkArea(tmp_path), savepoint.name, plan(Owner.USER), "e1")
    pin(tmp_path / "e1", tmp_path / "first-pin", {QUERY: BATCH})

    truncate_all(savepoint)

    for root in (tmp_path / "e1", tmp_path / "first-pin"):
        assert not inodes(root) & inodes(savepoint)
        assert BATCH in verify(LocalTree(root / QUERY), depth="full", spark_version="4.2.0").restorable


def test_what_is_the_jobs_comes_along_by_links(savepoint: Path, tmp_path: Path) -> None:
    prepare_restore(LinkedWorkArea(tmp_path), savepoint.name, plan(Owner.JOB), "e1")

    assert inodes(tmp_path / "e1") <= inodes(savepoint)


def test_the_batch_after_the_cut_is_planned_afresh(tmp_path: Path) -> None:
    live = copy_live(tmp_path / "live")

    prepare_restore(LinkedWorkArea(tmp_path), live.name, plan(Owner.JOB), "e1")

    assert (live / QUERY / "offsets" / str(BATCH + 1)).exists()
    assert not (tmp_path / "e1" / QUERY / "offsets" / str(BATCH + 1)).exists()


def test_what_is_adopted_is_copied_even_when_it_is_claimed(savepoint: Path, tmp_path: Path) -> None:
    """Until the fork is done it is the user's, who may go on with it when the restore fails."""
    adopted = AdoptedCheckpoint(path=str(savepoint / QUERY), query_id="q", planned=BATCH, committed=BATCH)

    prepare_restore(LinkedWorkArea(tmp_path), "nowhere", plan(Owner.JOB, adopted={QUERY: adopted}), "e1")

    assert not inodes(tmp_path / "e1") & inodes(savepoint)


@pytest.mark.parametrize(("what", "steps"), [("user", 10), ("job", 10), ("adopted", 10)])
def test_a_restore_that_is_killed_at_any_step_can_be_repeated(tmp_path: Path, what: str, steps: int) -> None:
    assert steps_survived(killed_restores.__file__, what, tmp_path) >= steps
