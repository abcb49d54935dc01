"""Rehearse a restore of the newest savepoint, and report result, age and duration."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.airflow_side.compat.sdk import AirflowException, AirflowFailException
from airflow_provider_ha.api.documents.history import DrillResultView
from airflow_provider_ha.checkpoints.restore.restore_point import SAVEPOINT
from airflow_provider_ha.jobs.options.job_options import check_memory
from airflow_provider_ha.jobs.submit.requests import check_start
from airflow_provider_ha.operators._base import (
    DRILL_RETRIES,
    DRILL_RETRY_DELAY,
    SparkHaBaseOperator,
    airflow_errors,
    as_flag,
    because,
    request_id,
    retry_kwargs,
    table,
    unknown_job_skips,
)
from airflow_provider_ha.operators._parameters import check_given, flag, seconds_of


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.verification.job_drill import DrillRequest
    from airflow_provider_ha.jobs.verification.verification_records import Drill


__all__ = ["SparkHaRestoreDrillOperator"]


class SparkHaRestoreDrillOperator(SparkHaBaseOperator):
    """Restore a job's newest savepoint into a temporary copy on the worker, and prove that Spark continues from it.

    Spark loads each query's whole state and executes a batch without input. The job's own application, read from
    storage, starts the queries, without their sinks. The job may be running and is not affected: the drill does not
    touch its sinks, its lock or its directories. The result is stored with the job; ``spark-ha drill list`` lists
    all results.

    Returns ``drill_id``, ``verdict``, ``reasons``, ``source``, ``taken_at``, ``age_seconds``, ``cut``, ``size``,
    ``seconds`` (by step), ``total_seconds``, ``queries`` and ``spark_version``. A FAILED drill fails the task for good;
    a drill without an answer from Spark is repeated by the task's retries. A retry or a clear finds a drill that
    PASSED.

    :param job_id: Stable id of the job.
    :param start_from: ``"savepoint"`` for the newest savepoint; else ``"latest"`` (checkpoints first),
        ``"checkpoint-<n>"``, ``"savepoint-<id>"`` or ``"before <time>"``. The drill never falls back to an older one.
    :param max_age: Recovery point objective, a timedelta or seconds: fail when the restored data is older.
    :param max_duration: Recovery time objective, a timedelta or seconds: fail when all steps together take longer.
    :param start: Start the job's application; otherwise only the state is loaded.
    :param heap: Memory of Spark's JVM on the worker.
    :param deadline: Longest time for Spark per query, a timedelta or seconds.
    :param skip_unknown_job: Skip the task while the cluster has no such job, instead of failing it; useful for a
        schedule.
    :param retries: Retries when the DAG sets none, used when Spark gave no answer.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 5 minutes when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    """

    template_fields: Sequence[str] = (
        *SparkHaBaseOperator.template_fields,
        "start_from",
        "max_age",
        "max_duration",
        "start",
        "heap",
        "deadline",
        "skip_unknown_job",
    )

    def __init__(
        self,
        *,
        start_from: str = "savepoint",
        max_age: timedelta | float | str | None = None,
        max_duration: timedelta | float | str | None = None,
        start: bool | str = True,
        heap: str = "1g",
        deadline: timedelta | float | str = timedelta(minutes=10),
        skip_unknown_job: bool | str = False,
        retries: int | None = DRILL_RETRIES,
        retry_delay: timedelta | float = DRILL_RETRY_DELAY,
        **kwargs: Any,
    ) -> None:
        super().__init__(**retry_kwargs(retries, retry_delay, DRILL_RETRIES), **kwargs)
        self.start_from = start_from
        self.max_age = max_age
        self.max_duration = max_duration
        self.start = start
        self.heap = heap
        self.deadline = deadline
        self.skip_unknown_job = skip_unknown_job
        check_given(
            self,
            start_from=partial(check_start, words=(SAVEPOINT,)),
            start=flag("start"),
            heap=partial(check_memory, parameter="heap"),
            skip_unknown_job=flag("skip_unknown_job"),
            max_age=lambda value: seconds_of(value, "max_age"),
            max_duration=lambda value: seconds_of(value, "max_duration"),
            deadline=lambda value: seconds_of(value, "deadline"),
        )

    def execute(self, context: Any) -> dict[str, Any]:
        """Run the drill, log the figures and return them, or fail with the reasons."""
        from airflow_provider_ha.jobs.verification.job_drill import drill  # noqa: PLC0415  # brings kazoo and boto3

        with airflow_errors():
            request = self.request(request_id(context))
        with self.client() as client, unknown_job_skips(wanted=as_flag(self.skip_unknown_job)):
            done = drill(client.context(self.job_id), request, self.log.info)
        self.log.info("%s", drill_text(done))
        if done.verdict.value == "PASSED":
            return DrillResultView.of(done).to_json()
        sentence = f"drill {done.drill_id!r} of job {self.job_id!r} ({done.source}) {done.verdict.value}"
        kind = AirflowFailException if done.verdict.value == "FAILED" else AirflowException
        raise kind(f"{sentence}: {because('; '.join(done.reasons))}")

    def request(self, drill_id: str) -> DrillRequest:
        """Return the request.

        :raises ConfigurationError: A parameter is invalid.
        """
        from airflow_provider_ha.jobs.verification.job_drill import DrillLimits, DrillRequest  # noqa: PLC0415  # the same
        from airflow_provider_ha.jobs.verification.job_verification import ProofOptions  # noqa: PLC0415  # brings kazoo and boto3

        seconds = seconds_of(self.deadline, "deadline")
        deadline = {} if seconds is None else {"deadline": seconds}
        return DrillRequest(
            drill_id=drill_id,
            requested_by=drill_id,
            start_from=self.start_from,
            limits=DrillLimits(
                max_age=seconds_of(self.max_age, "max_age"), max_duration=seconds_of(self.max_duration, "max_duration")
            ),
            options=ProofOptions(start=as_flag(self.start), heap=self.heap, **deadline),
        )


def drill_text(done: Drill) -> str:
    """Return the result of a drill as text for people: restored data, its age, and its duration by step."""
    head = f"{done.source}, {done.age_seconds:.0f} s old, {done.size} bytes: {done.verdict.value}"
    reasons = "".join(f"\n- {reason}" for reason in done.reasons)
    steps = table(("step", "seconds"), [*done.seconds.items(), ("total", done.total_seconds)])
    queries = [
        (name, query.batch, query.loaded, query.started, query.partitions, query.state_rows)
        for name, query in done.queries.items()
    ]
    columns = ("query", "batch", "loaded", "started", "partitions", "rows of state")
    return f"{head}{reasons}\n{steps}\n{table(columns, queries)}"
