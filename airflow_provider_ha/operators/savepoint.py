"""Take a savepoint of a job, also while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.api.documents.task_results import SavepointResultView
from airflow_provider_ha.jobs.submit.requests import savepoint_arguments
from airflow_provider_ha.operators._operation import SparkHaOperationOperator
from airflow_provider_ha.operators._parameters import check_given, flag, is_known, number, whole_number


if TYPE_CHECKING:
    from airflow_provider_ha.api.job_client import JobClient
    from airflow_provider_ha.jobs.model import Operation


__all__ = ["SparkHaSavepointOperator"]


class SparkHaSavepointOperator(SparkHaOperationOperator):
    """Take a verified savepoint of a job; one that runs has no pause.

    Of a job that is over the task copies the newest proven checkpoint in its worker. With a schedule whose newest
    savepoint holds that checkpoint already, that one is the answer (``new`` is false): the limits of a schedule never
    replace what it has by copies of one checkpoint.

    Returns ``job_id``, ``run``, ``operation_id``, ``savepoint_id`` and ``path``; with limits of a schedule also
    ``disposed``, the ids of the savepoints that were removed; of a job that is over also ``checkpoint``.

    :param job_id: Stable id of the job.
    :param savepoint_label: Text for people, kept in the manifest.
    :param schedule: Name of the schedule that the savepoint belongs to; savepoints without one are never disposed of.
    :param retain: How many savepoints of *schedule* are kept; older ones are disposed of, never the last.
    :param retain_days: How many days they are kept, a fraction is allowed; with *retain*, the first limit that is
        reached counts. The newest one stays however old it is.
    :param wait_timeout: Longest wait for the answer; ``None`` for no limit. A timeout does not withdraw the operation.
    :param skip_unknown_job: Skip the task while the cluster has no such job, instead of failing it: for a schedule.
    :param force: Act although the job belongs to another DAG (``job_owner`` of the operator that submitted it).
    :param retries: Tries after the first one when the DAG sets none; only a task that Airflow has lost, or an outage,
        uses them: what FAILED is requested again by a clear, or by retries of the DAG.
    :param retry_delay: Time between two tries; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Connection of type ``spark_ha``.
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
        """Ask for the savepoint."""
        return job.take_savepoint(
            operation_id=operation_id,
            requested_by=requested_by,
            **self._wanted(),
        )

    def _wanted(self) -> dict[str, Any]:
        """Return schedule, limits and label; a template may render to nothing.

        :raises ConfigurationError: A limit is no number.
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
