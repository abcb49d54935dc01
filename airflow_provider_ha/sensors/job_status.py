"""Wait until a job reaches a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.operators._base import airflow_errors
from airflow_provider_ha.operators._parameters import check_given
from airflow_provider_ha.sensors._base import SparkHaBaseSensor
from airflow_provider_ha.triggers.live_fact import SparkHaJobStatusTrigger


if TYPE_CHECKING:
    from airflow_provider_ha.sensors._base import Baseline


__all__ = ["SparkHaJobStatusSensor"]


class SparkHaJobStatusSensor(SparkHaBaseSensor):
    """Wait until the job's newest run is in a target state; any other terminal state fails immediately.

    Returns ``job_id``, ``run``, ``epoch`` and ``state``.

    :param job_id: Stable id of the job.
    :param target_states: Names of states: ``SUBMITTED``, ``STARTING``, ``RUNNING``, ``STOPPING``, ``LOST``,
        ``FINISHED``, ``CANCELED``, ``FAILED``. ``RUNNING`` means that each query that the script started has committed
        a batch since then, or found no data at its first trigger. Add ``FINISHED`` for a job that ends on its own
        (``availableNow``), because it may end before the sensor sees it RUNNING.
    :param retries: Retries when the DAG sets none. Only a task that Airflow lost, or an outage, uses them: a run that
        has ended fails the task for good.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    :param poll_interval: Seconds between two reads of a job without a leader; a change in ZooKeeper wakes the sensor
        earlier.
    """

    template_fields = (*SparkHaBaseSensor.template_fields, "target_states")

    def __init__(self, *, target_states: Sequence[str] = (JobState.RUNNING.value,), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_states = target_states
        check_given(self, target_states=_states)

    def trigger(self, baseline: Baseline) -> SparkHaJobStatusTrigger:  # noqa: ARG002  # any terminal state is judged
        """Return the trigger that waits."""
        with airflow_errors():
            states = _states(self.target_states)
        return SparkHaJobStatusTrigger(target_states=states, **self.trigger_kwargs())


def _states(given: str | Sequence[str]) -> list[str]:
    """Return the target states.

    :raises ConfigurationError: A state is unknown, or the list is empty.
    """
    states = [given] if isinstance(given, str) else list(given)
    known = [state.value for state in JobState]
    if not states or any(state not in known for state in states):
        raise ConfigurationError(f"target states {states} are not all known", next_step=f"Choose from {known}")
    return states
