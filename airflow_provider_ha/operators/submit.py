"""Submit a PySpark script as a highly available job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.hooks._connection import read_place
from airflow_provider_ha.jobs.options.declaration import read
from airflow_provider_ha.jobs.options.job_spec import JobSpec, SparkPlace
from airflow_provider_ha.jobs.submit.requests import SubmittedRun
from airflow_provider_ha.operators._parameters import describes, given_options, parameters_of, set_up, takes
from airflow_provider_ha.operators._run import SparkHaRunOperator


if TYPE_CHECKING:
    from airflow_provider_ha.api.job_client import JobClient


__all__ = ["SparkHaSubmitOperator"]

_OF_BASE = ("job_id",)
_OPTIONS = parameters_of(JobSpec, _OF_BASE)


@describes(JobSpec, without=_OF_BASE)
class SparkHaSubmitOperator(SparkHaRunOperator):
    """Run a plain PySpark streaming script as a job that survives the loss of its driver.

    Each query of the script needs a name, or an output to derive one from; a checkpoint location set in the script is
    not used. The task holds no worker slot while it waits. A retry or a clear of the task finds the run again; after a
    FAILED run, a clear submits the script again.

    Returns ``job_id``, ``run``, ``epoch`` and ``state``.

    :param job_id: Stable id of the job: epochs, checkpoints and savepoints belong to it.
    :param spark_conn_id: Airflow connection of type ``spark`` (of the Spark provider) that gives the place of the
        driver: its master, and with deploy mode ``cluster`` the standalone cluster as engine.
    :param wait_for: ``"running"``: succeed once the run has a leader with a known epoch and is RUNNING, so that each
        query that the script started has committed a batch, or found no data at its first trigger. ``"finished"``:
        follow the run to its end, and submit it again after each loss of its driver.
    :param retries: Retries when the DAG sets none. A retry is cheap: it finds its run again.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    """

    template_fields: Sequence[str] = (*SparkHaRunOperator.template_fields, "spark_conn_id", *_OPTIONS)
    template_fields_renderers = {"conf": "json", "env": "json"}
    request_model = JobSpec

    @takes(JobSpec, without=_OF_BASE)
    def __init__(self, *, spark_conn_id: str | None = None, **kwargs: Any) -> None:
        set_up(self, JobSpec, kwargs, super().__init__, without=_OF_BASE)
        self.spark_conn_id = spark_conn_id

    def start_run(self, job: JobClient, request: str) -> SubmittedRun:
        """Submit the script, or find its run again."""
        subject = f"the submission of job {self.job_id!r}"
        given = given_options(self, JobSpec, subject, _OF_BASE)
        place = read_place(self.spark_conn_id) if self.spark_conn_id else SparkPlace()
        given |= place.options(given.get("master"), given.get("engine"), given.get("engine_options"))
        spec = read(
            JobSpec,
            {**given, "job_id": self.job_id},
            subject=subject,
            request_id=request,
            lineage=self.lineage_conf,
        )
        return job.submit(spec)
