"""Facets and datasets of OpenLineage's events. Imported only if the OpenLineage provider is installed.

The provider overwrites the standard facet ``jobType`` of all tasks with ``BATCH``, so a facet of this package holds the
type of the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.openlineage.extractors import OperatorLineage
from attrs import define, field
from openlineage.client.event_v2 import Dataset
from openlineage.client.facet_v2 import JobFacet, RunFacet

from airflow_provider_ha._version import __version__


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.run_lineage import RunLineage


_REPOSITORY = "airflow-provider-ha/airflow-provider-ha"
PRODUCER = f"https://github.com/{_REPOSITORY}/tree/v{__version__}"
SCHEMAS = f"https://raw.githubusercontent.com/{_REPOSITORY}/main/docs/reference/openlineage/1-0-0"
RUN_FACET, JOB_FACET = "sparkHa_run", "sparkHa_job"


@define
class SparkHaRunFacet(RunFacet):
    """Run of the job that a task has submitted, restored or follows: ``docs/reference/openlineage``."""

    jobId: str
    requestedStart: str | None = None
    requestedSourceJob: str | None = None
    cluster: str | None = None
    run: int | None = None
    attempt: int | None = None
    epoch: int | None = None
    state: str | None = None
    checkpoint: int | None = None
    start: dict[str, Any] | None = None

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMAS}/SparkHaRunFacet.json#/$defs/SparkHaRunFacet"


@define
class SparkHaJobFacet(JobFacet):
    """Job that a task works with: ``docs/reference/openlineage``."""

    jobId: str
    processingType: str = field(default="STREAMING")
    integration: str = field(default="SPARK")

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMAS}/SparkHaJobFacet.json#/$defs/SparkHaJobFacet"


def operator_lineage(job_id: str, requested: dict[str, Any], known: RunLineage | None) -> OperatorLineage[Any, Any]:
    """Return the lineage that the listener adds to the event of a task. Pure.

    :param requested: ``requestedStart`` and ``requestedSourceJob``, if the operator has them.
    :param known: Lineage of the run; ``None`` before the run exists.
    """
    facts: dict[str, Any] = {}
    if known is not None:
        start = known.start
        told = {
            "kind": start.kind.value,
            "sourceJob": start.source_job,
            "source": start.source,
            "verdict": start.verdict.value if start.verdict is not None else None,
            "batchesExecutedAgain": dict(start.executed_again) if start.source is not None else None,
        }
        facts = {
            "cluster": known.cluster,
            "run": known.run,
            "attempt": known.attempt,
            "epoch": known.epoch,
            "state": known.state.value,
            "checkpoint": known.checkpoint,
            "start": {key: value for key, value in told.items() if value is not None},
        }
    return OperatorLineage(
        inputs=[Dataset(each.namespace, each.name) for each in (known.inputs if known is not None else ())],
        outputs=[Dataset(each.namespace, each.name) for each in (known.outputs if known is not None else ())],
        run_facets={RUN_FACET: SparkHaRunFacet(jobId=job_id, **requested, **facts, producer=PRODUCER)},
        job_facets={JOB_FACET: SparkHaJobFacet(jobId=job_id, producer=PRODUCER)},
    )
