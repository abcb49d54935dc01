"""Run a job from a checkpoint or savepoint."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.compat.sdk import AirflowProviderDeprecationWarning
from airflow_provider_ha.control.job.requests import (
    LATEST,
    RestoreRequest,
    SubmittedRun,
    accepted,
    check_start,
    if_lost,
    named_directories,
)
from airflow_provider_ha.control.job.requests import claim_mode as as_claim_mode
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.host.executors import check_possible
from airflow_provider_ha.jobs.model import OutputMode
from airflow_provider_ha.jobs.options.conf_keys import check_keys
from airflow_provider_ha.jobs.options.given_options import check_memory
from airflow_provider_ha.names import check_job_id
from airflow_provider_ha.operators._given import check_given, lists, number_of, one_of, whole_number
from airflow_provider_ha.operators._run import SparkHaRunOperator


if TYPE_CHECKING:
    from airflow_provider_ha.control.job.job_owner import Acting
    from airflow_provider_ha.control.job_client import JobClient


__all__ = ["SparkHaRestoreOperator"]

_ADOPT = "adopt is deprecated: name the directories in start_from"


class SparkHaRestoreOperator(SparkHaRunOperator):
    """Start a new run of a job from a checkpoint or savepoint, its own or another job's.

    The plan is made first, and refused unless its verdict is in *accept_verdicts*: ``SAFE`` means that no row
    is lost and none is written twice. What is left out of the overrides is as in the graph that wrote the checkpoint.

    Returns ``job_id``, ``run``, ``epoch`` and ``state``.

    :param job_id: Job that gets the new run.
    :param claim_mode: ``"NO_CLAIM"``: what is restored from stays its owner's and is never changed. ``"CLAIM"``: a
        savepoint of the job, or what is adopted, becomes the job's, which removes it once newer checkpoints subsume it.
    :param source_job: Job that the checkpoint belongs to; *job_id* when left out.
    :param start_from: ``"latest"``, ``"checkpoint-<n>"``, ``"savepoint-<id>"`` (also the beginning of an id, or a
        label) or ``"before <time>"``; or checkpoint directories that Spark wrote elsewhere: a path whose last name is
        the query's, or query -> path.
    :param sinks: Of such directories: query -> output directory of its file sink, or ``"foreachBatch"``, or another
        format.
    :param adopt: Such directories, as before 0.2. Use *start_from*.
    :param fallback: Whether an older candidate may be taken when a newer one is known to be bad.
    :param output_mode: For another output directory: ``"continue"`` (its log names the old files) or ``"fresh"`` (it
        holds only what is new).
    :param accept_verdicts: Verdicts that are accepted, each by its own name.
    :param kafka_bootstrap: Query -> ``host:port,host:port`` of the brokers that it reads from.
    :param kafka_properties: File of Kafka client properties on the worker, readable by its owner only.
    :param accept_unverified: Queries for which unverified facts are accepted; judged as ``LOSS_POSSIBLE``.
    :param reset_query_ids: Queries that get a fresh query id, so that their Delta table skips nothing.
    :param repeatable: Queries whose output a batch that comes again leaves as it was; by default as before.
    :param allow_new_queries: Whether the script may start queries of other names after a loss; by default as before.
    :param application: Path of another script.
    :param arguments: Other arguments.
    :param conf: Another Spark conf.
    :param env: Another environment of the driver.
    :param master: Another Spark master.
    :param seen_run: Newest run of the job when the restore was decided, 0 for none: refused when it has had another one
        since.
    :param allow_remote_executors: Allow a master that is not local. Nothing then proves that the executors of a lost
        driver are dead.
    :param driver_memory: Another memory of the driver's JVM.
    :param name: Another application name.
    :param wait_for: ``"running"``: succeed once a leader is there, its epoch is known and it says RUNNING: each query
        that the script has started has committed a batch, or its first trigger found no data.
        ``"finished"``: follow the run to its end, and submit it again whenever its driver is lost.
    :param if_lost: What to do when the job has a live run that has lost its driver: ``"restart"`` ends it and restores,
        ``"recover"`` goes on with it instead and follows it. Without it the restore is refused.
    :param force: Act although the job belongs to another DAG (``job_owner`` of the operator that submitted it).
    :param when_killed: What a user's mark-failed or mark-success of the waiting task does to the job: ``"detach"``
        (nothing), ``"stop_with_checkpoint"`` or ``"cancel"``. A clear never touches it: the next try attaches again.
    :param openlineage_inject_parent_job_info: Whether the driver's OpenLineage events name this task as their parent;
        by default what ``[openlineage] spark_inject_parent_job_info`` says, which is off.
    :param openlineage_inject_transport_info: Whether the driver sends them to where the worker sends its own; by
        default what ``[openlineage] spark_inject_transport_info`` says, which is off. One with a key is left out.
    :param retries: Tries after the first one when the DAG sets none: a try costs nothing, it finds its run again.
    :param retry_delay: Time between two tries; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Connection of type ``spark_ha``.
    :param poll_interval: Seconds between two looks at a job without a leader; a watched change wakes it earlier.
    """

    template_fields: Sequence[str] = (
        *SparkHaRunOperator.template_fields,
        "source_job",
        "start_from",
        "claim_mode",
        "adopt",
        "sinks",
        "output_mode",
        "accept_verdicts",
        "kafka_bootstrap",
        "kafka_properties",
        "accept_unverified",
        "reset_query_ids",
        "repeatable",
        "seen_run",
        "application",
        "arguments",
        "conf",
        "env",
        "master",
        "driver_memory",
        "name",
    )
    template_fields_renderers = {"conf": "json", "env": "json"}

    def __init__(
        self,
        *,
        source_job: str | None = None,
        start_from: str | Mapping[str, str] = "latest",
        fallback: bool = True,
        claim_mode: str = "NO_CLAIM",
        adopt: str | Mapping[str, str] = "",
        sinks: Mapping[str, str] | None = None,
        output_mode: str = "continue",
        accept_verdicts: Sequence[str] = ("SAFE",),
        kafka_bootstrap: Mapping[str, str] | None = None,
        kafka_properties: str | None = None,
        accept_unverified: Sequence[str] = (),
        reset_query_ids: Sequence[str] = (),
        repeatable: Sequence[str] | None = None,
        allow_new_queries: bool | None = None,
        application: str | None = None,
        arguments: Sequence[str] | None = None,
        conf: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        master: str | None = None,
        driver_memory: str | None = None,
        name: str | None = None,
        seen_run: int | str | None = None,
        allow_remote_executors: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source_job = source_job
        self.start_from = start_from
        self.fallback = fallback
        self.claim_mode = claim_mode
        if adopt:
            warnings.warn(_ADOPT, AirflowProviderDeprecationWarning, stacklevel=2)
        self.adopt = adopt
        self.sinks = sinks
        self.output_mode = output_mode
        self.accept_verdicts = accept_verdicts
        self.kafka_bootstrap = kafka_bootstrap
        self.kafka_properties = kafka_properties
        self.accept_unverified = accept_unverified
        self.reset_query_ids = reset_query_ids
        self.repeatable = repeatable
        self.allow_new_queries = allow_new_queries
        self.application = application
        self.arguments = arguments
        self.conf = conf
        self.env = env
        self.master = master
        self.driver_memory = driver_memory
        self.name = name
        self.seen_run = seen_run
        self.allow_remote_executors = allow_remote_executors
        check_given(
            self,
            source_job=check_job_id,
            start_from=partial(check_start, directories=True),
            claim_mode=as_claim_mode,
            output_mode=one_of("output_mode", [mode.value for mode in OutputMode]),
            accept_verdicts=accepted,
            seen_run=whole_number("seen_run"),
            master=check_possible,
            driver_memory=partial(check_memory, parameter="driver_memory"),
            conf=check_keys,
            **lists("arguments", "accept_unverified", "reset_query_ids", "repeatable"),
        )

    def acting(self, context: Any) -> Acting:
        """Return the identity of the task, with the run that was seen."""
        return replace(super().acting(context), run=number_of(self.seen_run, "seen_run"))

    def start(self, job: JobClient, request: str) -> SubmittedRun:
        """Plan and start the restore, or find its run again."""
        return job.restore(self.restore_request(request))

    def restore_request(self, request: str) -> RestoreRequest:
        """Return the request. A template that renders to nothing means "as it was".

        :raises ConfigurationError: *output_mode*, *claim_mode* or *accept_verdicts* names what does not exist.
        """
        directories = named_directories(self.adopt or self.start_from)
        try:
            output, accept_verdicts = (
                OutputMode(self.output_mode),
                frozenset(Verdict(verdict) for verdict in self.accept_verdicts),
            )
        except ValueError as error:
            modes, verdicts = [mode.value for mode in OutputMode], [verdict.value for verdict in Verdict]
            next_step = f"output_mode is one of {modes}, accept_verdicts a list of {verdicts}"
            raise ConfigurationError(
                f"the restore of job {self.job_id!r} cannot be requested: {error}", next_step=next_step
            ) from error
        return RestoreRequest(
            job_id=self.job_id,
            request_id=request,
            source_job=self.source_job or None,
            start_from=LATEST if directories else str(self.start_from),
            fallback=self.fallback,
            output=output,
            accept_verdicts=accept_verdicts,
            claim_mode=as_claim_mode(self.claim_mode),
            adopt=directories,
            sinks=dict(self.sinks or {}),
            kafka_bootstrap=dict(self.kafka_bootstrap or {}),
            kafka_properties=self.kafka_properties or None,
            accept_unverified=frozenset(self.accept_unverified or ()),
            reset_query_ids=frozenset(self.reset_query_ids or ()),
            repeatable=tuple(self.repeatable) if self.repeatable else None,
            allow_new_queries=self.allow_new_queries,
            application=self.application or None,
            name=self.name or None,
            arguments=self.argument_words() or None,
            conf={key: str(value) for key, value in self.conf.items()} if self.conf else None,
            env={key: str(value) for key, value in self.env.items()} if self.env else None,
            master=self.master or None,
            driver_memory=self.driver_memory or None,
            allow_remote_executors=self.allow_remote_executors,
            if_lost=if_lost(self.if_lost),
            lineage=self.lineage_conf,
        )
