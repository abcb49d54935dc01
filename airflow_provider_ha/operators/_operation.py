"""Base of savepoint, stop and cancel: request an operation of the job's leader and wait for its result.

Invariant: a task of a DAG run leads to one operation. A retry or a clear finds it by its id. Only a FAILED or
ABANDONED operation is requested again, under the next id. That takes a clear, or retries that the DAG sets: the default
retries cover tasks that Airflow loses, and never repeat a request that the job refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.airflow_side.compat.sdk import AirflowException, AirflowFailException
from airflow_provider_ha.airflow_side.links import TaskRun, note_run, report_run
from airflow_provider_ha.api.documents.operation import OperationResultView
from airflow_provider_ha.jobs.model import Operation, OperationState
from airflow_provider_ha.operators._base import (
    RETRY_DELAY,
    WAIT_RETRIES,
    SparkHaBaseOperator,
    acting,
    as_flag,
    because,
    is_own,
    refuse_error,
    request_id,
    retry_kwargs,
    unknown_job_skips,
)
from airflow_provider_ha.operators._parameters import check_given, flag, time_limit
from airflow_provider_ha.triggers.operation import SparkHaOperationTrigger


if TYPE_CHECKING:
    from airflow_provider_ha.api.job_client import JobClient


_REPEATABLE = (OperationState.FAILED, OperationState.ABANDONED)


class SparkHaOperationOperator(SparkHaBaseOperator):
    """Base of the operators that request an operation of a running job; not for DAGs.

    :param wait_timeout: Longest wait for the result; ``None`` for no limit. The operation stays requested after a
        timeout.
    :param force: Act even though the job belongs to another DAG.
    """

    template_fields: Sequence[str] = (*SparkHaBaseOperator.template_fields, "force")
    result: type[OperationResultView]
    until_ended = False
    skip_unknown_job: bool | str = False

    def __init__(
        self,
        *,
        wait_timeout: timedelta | None = None,
        force: bool | str = False,
        retries: int | None = WAIT_RETRIES,
        retry_delay: timedelta | float = RETRY_DELAY,
        **kwargs: Any,
    ) -> None:
        super().__init__(**retry_kwargs(retries, retry_delay, WAIT_RETRIES), **kwargs)
        self.own_retries = is_own(retries, WAIT_RETRIES)
        self.wait_timeout = wait_timeout
        self.force = force
        check_given(self, force=flag("force"), wait_timeout=time_limit("wait_timeout"))

    def operation_base(self, context: Any, job: JobClient) -> str:  # noqa: ARG002  # a subclass may need the job
        """Return the prefix of the ids of the task's operations."""
        return request_id(context)

    def ask(self, job: JobClient, operation_id: str, requested_by: str) -> Operation:
        """Write the request, or find the earlier request of the same id.

        :raises JobStateError: The job has no live run.
        """
        raise NotImplementedError

    def execute(self, context: Any) -> dict[str, Any]:
        """Request the operation, then defer until it has a result; a retry or a clear may find the result already."""
        base = request_id(context)
        with self.client() as client:
            job = client.job(self.job_id, acting=acting(context, force=self.force))
            with unknown_job_skips(wanted=as_flag(self.skip_unknown_job)):
                job.snapshot()  # refuses an unknown job with a list of the known ones
            operation = self.ask(job, open_operation_id(job, self.operation_base(context, job)), base)
            report_run(self, context, client, operation.run, operation_id=operation.operation_id)
            trigger = SparkHaOperationTrigger(
                operation_id=operation.operation_id,
                run=operation.run,
                until_ended=self.until_ended,
                **self.trigger_kwargs(),
            )
            event = trigger.look(client)
        self.log.info(
            "%s of job %s is %s: operation %s of run %d",
            operation.operation.value.capitalize(),
            self.job_id,
            operation.state.value,
            operation.operation_id,
            operation.run,
        )
        if event is None:
            self.defer(trigger=trigger, method_name="execute_complete", timeout=self.wait_timeout)
        # Airflow 3.3 may fail a task that defers and resumes in the same moment, so a task with a result never defers.
        return self.execute_complete(context, event)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        """Return the operation's result, or fail with the leader's reason and every path that the operation left."""
        refuse_error(event)
        if event["status"] == "lost":
            self.log.warning("Job %s has lost its driver and was not recovered: the request is repeated", self.job_id)
            return self.execute(context)
        operation = Operation.model_validate(event["operation"])
        note_run(self, TaskRun(operation.run))
        if event["status"] != "completed":
            raise self.failure(self._sentence(operation, event["status"], event.get("reason", "")))
        self.check_end(operation, event)
        return self.result.of_operation(self.job_id, operation).to_json()

    def failure(self, sentence: str) -> AirflowException:
        """Return the error of a failed operation; it fails the task for good unless the DAG sets retries."""
        return AirflowFailException(sentence) if self.own_retries else AirflowException(sentence)

    def timeout_sentence(self) -> str:
        """Return the error message for a task that reached ``wait_timeout``."""
        return (
            f"No answer of job {self.job_id!r} within {self.wait_timeout}. The operation is not withdrawn. "
            f"Its state: spark-ha job show {self.job_id}"
        )

    def check_end(self, operation: Operation, event: dict[str, Any]) -> None:
        """Check how the run ended, for operations that end it.

        :raises airflow.sdk.exceptions.AirflowException: The run ended in another state.
        """

    def _sentence(self, operation: Operation, outcome: str, reason: str) -> str:
        return (
            f"{operation.operation.value} of job {self.job_id!r} (run {operation.run}, operation "
            f"{operation.operation_id!r}) {outcome}: {because(reason)}{left_behind(operation)}"
        )


def open_operation_id(job: JobClient, base: str) -> str:
    """Return the first id of *base*, *base*-2, *base*-3, … without a failure: all processes of a task agree on it."""
    number, candidate = 1, base
    while (operation := job.operation(candidate)) is not None and operation.state in _REPEATABLE:
        number += 1
        candidate = f"{base}-{number}"
    return candidate


def left_behind(operation: Operation) -> str:
    """Return a sentence about the checkpoint or savepoint of a failed operation, which a restore can still use."""
    made = {key: operation.result[key] for key in ("checkpoint", "savepoint_id", "path") if operation.result.get(key)}
    return f" It left {', '.join(f'{key} {value}' for key, value in made.items())}: restore from there." if made else ""
