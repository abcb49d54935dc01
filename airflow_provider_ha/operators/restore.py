"""Start a run of a job from a checkpoint or savepoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.jobs.options.declaration import read
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.submit.requests import LATEST, SubmittedRun, named_directories
from airflow_provider_ha.operators._parameters import (
    check_given,
    describes,
    given_options,
    number_of,
    parameters_of,
    set_up,
    takes,
    whole_number,
)
from airflow_provider_ha.operators._run import SparkHaRunOperator


if TYPE_CHECKING:
    from airflow_provider_ha.api.job_client import JobClient
    from airflow_provider_ha.jobs.job_context import CallerIdentity


__all__ = ["SparkHaRestoreOperator"]

_OPTIONS = parameters_of(RestoreRequest)


@describes(RestoreRequest)
class SparkHaRestoreOperator(SparkHaRunOperator):
    """Start a new run of a job from a checkpoint or savepoint of the same or another job.

    The operator plans the restore first, and refuses it unless its verdict is in *accept_verdicts*: ``SAFE`` means that
    every row is written exactly once. Parameters that are left out keep their values from the graph that wrote the
    checkpoint.

    Returns ``job_id``, ``run``, ``epoch`` and ``state``.

    :param job_id: Job that receives the new run.
    :param seen_run: Newest run of the job when the restore was decided, 0 for none; the restore is refused if the job
        has started another run since.
    :param wait_for: ``"running"``: succeed once the run has a leader with a known epoch and is RUNNING, so that each
        query that the script started has committed a batch, or found no data at its first trigger. ``"finished"``:
        follow the run to its end, and submit it again after each loss of its driver.
    :param retries: Retries when the DAG sets none. A retry is cheap: it finds its run again.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    """

    template_fields: Sequence[str] = (*SparkHaRunOperator.template_fields, "seen_run", *_OPTIONS)
    template_fields_renderers = {"conf": "json", "env": "json"}
    request_model = RestoreRequest

    @takes(RestoreRequest)
    def __init__(self, *, seen_run: int | str | None = None, **kwargs: Any) -> None:
        set_up(self, RestoreRequest, kwargs, super().__init__)
        self.seen_run = seen_run
        check_given(self, seen_run=whole_number("seen_run"))

    def acting(self, context: Any) -> CallerIdentity:
        """Return the identity of the task, with the newest run that its user saw."""
        return replace(super().acting(context), run=number_of(self.seen_run, "seen_run"))

    def start_run(self, job: JobClient, request: str) -> SubmittedRun:
        """Plan and start the restore, or find its run again."""
        return job.restore(self.restore_request(request))

    def restore_request(self, request: str) -> RestoreRequest:
        """Return the request. A template that renders to an empty text keeps the graph's value.

        :raises ConfigurationError: An option is invalid.
        """
        subject = f"the restore of job {self.job_id!r}"
        values = given_options(self, RestoreRequest, subject)
        given = {name: None if value in ([], (), {}) else value for name, value in values.items()}
        directories = named_directories(given.get("start_from") or LATEST)
        if directories:
            given["start_from"] = LATEST
        return read(
            RestoreRequest,
            given,
            subject=subject,
            job_id=self.job_id,
            request_id=request,
            adopt=directories,
            lineage=self.lineage_conf,
        )
