"""Verify a checkpoint of a managed job, or any checkpoint directory of Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_ha.airflow_side.compat.sdk import AirflowException, AirflowFailException
from airflow_provider_ha.api.documents.verdict import StartVerdict, VerdictView, cut_verdict, directory_verdict
from airflow_provider_ha.checkpoints.spark.releases import release
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.job_options import check_memory
from airflow_provider_ha.jobs.submit.requests import check_start
from airflow_provider_ha.operators._base import SparkHaBaseOperator, airflow_errors, as_flag, because, request_id, table
from airflow_provider_ha.operators._parameters import check_given, flag, one_of, seconds_of


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.verification.job_verification import ProofDepth, ProofOptions


__all__ = ["SparkHaVerifyCheckpointOperator"]


# ``fail_on`` -> verdicts that fail the task for good. An UNKNOWN verdict always fails it, and its retries try again.
FAIL_ON = {
    "not_startable": {StartVerdict.RESTORABLE, StartVerdict.NOT_RESTORABLE},
    "not_restorable": {StartVerdict.NOT_RESTORABLE},
    "nothing": set[StartVerdict](),
}


class SparkHaVerifyCheckpointOperator(SparkHaBaseOperator):
    """Verify a checkpoint or savepoint of a job, or any checkpoint directory. Changes nothing and pauses nothing.

    The latest result for a job is stored with the job, and the job's page in Airflow shows it.

    Returns ``subject``, ``verdict``, ``restorable``, ``findings`` (the first 20, each with ``code``, ``file`` and
    ``blocks``), ``findings_left_off`` and ``proofs``; for a directory also ``latest``, the newest batch that can be
    restored; for a job also ``job_id``, ``created_at``, ``cut`` and ``problem``. The verdict is ``"startable"`` (Spark
    can start from it unchanged), ``"restorable"`` (only an older batch can be restored) or ``"not_restorable"``. A
    failed read fails the task, and the task's retries try again.

    :param job_id: Job whose checkpoint is verified; leave it out for a directory.
    :param start_from: ``"latest"``, ``"checkpoint-<n>"``, ``"savepoint-<id>"`` or ``"before <time>"``. Only this
        checkpoint is judged: there is no fallback to an older one.
    :param directory: Checkpoint directory of a single query, managed or not, that the worker can read: a path, or
        ``s3://bucket/prefix`` with the worker's own credentials. Needs no connection.
    :param sink: Output directory of that query's file sink, judged together with the checkpoint.
    :param depth: ``"quick"``: names, sizes, logs; ``"full"``: every byte; ``"prove"``: Spark loads the state from a
        copy on the worker, and for a job also starts the job's application on it, without sinks.
    :param spark_version: Spark release that is to start from the checkpoint; the installed release by default. Not with
        ``"prove"``.
    :param start: With ``"prove"`` and a job: start its application; otherwise only its state is loaded.
    :param heap: With ``"prove"``: memory of Spark's JVM.
    :param deadline: With ``"prove"``: longest time for Spark per query, a timedelta or seconds.
    :param fail_on: Verdict that fails the task for good: ``"not_startable"``, ``"not_restorable"`` or ``"nothing"``.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    """

    template_fields: Sequence[str] = (
        *SparkHaBaseOperator.template_fields,
        "start_from",
        "directory",
        "sink",
        "depth",
        "spark_version",
        "start",
        "heap",
        "deadline",
        "fail_on",
    )

    def __init__(
        self,
        *,
        job_id: str = "",
        start_from: str = "latest",
        directory: str | None = None,
        sink: str | None = None,
        depth: str = "full",
        spark_version: str | None = None,
        start: bool | str = True,
        heap: str = "1g",
        deadline: timedelta | float | str = timedelta(minutes=10),
        fail_on: str = "not_startable",
        **kwargs: Any,
    ) -> None:
        super().__init__(job_id=job_id, **kwargs)
        self.start_from = start_from
        self.directory = directory
        self.sink = sink
        self.depth = depth
        self.spark_version = spark_version
        self.start = start
        self.heap = heap
        self.deadline = deadline
        self.fail_on = fail_on
        check_given(
            self,
            start_from=check_start,
            depth=one_of("depth", list(_DEPTHS)),
            fail_on=one_of("fail_on", list(FAIL_ON)),
            spark_version=release,
            start=flag("start"),
            heap=partial(check_memory, parameter="heap"),
            deadline=lambda value: seconds_of(value, "deadline"),
        )

    def execute(self, context: Any) -> dict[str, Any]:
        """Verify the checkpoint, log the findings and return them, or fail with the reason."""
        with airflow_errors():
            failing, depth = self._checked()
        result = self._of_directory(depth) if self.directory else self._of_job(depth, request_id(context))
        shown, verdict = result.to_json(), result.verdict
        rows = [(item.code.value, item.blocks, item.file) for item in result.findings]
        self.log.info("%s is %s:\n%s", result.subject, verdict.value, table(("finding", "blocks", "file"), rows))
        self.log.info("%s", json.dumps(shown["proofs"], indent=2))
        if verdict is StartVerdict.UNKNOWN:
            raise AirflowException(f"{result.subject} could not be judged: {because(result.why)}")
        if verdict in failing:
            raise AirflowFailException(f"{result.subject} is {verdict.value}: {because(result.why)}")
        return shown

    def _of_directory(self, depth: ProofDepth) -> VerdictView:
        from airflow_provider_ha.checkpoints.spark.places import directory_at  # noqa: PLC0415  # brings boto3
        from airflow_provider_ha.checkpoints.verify.verification import verify  # noqa: PLC0415  # not for the parser
        from airflow_provider_ha.jobs.verification.spark_proof import prove  # noqa: PLC0415  # the same

        named = str(self.directory)
        with airflow_errors():
            place, sink = directory_at(named), directory_at(self.sink) if self.sink else None
            if depth != "prove":
                report = verify(place, depth=depth, spark_version=self.spark_version or None, sink=sink)
                return directory_verdict(named, report)
            options = self._options()
            proof = prove(place, sink=sink, heap=options.heap, deadline=options.deadline)
        return directory_verdict(named, proof.verification, proof)

    def _of_job(self, depth: ProofDepth, request: str) -> VerdictView:
        from airflow_provider_ha.jobs.verification.job_verification import keep, verify_cut  # noqa: PLC0415  # brings kazoo and boto3

        release = self.spark_version or None
        with self.client() as client:
            job = client.context(self.job_id)
            found = verify_cut(
                job, self.start_from, depth=depth, by=request, spark_version=release, options=self._options()
            )
            keep(job, found, depth=depth, by=request, spark_version=release)
        return cut_verdict(self.job_id, found)

    def _options(self) -> ProofOptions:
        from airflow_provider_ha.jobs.verification.job_verification import ProofOptions  # noqa: PLC0415  # brings kazoo and boto3

        seconds = seconds_of(self.deadline, "deadline")
        limit = {} if seconds is None else {"deadline": seconds}
        return ProofOptions(start=as_flag(self.start), heap=self.heap, **limit)

    def _checked(self) -> tuple[set[StartVerdict], ProofDepth]:
        """Return the verdicts that fail the task, and the depth.

        :raises ConfigurationError: A parameter is invalid.
        """
        if bool(self.job_id) == bool(self.directory):
            raise ConfigurationError(
                f"job_id={self.job_id!r} and directory={self.directory!r} do not name one thing to verify",
                next_step="Name a job, or a directory",
            )
        if self.sink and not self.directory:
            raise ConfigurationError("a sink belongs to a directory", next_step="Leave it out: a job knows its sinks")
        if self.fail_on not in FAIL_ON:
            raise ConfigurationError(f"fail_on={self.fail_on!r} is unknown", next_step=f"Choose from {list(FAIL_ON)}")
        depth = _DEPTHS.get(self.depth)
        if depth is None:
            raise ConfigurationError(f"depth={self.depth!r} is unknown", next_step=f"Choose from {list(_DEPTHS)}")
        if depth == "prove" and self.spark_version:
            raise ConfigurationError(
                "a proof uses the installed Spark, and accepts no spark_version",
                next_step="Leave spark_version out, or use depth='full'",
            )
        return FAIL_ON[self.fail_on], depth


_DEPTHS: dict[str, Literal["quick", "full", "prove"]] = {"quick": "quick", "full": "full", "prove": "prove"}
