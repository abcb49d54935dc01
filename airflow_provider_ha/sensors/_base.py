"""Base of the sensors: check once, store the first state of the job, and wait by deferring.

"Newer" means a higher number than then. A retry executes the sensor again: with a new baseline it would wait for
one more checkpoint than it was asked to. So the first one is kept in Airflow's task state store, which outlives tries.
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
    """What was known.

    :param checkpoint: Highest checkpoint number given out; 0 for none.
    :param ended_run: Newest run, when it already had a result; 0 for none.
    """

    checkpoint: int = 0
    ended_run: int = 0


def baseline_of(snapshot: JobStatus) -> Baseline:
    """Return the baseline that a snapshot shows."""
    view = snapshot.run
    ended = view.run.number if view is not None and view.result is not None else 0
    return Baseline(checkpoint=snapshot.checkpoint_counter, ended_run=ended)


def first_baseline(context: Any, now: Baseline) -> Baseline:
    """Return *now* with the checkpoint number of the first try, remembering it when this is the first.

    Only the number is kept. Whether the newest run is over is judged again: a user who clears a failed sensor after
    a new submission wants it to watch the new run.
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
    :param spark_ha_conn_id: Connection of type ``spark_ha``.
    :param poll_interval: Seconds between two looks at a job without a leader; a watched change wakes it earlier.
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
        """Remember the state of the job, then defer, unless the awaited condition holds already."""
        with self._client() as client:
            trigger = self.trigger(first_baseline(context, self._look(client)))
            event = trigger.look(client)
        if event is None:
            self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))
        # Airflow 3.3 may fail a task that defers and resumes in one moment: nothing is deferred for nothing.
        return self.execute_complete(context, event)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002  # Airflow's signature
        """Return the facts that were waited for, or fail with the reason why they will not come."""
        if event["status"] == "error":
            raise AirflowFailException(event["reason"])
        if event["status"] != "success":
            kind = AirflowFailException if self.own_retries else AirflowException
            raise kind(event["reason"])
        return {key: value for key, value in event.items() if key != "status"}

    def trigger_kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments that every trigger takes."""
        return {
            "job_id": self.job_id,
            "spark_ha_conn_id": self.spark_ha_conn_id,
            "poll_interval": self.poll_interval,
        }

    def _look(self, client: HaClient) -> Baseline:
        try:
            return baseline_of(client.job(self.job_id).snapshot())
        except UnknownJobError:
            return Baseline()  # the task that submits it may start in this very moment

    @contextmanager
    def _client(self) -> Iterator[HaClient]:
        with airflow_errors():
            check_job_id(self.job_id)  # before a server is asked, which may be away
            with SparkHaHook(self.spark_ha_conn_id).get_client() as client:
                yield client
