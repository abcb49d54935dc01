"""Base of all operators: connection, job, request id, retries, errors and log tables.

The type of an error decides whether a retry can help. An error that no retry resolves fails the task for good, because
retries would only repeat the same message.

Airflow's task runner logs every exception of a task with its frames and the frames of its causes, and offers no setting
to change that. Each task of this package therefore inserts a log processor in front of the others in its process before
it executes. Only the log output differs: state, retries, callbacks and listeners of the task stay Airflow's.

Invariant: only exceptions that this package raised, as an exception type of Airflow, lose their frames. An unexpected
exception keeps its traceback.

Invariant: a retry, a clear and a second live process of a task share one id, so a repeated request is found and not
carried out twice (design, section 6).

Airflow 3.3 can fail a deferrable task without cause: the scheduler may process the "success" of the worker process that
deferred after the trigger has fired, and mistake the task for a killed one (apache/airflow #66374, #67287, #72716). A
restart of Airflow under load costs a waiting task three tries. Operators cannot prevent that, but a retry is cheap: it
finds its run or operation by the task's request id and continues to wait. A task without retries loses its job at the
first such failure.

A run or operation that ended in FAILED raises ``AirflowFailException`` and is not retried.

Invariant: ``retries`` set on the task, in ``default_args`` or as Airflow's ``default_task_retries`` apply exactly, zero
included, with Airflow's own delay.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.airflow_side.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    BaseOperator,
    TaskDeferralTimeout,
)
from airflow_provider_ha.airflow_side.links import SparkHaDriverLogLink, SparkHaJobLink, SparkHaSparkUiLink
from airflow_provider_ha.errors import EngineUnavailableError, HaError, StorageUnavailableError, UnknownJobError
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID, SparkHaHook
from airflow_provider_ha.names import check_job_id, task_request
from airflow_provider_ha.operators._parameters import WORDS, check_given


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient
    from airflow_provider_ha.jobs.job_context import CallerIdentity


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Raise ``AirflowException`` for an error that a retry can resolve, ``AirflowFailException`` for the rest."""
    try:
        yield
    except HaError as error:
        kind = AirflowException if error.retryable else AirflowFailException
        raise kind(str(error)) from error


@contextmanager
def unknown_job_skips(*, wanted: bool) -> Iterator[None]:
    """Skip the task when the cluster does not have the job and *wanted* is set: a schedule may start before the job.

    :raises UnknownJobError: The job is unknown and *wanted* is not set.
    """
    try:
        yield
    except UnknownJobError as error:
        if wanted:
            raise AirflowSkipException(f"{error} The task is skipped, because it has no job to act on.") from error
        raise


def read_log(job_id: str, run: object) -> str:
    """Return a sentence with the command that prints the log of a run's driver."""
    return f"Read the driver's log with `spark-ha job logs {job_id} --run {run}`."


def because(reason: str | None) -> str:
    """Return a reason as the end of a sentence, with exactly one full stop."""
    return f"{(reason or 'no reason was given').rstrip('.')}."


_PACKAGE = __name__.partition(".")[0] + "."


class PlainErrors:
    """Mixin of the operators and sensors that makes their errors appear in the task log without frames."""

    def pre_execute(self, context: Any) -> None:  # noqa: ARG002  # Airflow's signature
        """Install the log processor."""
        leave_out_frames()


def leave_out_frames() -> None:
    """Insert :func:`one_sentence` before the log processors of this process; later calls change nothing."""
    import structlog  # noqa: PLC0415  # not for the parser

    processors = structlog.get_config()["processors"]
    # Changed in place, because the task's logger already exists and shares this list.
    if isinstance(processors, list) and one_sentence not in processors:
        processors.insert(0, one_sentence)


def one_sentence(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace the frames of an error that an operator of this package raised with its message."""
    given = event.get("exc_info")
    error = sys.exc_info()[1] if given is True else given
    if isinstance(error, AirflowException) and _origin(error.__traceback__).startswith(_PACKAGE):
        del event["exc_info"]
        event["event"] = str(error)
    return event


def _origin(traceback: TracebackType | None) -> str:
    """Return the name of the module that raised; empty when it is not known."""
    module = ""
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        traceback = traceback.tb_next
    return module


def is_retry(context: Any, retries: int | None) -> bool:
    """Return whether Airflow retries the task of *context*, as opposed to running it first or after a clear.

    A clear raises ``max_tries`` by the task's retries, which starts a new series of tries.

    :param retries: Retries of the task.
    """
    instance, allowed = context["ti"], retries or 0
    first = getattr(instance, "max_tries", allowed) - allowed + 1
    return bool(getattr(instance, "try_number", 1) > first)


def request_id(context: Any) -> str:
    """Return the unique id of the task of *context*: readable, and safe as the name of a znode."""
    instance = context["ti"]
    return task_request(instance.dag_id, instance.run_id, instance.task_id, getattr(instance, "map_index", None))


# Retries that Airflow's configuration sets for every task; 0 when it sets none.
DEFAULT_RETRIES: int = BaseOperator.retries or 0
DEFAULT_RETRY_DELAY: timedelta = BaseOperator.retry_delay

# A year with one loss a day and a weekly restart of Airflow takes 521 tries. The rest outlast a night without
# ZooKeeper, at about 30 s a try. Airflow shows "1 of 1000".
FOLLOW_RETRIES: int = DEFAULT_RETRIES or 999
# A sensor, a stop or a savepoint takes minutes, or waits through about 30 restarts of Airflow.
WAIT_RETRIES: int = DEFAULT_RETRIES or 99
# A drill may hold a worker for an hour, so it is retried only when Spark did not answer.
DRILL_RETRIES: int = DEFAULT_RETRIES or 2

# Compared by identity to detect "not set"; ``partial()`` passes the same object for a mapped task.
RETRY_DELAY = timedelta(seconds=10)
DRILL_RETRY_DELAY = timedelta(minutes=5)


def is_own(retries: int | None, own: int) -> bool:
    """Return whether *retries* are this package's default, set neither by the DAG nor by Airflow's configuration.

    :param own: Default of the operator.
    """
    return not DEFAULT_RETRIES and retries == own


def retry_kwargs(retries: int | None, retry_delay: timedelta | float, own: int) -> dict[str, Any]:
    """Return the keyword arguments ``retries`` and ``retry_delay`` for Airflow's operators.

    :param retries: Retries of the task; *own* when the DAG sets none.
    :param retry_delay: Delay of the task; a delay of this module when the DAG sets none.
    :param own: Default number of retries of the operator.
    """
    unset = retry_delay is RETRY_DELAY or retry_delay is DRILL_RETRY_DELAY
    delay = DEFAULT_RETRY_DELAY if unset and not is_own(retries, own) else retry_delay
    return {"retries": retries, "retry_delay": delay}


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return *rows* under *header* with aligned columns; ``(none)`` when there are no rows."""
    lines = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(text if rows else [*text, "(none)"])


_SOME = 2  # hours; a shorter time is shown in minutes


class SparkHaBaseOperator(PlainErrors, BaseOperator):
    """Base of the operators; not for DAGs.

    There is no ``on_kill``: Airflow calls it for every SIGTERM of a worker, also after a deploy or an outage of the API
    server, and neither is a reason to end a stream.

    :param job_id: Stable id of the job.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    """

    template_fields: Sequence[str] = ("job_id", "spark_ha_conn_id")
    operator_extra_links = (SparkHaJobLink(), SparkHaDriverLogLink(), SparkHaSparkUiLink())
    poll_interval = 5.0  # seconds between two reads of a job without a leader; a watched change wakes a task earlier
    own_retries = False  # whether the tries are this package's, so that only Airflow's troubles may use them

    def __init__(self, *, job_id: str, spark_ha_conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id
        self.spark_ha_conn_id = spark_ha_conn_id
        check_given(self, job_id=check_job_id)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """Continue after a deferral; after a timeout, fail for good unless the DAG sets its own retries.

        :raises airflow.sdk.exceptions.AirflowFailException: The task reached its longest wait.
        """
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout as error:
            if not self.own_retries:
                raise
            raise AirflowFailException(self.timeout_sentence()) from error

    def timeout_sentence(self) -> str:
        """Return the error message for a task that reached its longest wait."""
        return f"The task reached its longest wait for job {self.job_id!r}. The job continues."

    @contextmanager
    def client(self) -> Iterator[HaClient]:
        """Open a session for the duration of the block, and convert errors of this package to Airflow's."""
        with airflow_errors():
            if self.job_id:
                check_job_id(self.job_id)  # before the connection, because the server may be down
            try:
                opened = SparkHaHook(self.spark_ha_conn_id).get_client()
            except HaError as error:
                if not error.retryable:
                    raise
                raise AirflowException(f"{error}{self._tries()}") from error
            with opened as client:
                try:
                    yield client
                except (StorageUnavailableError, EngineUnavailableError) as error:
                    raise AirflowException(f"{error}{self._tries()}") from error

    def _tries(self) -> str:
        """Return a sentence on how long Airflow retries a task during an outage, and how to end that."""
        if not self.retries:
            return ""
        hours = self.retries * self.retry_delay.total_seconds() / 3600
        lasting = f"{hours:.0f} hours" if hours >= _SOME else f"{hours * 60:.0f} minutes"
        return (
            f" Airflow tries this task again for about {lasting} or more ({self.retries} retries). An outage needs "
            "nothing. If the address is wrong, end the task with Mark failed, correct connection "
            f"{self.spark_ha_conn_id!r}, and clear it."
        )

    def trigger_kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments that all triggers accept."""
        return {
            "job_id": self.job_id,
            "spark_ha_conn_id": self.spark_ha_conn_id,
            "poll_interval": self.poll_interval,
        }


def acting(context: Any, *, force: bool | str) -> CallerIdentity:
    """Return the identity with which a task acts on a job: that of its DAG."""
    from airflow_provider_ha.jobs.job_context import CallerIdentity  # noqa: PLC0415  # brings pydantic and the stores

    return CallerIdentity(owner=context["ti"].dag_id, force=as_flag(force))


def refuse_error(event: dict[str, Any]) -> None:
    """Fail for good when a trigger reports an error that waiting cannot resolve.

    :raises airflow.sdk.exceptions.AirflowFailException: The event is ``error``.
    """
    if event["status"] == "error":
        raise AirflowFailException(event["reason"])


def as_flag(value: bool | str | None) -> bool:
    """Return a flag as a boolean; a rendered template gives ``"False"`` for ``False``.

    :raises airflow.sdk.exceptions.AirflowFailException: The value is neither true nor false.
    """
    if isinstance(value, str):
        word = value.strip().lower()
        if word not in WORDS:
            raise AirflowFailException(f"{value!r} is neither true nor false.")
        return WORDS[word]
    return bool(value)
