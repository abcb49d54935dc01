"""Stop a job so that it can be continued."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.api.documents.operation import StopResultView
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.model import JobState, Operation
from airflow_provider_ha.operators._base import airflow_errors, as_flag, because, read_log
from airflow_provider_ha.operators._operation import SparkHaOperationOperator, left_behind
from airflow_provider_ha.operators._parameters import check_given, flag, one_of


if TYPE_CHECKING:
    from airflow_provider_ha.api.job_client import JobClient


__all__ = ["SparkHaStopOperator"]


STOP_MODES = ("suspend", "terminate")


class SparkHaStopOperator(SparkHaOperationOperator):
    """Stop a job with a sharp checkpoint: between two batches, so that a restart reads no input twice.

    Succeeds once the run is FINISHED, not before. Returns ``job_id``, ``run``, ``operation_id``, ``checkpoint`` and,
    when requested, ``savepoint_id`` and ``path``. An error after the checkpoint names it, because the job can be
    restored from there.

    A job that has lost its driver ends immediately, with its newest retained checkpoint as the result. A job that loses
    its driver during the wait ends the same way if it is not recovered within 30 s. A drain, a savepoint, and a run
    without a checkpoint need a driver: the task then waits for the next driver, and its log names the command that
    starts one.

    Tasks and people who stop one job at the same time all get their answer from the end of its run: the result if it
    fits their request, else an error that names the operation that ended the run.

    :param job_id: Stable id of the job.
    :param mode: ``"suspend"`` to continue later; ``"terminate"`` to drain first: the watermark moves to its maximum and
        every open window is emitted.
    :param savepoint: Take a savepoint in addition to the checkpoint.
    :param wait_timeout: Longest wait for the result; ``None`` for no limit. The operation stays requested after a
        timeout.
    :param force: Act even though the job belongs to another DAG (``job_owner`` of the operator that submitted it).
    :param retries: Retries when the DAG sets none. Only a task that Airflow lost, or an outage, uses them. A FAILED
        operation is requested again only by a clear, or by retries that the DAG sets.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    """

    template_fields: Sequence[str] = (*SparkHaOperationOperator.template_fields, "mode", "savepoint")
    result = StopResultView
    until_ended = True

    def __init__(self, *, mode: str = "suspend", savepoint: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mode = mode
        self.savepoint = savepoint
        check_given(self, mode=one_of("mode", STOP_MODES), savepoint=flag("savepoint"))

    def execute(self, context: Any) -> dict[str, Any]:
        """Check the mode, request the stop, then defer until the run is FINISHED."""
        with airflow_errors():
            if self.mode not in STOP_MODES:
                raise ConfigurationError(f"stop mode {self.mode!r} is unknown", next_step=f"Choose from {STOP_MODES}")
        return super().execute(context)

    def ask(self, job: JobClient, operation_id: str, requested_by: str) -> Operation:
        """Request the stop."""
        return job.request_stop(
            operation_id=operation_id,
            requested_by=requested_by,
            mode=self.mode,
            savepoint=as_flag(self.savepoint),
        )

    def check_end(self, operation: Operation, event: dict[str, Any]) -> None:
        """Succeed only when the run is FINISHED."""
        if event.get("state") != JobState.FINISHED.value:
            raise self.failure(
                f"job {self.job_id!r} received a stop request, but run {operation.run} ended {event.get('state')}: "
                f"{because(event.get('run_reason'))}{left_behind(operation)} {read_log(self.job_id, operation.run)}"
            )
