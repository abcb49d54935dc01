"""Wait until a job is in a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.operators._base import airflow_errors
from airflow_provider_ha.operators._parameters import check_given
from airflow_provider_ha.sensors._base import SparkHaBaseSensor
from airflow_provider_ha.triggers.job_status import SparkHaJobStatusTrigger


if TYPE_CHECKING:
    from airflow_provider_ha.sensors._base import Baseline


__all__ = ["SparkHaJobStatusSensor"]


class SparkHaJobStatusSensor(SparkHaBaseSensor):
    """Wait until the job's newest run is in one of some states. A terminal state that is not one of them fails at once.

    Returns ``job_id``, ``run``, ``epoch`` and ``state``.

    :param job_id: Stable id of the job.
    :param target_states: Names of states: ``SUBMITTED``, ``STARTING``, ``RUNNING``, ``STOPPING``, ``LOST``,
        ``FINISHED``, ``CANCELED``, ``FAILED``. ``RUNNING`` means that each query that the script has started has
        committed a batch since then, or that its first trigger found no data; name ``FINISHED`` beside it for a job
        that ends by itself (``availableNow``), which may do so before it is seen RUNNING.
    :param retries: Tries after the first one when the DAG sets none; only a task that Airflow has lost, or an outage,
        uses them: a run that has ended fails the task for good.
    :param retry_delay: Time between two tries; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Connection of type ``spark_ha``.
    :param poll_interval: Seconds between two looks at a job without a leader; a watched change wakes it earlier.
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
    """Return the states that are waited for.

    :raises ConfigurationError: One is not known, or there is none.
    """
    states = [given] if isinstance(given, str) else list(given)
    known = [state.value for state in JobState]
    if not states or any(state not in known for state in states):
        raise ConfigurationError(f"target states {states} are not all known", next_step=f"Choose from {known}")
    return states
