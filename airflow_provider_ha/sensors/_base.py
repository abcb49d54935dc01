"""Base of the sensors: check once, store the job's first state, and wait by deferring.

"Newer" means a higher number than at the first execution. A retry executes the sensor again, and a new baseline would
make it wait for another checkpoint. Airflow's task state store outlives tries, so it keeps the first baseline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.airflow_side.compat.sdk import AirflowException, AirflowFailException, BaseSensorOperator
from airflow_provider_ha.airflow_side.links import SparkHaDriverLogLink, SparkHaJobLink, SparkHaSparkUiLink
from airflow_provider_ha.errors import UnknownJobError
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID, SparkHaHook
from airflow_provider_ha.names import check_job_id
from airflow_provider_ha.operators._base import (
    RETRY_DELAY,
    WAIT_RETRIES,
    PlainErrors,
    airflow_errors,
    is_own,
    retry_kwargs,
)
from airflow_provider_ha.operators._parameters import above_zero, check_given


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient
    from airflow_provider_ha.jobs.status import JobStatus
    from airflow_provider_ha.triggers._base import SparkHaTrigger


_KEY = "spark_ha_first_checkpoint"


@dataclass(frozen=True, slots=True)
class Baseline:
    """State of a job when its sensor first executed.

    :param checkpoint: Highest checkpoint number assigned by then; 0 for none.
    :param ended_run: Newest run, if it already had a result; 0 otherwise.
    """

    checkpoint: int = 0
    ended_run: int = 0


def baseline_of(snapshot: JobStatus) -> Baseline:
    """Return the baseline for a snapshot."""
    view = snapshot.run
    ended = view.run.number if view is not None and view.result is not None else 0
    return Baseline(checkpoint=snapshot.checkpoint_counter, ended_run=ended)


def first_baseline(context: Any, now: Baseline) -> Baseline:
    """Return *now* with the checkpoint number of the first try, which stores its own number.

    Only the number is stored. Each execution judges afresh whether the newest run is over: a user who clears a failed
    sensor after a new submission wants it to watch the new run.
    """
    store = context.get("task_state_store")
    if store is None:
        return now
    kept = store.get(_KEY)
    if isinstance(kept, int):
        return replace(now, checkpoint=kept)
    store.set(_KEY, now.checkpoint)
    return now


class SparkHaBaseSensor(PlainErrors, BaseSensorOperator):
    """Base of the sensors; not for DAGs.

    :param job_id: Stable id of the job.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    :param poll_interval: Seconds between two reads of a job without a leader; a change in ZooKeeper wakes the sensor
        earlier.
    """

    template_fields: Sequence[str] = ("job_id", "spark_ha_conn_id")
    operator_extra_links = (SparkHaJobLink(), SparkHaDriverLogLink(), SparkHaSparkUiLink())

    def __init__(
        self,
        *,
        job_id: str,
        spark_ha_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 5.0,
        retries: int | None = WAIT_RETRIES,
        retry_delay: timedelta | float = RETRY_DELAY,
        **kwargs: Any,
    ) -> None:
        super().__init__(**retry_kwargs(retries, retry_delay, WAIT_RETRIES), **kwargs)
        self.own_retries = is_own(retries, WAIT_RETRIES)
        self.job_id = job_id
        self.spark_ha_conn_id = spark_ha_conn_id
        self.poll_interval = poll_interval
        check_given(self, job_id=check_job_id, poll_interval=above_zero("poll_interval"))

    def trigger(self, baseline: Baseline) -> SparkHaTrigger:
        """Return the trigger that waits."""
        raise NotImplementedError

    def execute(self, context: Any) -> Any:
        """Store the job's state, then defer, unless the condition already holds."""
        with self._client() as client:
            trigger = self.trigger(first_baseline(context, self._look(client)))
            event = trigger.look(client)
        if event is None:
            self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))
        # Airflow 3.3 may fail a task that defers and resumes in the same moment, so a fulfilled condition never defers.
        return self.execute_complete(context, event)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002  # Airflow's signature
        """Return the awaited facts, or fail with the reason why they will not come."""
        if event["status"] == "error":
            raise AirflowFailException(event["reason"])
        if event["status"] != "success":
            kind = AirflowFailException if self.own_retries else AirflowException
            raise kind(event["reason"])
        return {key: value for key, value in event.items() if key != "status"}

    def trigger_kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments that all triggers accept."""
        return {
            "job_id": self.job_id,
            "spark_ha_conn_id": self.spark_ha_conn_id,
            "poll_interval": self.poll_interval,
        }

    def _look(self, client: HaClient) -> Baseline:
        try:
            return baseline_of(client.job(self.job_id).snapshot())
        except UnknownJobError:
            return Baseline()  # the task that submits the job may only start now

    @contextmanager
    def _client(self) -> Iterator[HaClient]:
        with airflow_errors():
            check_job_id(self.job_id)  # before the connection, because the server may be down
            with SparkHaHook(self.spark_ha_conn_id).get_client() as client:
                yield client
