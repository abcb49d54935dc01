"""Take a savepoint of a job, also while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.api.documents.operation import SavepointResultView
from airflow_provider_ha.jobs.submit.requests import savepoint_arguments
from airflow_provider_ha.operators._operation import SparkHaOperationOperator
from airflow_provider_ha.operators._parameters import check_given, flag, is_known, number, whole_number


if TYPE_CHECKING:
    from airflow_provider_ha.api.job_client import JobClient
    from airflow_provider_ha.jobs.model import Operation


__all__ = ["SparkHaSavepointOperator"]


class SparkHaSavepointOperator(SparkHaOperationOperator):
    """Take a verified savepoint of a job; a running job does not pause.

    For a job that is over, the task's worker copies the newest proven checkpoint. If the newest savepoint of *schedule*
    already holds that checkpoint, it is returned with ``new`` false, so the limits of a schedule never replace its
    savepoints by copies of the same checkpoint.

    Returns ``job_id``, ``run``, ``operation_id``, ``savepoint_id`` and ``path``; with the limits of a schedule also
    ``disposed``, the ids of the removed savepoints; for a job that is over also ``checkpoint``.

    :param job_id: Stable id of the job.
    :param savepoint_label: Text for people, stored in the manifest.
    :param schedule: Name of the schedule that the savepoint belongs to; a savepoint without a schedule is never
        disposed of.
    :param retain: Number of savepoints of *schedule* to keep; older ones are disposed of, but never the last.
    :param retain_days: Days to keep savepoints of *schedule*, also as a fraction; with *retain*, the limit reached
        first counts. The newest savepoint always stays.
    :param wait_timeout: Longest wait for the result; ``None`` for no limit. The operation stays requested after a
        timeout.
    :param skip_unknown_job: Skip the task while the cluster has no such job, instead of failing it; useful for a
        schedule.
    :param force: Act even though the job belongs to another DAG (``job_owner`` of the operator that submitted it).
    :param retries: Retries when the DAG sets none. Only a task that Airflow lost, or an outage, uses them. A FAILED
        operation is requested again only by a clear, or by retries that the DAG sets.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    """

    template_fields: Sequence[str] = (
        *SparkHaOperationOperator.template_fields,
        "savepoint_label",
        "schedule",
        "retain",
        "retain_days",
        "skip_unknown_job",
    )
    result = SavepointResultView

    def __init__(
        self,
        *,
        savepoint_label: str = "",
        schedule: str | None = None,
        retain: int | str | None = None,
        retain_days: float | str | None = None,
        skip_unknown_job: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.savepoint_label = savepoint_label
        self.schedule = schedule
        self.retain = retain
        self.retain_days = retain_days
        self.skip_unknown_job = skip_unknown_job
        check_given(self, skip_unknown_job=flag("skip_unknown_job"))
        if all(map(is_known, (schedule, retain, retain_days, savepoint_label))):
            savepoint_arguments(**self._wanted())

    def ask(self, job: JobClient, operation_id: str, requested_by: str) -> Operation:
        """Request the savepoint."""
        return job.take_savepoint(
            operation_id=operation_id,
            requested_by=requested_by,
            **self._wanted(),
        )

    def _wanted(self) -> dict[str, Any]:
        """Return schedule, limits and label; a template may render to an empty text.

        :raises ConfigurationError: A limit is not a number.
        """
        for name, check in (("retain", whole_number), ("retain_days", number)):
            if (value := getattr(self, name)) not in (None, ""):
                check(name)(value)
        return {
            "schedule": self.schedule or None,
            "retain": None if self.retain in (None, "") else int(self.retain),
            "retain_days": None if self.retain_days in (None, "") else float(self.retain_days),
            "label": self.savepoint_label,
        }
