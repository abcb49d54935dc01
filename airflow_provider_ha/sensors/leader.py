"""Wait until a job has a leader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ha.operators._base import as_flag
from airflow_provider_ha.operators._parameters import check_given, flag, whole_number
from airflow_provider_ha.sensors._base import SparkHaBaseSensor
from airflow_provider_ha.triggers.live_fact import SparkHaLeaderTrigger


if TYPE_CHECKING:
    from airflow_provider_ha.sensors._base import Baseline


__all__ = ["SparkHaLeaderSensor"]


class SparkHaLeaderSensor(SparkHaBaseSensor):
    """Wait until the job's newest run has a leader with a known epoch, and with ``standby`` a ready standby driver.

    Only a live leader counts, never a past one. The sensor waits for a job that is still unknown; it fails when the run
    that it watches ends.

    Returns ``job_id``, ``run``, ``epoch``, ``attempt``, ``host`` and ``pid``.

    :param job_id: Stable id of the job.
    :param min_epoch: Lowest epoch that passes.
    :param min_run: Lowest run that passes.
    :param standby: Whether a standby driver has to be ready too, as counted by the leader every few seconds. The sensor
        fails for good for a run that requests none (``standby_drivers``).
    :param retries: Retries when the DAG sets none. Only a task that Airflow lost, or an outage, uses them: a run that
        has ended fails the task for good.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    :param poll_interval: Seconds between two reads of a job without a leader; a change in ZooKeeper wakes the sensor
        earlier.
    """

    template_fields = (*SparkHaBaseSensor.template_fields, "min_epoch", "min_run", "standby")

    def __init__(
        self, *, min_epoch: int | str = 1, min_run: int | str = 1, standby: bool | str = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.min_epoch = min_epoch
        self.min_run = min_run
        self.standby = standby
        check_given(self, min_epoch=whole_number("min_epoch"), min_run=whole_number("min_run"), standby=flag("standby"))

    def trigger(self, baseline: Baseline) -> SparkHaLeaderTrigger:
        """Return the trigger that waits."""
        return SparkHaLeaderTrigger(
            min_epoch=int(self.min_epoch),
            min_run=int(self.min_run),
            standby=as_flag(self.standby),
            ended_run=baseline.ended_run,
            **self.trigger_kwargs(),
        )
