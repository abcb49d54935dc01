"""Take a checkpoint while the job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ha.api.documents.task_results import CheckpointResultView
from airflow_provider_ha.operators._operation import SparkHaOperationOperator


if TYPE_CHECKING:
    from airflow_provider_ha.api.job_client import JobClient
    from airflow_provider_ha.jobs.model import Operation


__all__ = ["SparkHaCheckpointOperator"]


class SparkHaCheckpointOperator(SparkHaOperationOperator):
    """Take a checkpoint of a running job now, also before its ``checkpoint_interval`` is over.

    It counts as the periodic ones do, and goes when newer ones replace it: ``SparkHaSavepointOperator`` makes what
    stays. Returns ``job_id``, ``run``, ``operation_id``, ``checkpoint``, ``path``, ``cut`` and ``new``: false when no
    batch was committed since the newest checkpoint, which then is the answer.

    A job that has lost its driver takes it once it is recovered.

    :param job_id: Stable id of the job.
    :param wait_timeout: Longest wait for the answer; ``None`` for no limit. A timeout does not withdraw the operation.
    :param force: Act although the job belongs to another DAG (``job_owner`` of the operator that submitted it).
    :param retries: Tries after the first one when the DAG sets none; only a task that Airflow has lost, or an outage,
        uses them: what FAILED is requested again by a clear, or by retries of the DAG.
    :param retry_delay: Time between two tries; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Connection of type ``spark_ha``.
    """

    result = CheckpointResultView

    def ask(self, job: JobClient, operation_id: str, requested_by: str) -> Operation:
        """Ask for the checkpoint."""
        return job.request_checkpoint(operation_id=operation_id, requested_by=requested_by)
