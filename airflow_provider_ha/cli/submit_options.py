"""What ``spark-ha job submit`` takes: the parameters of ``SparkHaSubmitOperator`` under the same names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.cli.adopted import adopted, start_words
from airflow_provider_ha.cli.conf_options import driver_environment, spark_conf
from airflow_provider_ha.cli.requests import operation_id
from airflow_provider_ha.cli.restore_options import KafkaBootstrap, KafkaProperties, by_query
from airflow_provider_ha.cli.savepoint_target import assigned
from airflow_provider_ha.cli.session import Target
from airflow_provider_ha.control.job.requests import IfLost, SubmitRequest
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.given_options import ha_options, resources
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.options.resources import Resources
from airflow_provider_ha.pointers.ownership import ClaimMode


_PANELS = {"app": "Application", "place": "Where it runs", "start": "What it starts from", "ha": "High availability"}
_HA = HaOptions()
_LIST = "Repeatable, or separated by commas."


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitWords:
    """The options of a submission as the user wrote them."""

    application: Annotated[str, typer.Argument(help="The PySpark script.", metavar="SCRIPT", show_default=False)]
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            help="The script's arguments, after `--`; no place for secrets.",
            metavar="[-- ARGUMENT...]",
            show_default=False,
        ),
    ] = None
    job_id: Annotated[
        str, typer.Option(help="Stable id of the job: epochs, checkpoints and savepoints belong to it.", metavar="JOB")
    ]
    request_id: Annotated[
        str | None,
        typer.Option(
            help="Id of the request: a repeated id finds the run again instead of making another. Default: a new id."
        ),
    ] = None
    name: Annotated[
        str | None, typer.Option(help="Spark's application name; default: the job id.", rich_help_panel=_PANELS["app"])
    ] = None
    conf: Annotated[
        list[str] | None,
        typer.Option(
            help="Spark conf; repeatable. Every user of this host can read a command line: write secrets into "
            "--properties-file.",
            metavar="KEY=VALUE",
            rich_help_panel=_PANELS["app"],
        ),
    ] = None
    properties_file: Annotated[
        Path | None,
        typer.Option(
            help="File of Spark conf in the form of spark-defaults.conf. Its values are not in the process list; "
            "--conf counts over it.",
            metavar="FILE",
            rich_help_panel=_PANELS["app"],
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(
            help="Environment of the driver; repeatable. NAME alone takes the value that this command has, so that "
            "a secret is not in the process list.",
            metavar="NAME[=VALUE]",
            rich_help_panel=_PANELS["app"],
        ),
    ] = None
    py_files: Annotated[
        list[str] | None,
        typer.Option(help=f"Zips, wheels, eggs and modules. {_LIST}", rich_help_panel=_PANELS["app"]),
    ] = None
    files: Annotated[list[str] | None, typer.Option(help=f"Data files. {_LIST}", rich_help_panel=_PANELS["app"])] = None
    jars: Annotated[list[str] | None, typer.Option(help=f"Jars. {_LIST}", rich_help_panel=_PANELS["app"])] = None
    archives: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Archives that are unpacked for driver and executors: env.tar.gz#environment. {_LIST}",
            rich_help_panel=_PANELS["app"],
        ),
    ] = None
    packages: Annotated[
        list[str] | None, typer.Option(help=f"Maven coordinates. {_LIST}", rich_help_panel=_PANELS["app"])
    ] = None
    repositories: Annotated[
        str | None, typer.Option(help="Maven repositories, separated by commas.", rich_help_panel=_PANELS["app"])
    ] = None
    exclude_packages: Annotated[
        str | None,
        typer.Option(help="group:artifact that are left out, separated by commas.", rich_help_panel=_PANELS["app"]),
    ] = None
    spark_conn_id: Annotated[
        str | None,
        typer.Option(
            help="With `airflow ha`: a connection of type spark that names master and engine.",
            rich_help_panel=_PANELS["place"],
        ),
    ] = None
    master: Annotated[
        str | None, typer.Option(help="Spark master; default: local[*].", rich_help_panel=_PANELS["place"])
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            help="What runs the driver: local (this host; it outlives the command and the shell) or standalone. "
            "Default: that of --spark-conn-id, else local.",
            rich_help_panel=_PANELS["place"],
        ),
    ] = None
    engine_options: Annotated[
        list[str] | None,
        typer.Option(
            "--engine-option",
            "--engine-options",
            help="Option of the engine; repeatable.",
            metavar="NAME=VALUE",
            rich_help_panel=_PANELS["place"],
        ),
    ] = None
    allow_remote_executors: Annotated[
        bool,
        typer.Option(
            "--allow-remote-executors",
            help="Allow a master that is not local: nothing then proves that a lost driver's executors are dead.",
            rich_help_panel=_PANELS["place"],
        ),
    ] = False
    driver_memory: Annotated[
        str | None,
        typer.Option(help="Memory of the driver's JVM: 1g. Default: Spark's.", rich_help_panel=_PANELS["place"]),
    ] = None
    driver_class_path: Annotated[
        str | None,
        typer.Option(help="Class path of the driver's JVM. Default: Spark's.", rich_help_panel=_PANELS["place"]),
    ] = None
    executor_cores: Annotated[
        int | None,
        typer.Option(help="Cores of each executor. Default: Spark's.", min=1, rich_help_panel=_PANELS["place"]),
    ] = None
    executor_memory: Annotated[
        str | None,
        typer.Option(help="Memory of each executor: 2g. Default: Spark's.", rich_help_panel=_PANELS["place"]),
    ] = None
    total_executor_cores: Annotated[
        int | None,
        typer.Option(
            help="Cores of all executors together. Default: Spark's.", min=1, rich_help_panel=_PANELS["place"]
        ),
    ] = None
    num_executors: Annotated[
        int | None, typer.Option(help="How many executors. Default: Spark's.", min=1, rich_help_panel=_PANELS["place"])
    ] = None
    start_from: Annotated[
        list[str] | None,
        typer.Option(
            help="latest (from nothing when the job has no checkpoint), fresh, checkpoint-<n>, savepoint-<id>, or a "
            "checkpoint directory that Spark wrote elsewhere, once for each query. Default: latest.",
            metavar="WORD|[QUERY=]PATH",
            rich_help_panel=_PANELS["start"],
        ),
    ] = None
    sinks: Annotated[
        list[str] | None,
        typer.Option(
            "--sink",
            "--sinks",
            help="Of such a directory: output directory of the query's file sink, or 'foreachBatch', or another "
            "sink's format; repeatable.",
            metavar="[QUERY=]PATH|FORMAT",
            rich_help_panel=_PANELS["start"],
        ),
    ] = None
    claim_mode: Annotated[
        ClaimMode,
        typer.Option(
            help="NO_CLAIM: what it starts from stays its owner's. CLAIM: it becomes the job's.",
            rich_help_panel=_PANELS["start"],
        ),
    ] = ClaimMode.NO_CLAIM
    accept_verdicts: Annotated[
        list[Verdict] | None,
        typer.Option(
            "--accept-verdict",
            "--accept-verdicts",
            help="A verdict besides SAFE that is accepted; repeatable.",
            rich_help_panel=_PANELS["start"],
        ),
    ] = None
    if_lost: Annotated[
        IfLost | None,
        typer.Option(
            help="The job has a live run that has lost its driver, and another graph: restart ends it and makes this "
            "run, recover goes on with it. Without it the submission is refused.",
            rich_help_panel=_PANELS["start"],
        ),
    ] = None
    job_owner: Annotated[
        str | None,
        typer.Option(
            help="Whose job it is from then on: the id of a DAG. Others are refused unless they force it.",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = None
    restart_attempts: Annotated[
        int | None,
        typer.Option(
            help="How often a lost driver is submitted again; default: no limit.", rich_help_panel=_PANELS["ha"]
        ),
    ] = None
    restart_delay: Annotated[
        float | None,
        typer.Option(
            help="Initial delay before a failed driver is restarted, in seconds; doubles each time. "
            f"Default: {_HA.restart_delay:g}.",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = None
    restart_delay_max: Annotated[
        float | None,
        typer.Option(
            help=f"Upper bound of that delay in seconds. Default: {_HA.restart_delay_max:g}.",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = None
    restart_in_place: Annotated[
        bool | None,
        typer.Option(
            "--restart-in-place/--no-restart-in-place",
            help="Whether the host that has lost the driver starts it again by itself; default: yes.",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = None
    application_failures: Annotated[
        int | None,
        typer.Option(
            help="How often the same error of the application at the same batch ends a run that has worked; -1: never. "
            f"Default: {_HA.application_failures}.",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = None
    application_failure_period: Annotated[
        float | None,
        typer.Option(
            help="Seconds between the first and the last of these, at least. "
            f"Default: {_HA.application_failure_period:g}.",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = None
    start_timeout: Annotated[
        float | None,
        typer.Option(
            help="Seconds that a submission may take until it leads, unless its engine reports it as running. "
            f"Default: {_HA.start_timeout:g}.",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = None
    checkpoint_interval: Annotated[
        float | None,
        typer.Option(
            help=f"Seconds between two checkpoints. Default: {_HA.checkpoint_interval:g}.",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = None
    retained_checkpoints: Annotated[
        int | None,
        typer.Option(
            help=f"How many checkpoints are kept. Default: {_HA.retained_checkpoints}.", rich_help_panel=_PANELS["ha"]
        ),
    ] = None
    allow_new_queries: Annotated[
        bool,
        typer.Option(
            "--allow-new-queries",
            help="The script may start queries of other names after a loss, in place of those that it had.",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = False
    repeatable: Annotated[
        list[str] | None,
        typer.Option(
            help="A batch of this query that comes again leaves its output as it was; may be repeated. Default: of no "
            "query is that known.",
            metavar="QUERY",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = None
    kafka_bootstrap: KafkaBootstrap = None
    kafka_properties: KafkaProperties = None
    driver_log_mb: Annotated[
        int | None,
        typer.Option(
            help=f"Megabytes from which on the driver's log is rotated. Default: {_HA.driver_log_mb}.",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = None
    driver_log_files: Annotated[
        int | None,
        typer.Option(
            help=f"How many files of it there are, of each attempt. Default: {_HA.driver_log_files}.",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = None
    stall_timeout: Annotated[
        float | None,
        typer.Option(
            help="Seconds in one trigger without a commit after which the job is STALLED; 0: never. "
            f"Default: {_HA.stall_timeout:g}.",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = None
    restart_stalled: Annotated[
        bool,
        typer.Option("--restart-stalled", help="Start a stalled job's driver again.", rich_help_panel=_PANELS["ha"]),
    ] = False
    metrics_port: Annotated[
        int | None,
        typer.Option(
            help="Port at which the driver serves metrics to Prometheus; 0: any free one. Default: none.",
            rich_help_panel=_PANELS["ha"],
        ),
    ] = None
    metrics_address: Annotated[
        str | None,
        typer.Option(help=f"Address of that port. Default: {_HA.metrics_address}.", rich_help_panel=_PANELS["ha"]),
    ] = None

    def request(self, target: Target) -> SubmitRequest:
        """Return the request to the job.

        :param target: Knows the connections of Airflow, when there are any.
        :raises ConfigurationError: A word cannot be read, or words do not fit one another.
        """
        where = target.driver_place(self.spark_conn_id)
        engine = self.engine or where.engine
        named = where.engine_options if engine == where.engine else {}  # another engine has other options
        start_from, sinks = self._start()
        return SubmitRequest(
            job_id=self.job_id,
            request_id=self.request_id or operation_id("submit"),
            application=self.application,
            name=self.name,
            arguments=tuple(self.arguments or ()),
            py_files=_split(self.py_files),
            files=_split(self.files),
            jars=_split(self.jars),
            archives=_split(self.archives),
            packages=_split(self.packages),
            conf=spark_conf(self.conf or [], self.properties_file),
            env=driver_environment(self.env or []),
            master=self.master or where.master,
            engine=engine,
            engine_options={**named, **assigned(self.engine_options or [], "--engine-option")},
            driver_memory=self.driver_memory,
            resources=resources(**{each.name: getattr(self, each.name) for each in fields(Resources)}),
            options=ha_options(
                restart_attempts=self.restart_attempts,
                restart_delay=self.restart_delay,
                restart_delay_max=self.restart_delay_max,
                restart_in_place=self.restart_in_place,
                application_failures=self.application_failures,
                application_failure_period=self.application_failure_period,
                start_timeout=self.start_timeout,
                checkpoint_interval=self.checkpoint_interval,
                retained_checkpoints=self.retained_checkpoints,
                allow_new_queries=self.allow_new_queries,
                repeatable=tuple(self.repeatable or ()),
                kafka_bootstrap=dict(by_query("--kafka-bootstrap", self.kafka_bootstrap)) or None,
                kafka_properties=self.kafka_properties,
                allow_remote_executors=self.allow_remote_executors,
                driver_log_mb=self.driver_log_mb,
                driver_log_files=self.driver_log_files,
                stall_timeout=self.stall_timeout,
                restart_stalled=self.restart_stalled,
                metrics_port=self.metrics_port,
                metrics_address=self.metrics_address,
            ),
            start_from=start_from,
            sinks=sinks,
            claim_mode=self.claim_mode,
            accept_verdicts=frozenset({Verdict.SAFE, *(self.accept_verdicts or [])}),
            owner=self.job_owner,
            if_lost=self.if_lost,
        )

    def _start(self) -> tuple[str | Mapping[str, str], Mapping[str, str]]:
        words = start_words(self.start_from)
        if words.directories:
            found = adopted(words.directories, self.sinks or [])
            return found.directories, found.sinks
        if self.sinks:
            raise ConfigurationError(
                f"--start-from {words.word} names no directories",
                next_step="Remove --sink: it applies only to directories",
            )
        return words.word, {}


def _split(values: Iterable[str] | None) -> list[str]:
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]
