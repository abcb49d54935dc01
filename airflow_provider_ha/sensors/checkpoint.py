"""Wait for a new checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ha.operators._parameters import check_given, whole_number
from airflow_provider_ha.sensors._base import SparkHaBaseSensor
from airflow_provider_ha.triggers.live_fact import SparkHaCheckpointTrigger


if TYPE_CHECKING:
    from airflow_provider_ha.sensors._base import Baseline


__all__ = ["SparkHaCheckpointSensor"]


class SparkHaCheckpointSensor(SparkHaBaseSensor):
    """Wait until a live job has a checkpoint with a higher number than at the sensor's first execution.

    A checkpoint of a job without a leader does not count. The sensor waits for a job that is still unknown; it fails
    when the run that it watches ends.

    Returns ``job_id``, ``run``, ``epoch`` and ``checkpoint``.

    :param job_id: Stable id of the job.
    :param newer_than: Number to exceed, instead of the number at the first execution.
    :param retries: Retries when the DAG sets none. Only a task that Airflow lost, or an outage, uses them: a run that
        has ended fails the task for good.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    :param poll_interval: Seconds between two reads of a job without a leader; a change in ZooKeeper wakes the sensor
        earlier.
    """

    template_fields = (*SparkHaBaseSensor.template_fields, "newer_than")

    def __init__(self, *, newer_than: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.newer_than = newer_than
        check_given(self, newer_than=whole_number("newer_than"))

    def trigger(self, baseline: Baseline) -> SparkHaCheckpointTrigger:
        """Return the trigger that waits."""
        given = self.newer_than not in (None, "", "None")
        return SparkHaCheckpointTrigger(
            newer_than=int(self.newer_than or 0) if given else baseline.checkpoint,
            ended_run=baseline.ended_run,
            **self.trigger_kwargs(),
        )
