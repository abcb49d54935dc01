"""Let a standby driver continue a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ha.api.documents.operation import OperationResultView
from airflow_provider_ha.operators._operation import SparkHaOperationOperator


if TYPE_CHECKING:
    from airflow_provider_ha.api.job_client import JobClient
    from airflow_provider_ha.jobs.model import Operation


__all__ = ["SparkHaHandOverOperator"]


class SparkHaHandOverOperator(SparkHaOperationOperator):
    """Let a ready standby driver continue a job: the driver ends between two batches, and no batch is repeated.

    For a planned change of the process, such as a new JVM each night. Fails without an effect if no standby driver is
    ready (option ``standby_drivers``). Succeeds once the driver has ended its queries; ``SparkHaLeaderSensor`` waits
    for the next leader. Returns ``job_id``, ``run`` and ``operation_id``.

    :param job_id: Stable id of the job.
    :param wait_timeout: Longest wait for the result; ``None`` for no limit. The operation stays requested after a
        timeout.
    :param force: Act even though the job belongs to another DAG (``job_owner`` of the operator that submitted it).
    :param retries: Retries when the DAG sets none. Only a task that Airflow lost, or an outage, uses them. A FAILED
        operation is requested again only by a clear, or by retries that the DAG sets.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    """

    result = OperationResultView

    def ask(self, job: JobClient, operation_id: str, requested_by: str) -> Operation:
        """Request the hand-over."""
        return job.request_hand_over(operation_id=operation_id, requested_by=requested_by)
