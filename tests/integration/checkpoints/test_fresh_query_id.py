"""A restore that gives a query another id changes it in its own directory, and nowhere else."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.ownership import Owner
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_restore
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import read_query_id
from tests.support.spark.recorded_job import QUERY, recorded_job


FRESH = "0c0ffee0-0000-4000-8000-000000000001"


def test_the_pin_keeps_its_id(tmp_path: Path) -> None:
    source, target = tmp_path / "pin", tmp_path / "e2"
    pin(recorded_job() / "live", source, {QUERY: 9})
    before = read_query_id(LocalTree(source / QUERY))
    sink = QuerySink(kind=SinkKind.OTHER, format="delta", table="/table")
    plan = RestorePlan(
        job_id="job",
        source_job="job",
        source="checkpoint",
        source_id="1",
        directory="pin",
        verdict=Verdict.SAFE,
        queries={QUERY: QueryPlan(batch=9, sink=sink, query_id=FRESH)},
        age_seconds=0,
        created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        owner=Owner.JOB,  # so that the fork shares inodes with the pin
    )

    assert prepare_restore(LinkedWorkArea(tmp_path), source.name, plan, target.name) == {QUERY: 9}

    assert read_query_id(LocalTree(target / QUERY)) == FRESH
    assert read_query_id(LocalTree(source / QUERY)) == before != FRESH
    assert list((target / QUERY).glob(".metadata.crc")) == []
