"""Take a checkpoint while the job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ha.api.documents.operation import CheckpointResultView
from airflow_provider_ha.operators._operation import SparkHaOperationOperator


if TYPE_CHECKING:
    from airflow_provider_ha.api.job_client import JobClient
    from airflow_provider_ha.jobs.model import Operation


__all__ = ["SparkHaCheckpointOperator"]


class SparkHaCheckpointOperator(SparkHaOperationOperator):
    """Take a checkpoint of a running job now, without waiting for its ``checkpoint_interval``.

    It counts as a periodic checkpoint, so newer ones replace it; use ``SparkHaSavepointOperator`` for a permanent copy.
    Returns ``job_id``, ``run``, ``operation_id``, ``checkpoint``, ``path``, ``cut`` and ``new``. Without a batch since
    the newest checkpoint, that checkpoint is returned with ``new`` false.

    A job that has lost its driver takes the checkpoint after its recovery.

    :param job_id: Stable id of the job.
    :param wait_timeout: Longest wait for the result; ``None`` for no limit. The operation stays requested after a
        timeout.
    :param force: Act even though the job belongs to another DAG (``job_owner`` of the operator that submitted it).
    :param retries: Retries when the DAG sets none. Only a task that Airflow lost, or an outage, uses them. A FAILED
        operation is requested again only by a clear, or by retries that the DAG sets.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    """

    result = CheckpointResultView

    def ask(self, job: JobClient, operation_id: str, requested_by: str) -> Operation:
        """Request the checkpoint."""
        return job.request_checkpoint(operation_id=operation_id, requested_by=requested_by)
