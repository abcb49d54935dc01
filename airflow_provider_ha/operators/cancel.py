"""End a job immediately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.api.documents.operation import CancelResultView
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.operators._base import as_flag, because, read_log
from airflow_provider_ha.operators._operation import SparkHaOperationOperator
from airflow_provider_ha.operators._parameters import check_given, flag


if TYPE_CHECKING:
    from airflow_provider_ha.api.job_client import JobClient
    from airflow_provider_ha.jobs.model import Operation


__all__ = ["SparkHaCancelOperator"]


class SparkHaCancelOperator(SparkHaOperationOperator):
    """End a job immediately, even in the middle of a batch. Works without a live driver too.

    The latest checkpoint remains; a restore from it reads the sources again from there. Returns ``job_id``, ``run`` and
    ``operation_id``; with *savepoint* also ``savepoint_id`` and ``path``.

    :param job_id: Stable id of the job.
    :param savepoint: Take a savepoint first. If that fails, the job continues and the task fails. Both are one
        operation, which a retry finds again. A savepoint needs a driver: after a loss the task waits for the next
        driver, and its log names the command that helps.
    :param wait_timeout: Longest wait for the result; ``None`` for no limit. The operation stays requested after a
        timeout.
    :param force: Act even though the job belongs to another DAG (``job_owner`` of the operator that submitted it).
    :param retries: Retries when the DAG sets none. Only a task that Airflow lost, or an outage, uses them. A FAILED
        operation is requested again only by a clear, or by retries that the DAG sets.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    """

    template_fields: Sequence[str] = (*SparkHaOperationOperator.template_fields, "savepoint")
    result = CancelResultView
    until_ended = True

    def __init__(self, *, savepoint: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.savepoint = savepoint
        check_given(self, savepoint=flag("savepoint"))

    def ask(self, job: JobClient, operation_id: str, requested_by: str) -> Operation:
        """Request the cancellation."""
        return job.request_cancel(
            operation_id=operation_id, requested_by=requested_by, savepoint=as_flag(self.savepoint)
        )

    def check_end(self, operation: Operation, event: dict[str, Any]) -> None:
        """Succeed only when the run is CANCELED."""
        if event.get("state") != JobState.CANCELED.value:
            raise self.failure(
                f"job {self.job_id!r} received a cancel request, but run {operation.run} ended {event.get('state')}: "
                f"{because(event.get('run_reason'))} {read_log(self.job_id, operation.run)}"
            )
