"""What all operators of this package share: the connection, the job, and the id of the request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.compat.sdk import AirflowException, AirflowFailException, BaseOperator, TaskDeferralTimeout
from airflow_provider_ha.errors import HaError, StorageUnavailableError
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID, SparkHaHook
from airflow_provider_ha.links.operator_links import SparkHaDriverLogLink, SparkHaJobLink, SparkHaSparkUiLink
from airflow_provider_ha.names import check_job_id
from airflow_provider_ha.operators._failures import airflow_errors
from airflow_provider_ha.operators._given import WORDS, check_given
from airflow_provider_ha.operators._plain_errors import PlainErrors


if TYPE_CHECKING:
    from airflow_provider_ha.control.client import HaClient
    from airflow_provider_ha.control.job.job_owner import Acting


_SOME = 2  # hours; less is told in minutes


class SparkHaBaseOperator(PlainErrors, BaseOperator):
    """Base of the operators; not for DAGs.

    There is no ``on_kill``: Airflow calls it for every SIGTERM of a worker, a deploy or an API server that is down, and
    none of these is a reason to end a stream.

    :param job_id: Stable id of the job.
    :param spark_ha_conn_id: Connection of type ``spark_ha``.
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
        """Go on after a deferral. A wait that took too long is not started again by the package's own tries.

        :raises airflow.sdk.exceptions.AirflowFailException: The longest wait is over.
        """
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout as error:
            if not self.own_retries:
                raise
            raise AirflowFailException(self.timeout_sentence()) from error

    def timeout_sentence(self) -> str:
        """Return what to say when the longest wait is over."""
        return f"The task has waited for job {self.job_id!r} as long as it may. The job goes on."

    @contextmanager
    def client(self) -> Iterator[HaClient]:
        """Open a session for the time of the block; our errors become Airflow's."""
        with airflow_errors():
            if self.job_id:
                check_job_id(self.job_id)  # before a server is asked, which may be away
            try:
                opened = SparkHaHook(self.spark_ha_conn_id).get_client()
            except HaError as error:
                if not error.retryable:
                    raise
                raise AirflowException(f"{error}{self._tries()}") from error
            with opened as client:
                try:
                    yield client
                except StorageUnavailableError as error:
                    raise AirflowException(f"{error}{self._tries()}") from error

    def _tries(self) -> str:
        """Return how long Airflow tries a task again that cannot reach its cluster or storage, and what ends that."""
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
        """Return the keyword arguments that every trigger takes."""
        return {
            "job_id": self.job_id,
            "spark_ha_conn_id": self.spark_ha_conn_id,
            "poll_interval": self.poll_interval,
        }


def acting(context: Any, *, force: bool | str) -> Acting:
    """Return the identity with which a task acts on a job: its DAG's."""
    from airflow_provider_ha.control.job.job_owner import Acting  # noqa: PLC0415  # brings pydantic and the stores

    return Acting(owner=context["ti"].dag_id, force=as_flag(force))


def refuse_error(event: dict[str, Any]) -> None:
    """Fail for good when a trigger reports an error that waiting cannot resolve.

    :raises airflow.sdk.exceptions.AirflowFailException: The event is ``error``.
    """
    if event["status"] == "error":
        raise AirflowFailException(event["reason"])


def as_flag(value: bool | str | None) -> bool:
    """Return a flag that may have come through a template, where ``False`` becomes ``"False"``.

    :raises airflow.sdk.exceptions.AirflowFailException: It is neither true nor false.
    """
    if isinstance(value, str):
        word = value.strip().lower()
        if word not in WORDS:
            raise AirflowFailException(f"{value!r} is neither true nor false.")
        return WORDS[word]
    return bool(value)
