"""Rehearse a restore of the newest savepoint: result, age and duration."""

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
    """Restore a job's newest savepoint on the worker, into a copy that is removed again, and prove that Spark goes on.

    Spark loads the whole state of each query and executes one batch without input, started by the job's own application
    out of storage, with no sink. The job may be running, and does not notice: its sinks, its lock and its directories
    are not touched. The result is kept beside the job; ``spark-ha savepoint drills`` lists it.

    Returns ``drill_id``, ``verdict``, ``reasons``, ``source``, ``taken_at``, ``age_seconds``, ``cut``, ``size``,
    ``seconds`` (by step), ``total_seconds``, ``queries`` and ``spark_version``. A drill that FAILED fails the task for
    good; one that got no answer from Spark is repeated by the task's retries. A retry or a clear of one that PASSED
    finds it again.

    :param job_id: Stable id of the job.
    :param start_from: ``"savepoint"``: the newest one; else ``"latest"`` (checkpoints first), ``"checkpoint-<n>"``,
        ``"savepoint-<id>"`` or ``"before <time>"``. An older one is never taken in its place.
    :param max_age: Fail when what would be restored is older: the recovery point objective. Timedelta or seconds.
    :param max_duration: Fail when all steps together took longer: the recovery time objective.
    :param start: Whether the job's application is started; else the state is only loaded.
    :param heap: Memory of Spark's JVM on the worker.
    :param deadline: What Spark may take for each query.
    :param skip_unknown_job: Skip the task while the cluster has no such job, instead of failing it: for a schedule.
    :param retries: Tries after the first one when the DAG sets none: for a Spark that gave no answer.
    :param retry_delay: Time between two tries; 5 minutes when the DAG sets no retries.
    :param spark_ha_conn_id: Connection of type ``spark_ha``.
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
        """Drill, log the figures, and return them, or fail with the reasons."""
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

        :raises ConfigurationError: A parameter cannot be used.
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
    """Return a drill for people: what was restored, how old it was, and how long each step took."""
    head = f"{done.source}, {done.age_seconds:.0f} s old, {done.size} bytes: {done.verdict.value}"
    reasons = "".join(f"\n- {reason}" for reason in done.reasons)
    steps = table(("step", "seconds"), [*done.seconds.items(), ("total", done.total_seconds)])
    queries = [
        (name, query.batch, query.loaded, query.started, query.partitions, query.state_rows)
        for name, query in done.queries.items()
    ]
    columns = ("query", "batch", "loaded", "started", "partitions", "rows of state")
    return f"{head}{reasons}\n{steps}\n{table(columns, queries)}"
