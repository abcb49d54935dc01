"""The publisher of a driver's checkpoints, without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.plan_model import RestorePlan
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.checkpointing.publisher import Provenance, Publisher
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.storage.keys import JobKeys
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.coordination_helpers import JOB
from tests.support.spark.recorded_job import QUERY


LIVE = JobKeys(JOB).working_directory(1, "a")


def publisher_of(job: Job, live: Path, plan: RestorePlan | None = None) -> Publisher:
    registry = QueryRegistry(SystemClock())
    sink = SinkSpec(SinkKind.FOREACH_BATCH, "foreachBatch")
    registry.add(StartedQuery(QUERY, SimpleNamespace(), sink, LocalTree(live / QUERY)))
    registry.script_waits()
    return Publisher(
        store=job.checkpoints,
        leadership=job.leadership,
        registry=registry,
        origin=Origin(OriginKind.RESTORE if plan else OriginKind.FRESH, LIVE, LocalTree(live), plan=plan),
        provenance=Provenance(JOB, 1, "g", "4.2.0"),
        options=HaOptions(checkpoint_interval=0.0, retained_checkpoints=1),
        area=LinkedWorkArea(job.config.work_path),
        clock=SystemClock(),
    )
