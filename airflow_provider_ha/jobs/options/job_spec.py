"""Spec of a job: the request of a user, and the only declaration of a submission's options.

Operator, command and the reference page derive names, types, defaults, checks and descriptions from :class:`JobSpec`
(:mod:`~airflow_provider_ha.jobs.options.declaration`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, PlainValidator, ValidationInfo
from pydantic.dataclasses import dataclass

from airflow_provider_ha.checkpoints.ownership import ClaimMode
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.engines.table import DEFAULT_ENGINE, ENTRIES
from airflow_provider_ha.jobs.drivers.spark_release import check_possible
from airflow_provider_ha.jobs.model import OutputMode
from airflow_provider_ha.jobs.options.conf import check_conf
from airflow_provider_ha.jobs.options.declaration import INTERNAL, names, option, options_of, texts, words
from airflow_provider_ha.jobs.options.job_options import HaOptions, KafkaBootstrap, Queries, Resources, memory
from airflow_provider_ha.jobs.runs.watchers import KillPolicy
from airflow_provider_ha.jobs.submit.requests import FRESH, LATEST, LostRunPolicy, check_start
from airflow_provider_ha.names import check_job_id
from airflow_provider_ha.query_names import query_directory
from airflow_provider_ha.records import Model


_TARGET = {"group": "Where it runs", "holder": "target"}
_ENGINES = [f'``"{entry.name}"`` ({entry.drivers})' for entry in ENTRIES.values()]
_APPLICATION = {"group": "Application"}
_START = {"group": "Start", "holder": "start"}
_HA = {"group": "High availability", "holder": "ha"}
_COORDINATE_PARTS = 3


def _start(value: Any, info: ValidationInfo) -> str | Mapping[str, str]:
    return _from(value, info, FRESH)


def _restored_start(value: Any, info: ValidationInfo) -> str | Mapping[str, str]:
    return _from(value, info)


def _from(value: Any, info: ValidationInfo, *words: str) -> str | Mapping[str, str]:
    if isinstance(value, Mapping):
        return texts(value, info)
    check_start(str(value), words=words, directories=True)
    return str(value)


def _name(value: str) -> str:
    if not value.isprintable():
        raise ConfigurationError(
            f"name={value!r} has characters that cannot be shown", next_step="Write it in one line, without tabs"
        )
    return value


def _master(value: str) -> str:
    check_possible(value)
    return value


def _engine(value: str, info: ValidationInfo) -> str:
    if info.context and value not in ENTRIES:
        raise ConfigurationError(f"engine {value!r} is not known here", next_step=f"Choose from {sorted(ENTRIES)}")
    return value


def _conf(value: dict[str, str]) -> dict[str, str]:
    check_conf(value)
    return value


def _env(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if "=" in name or "\0" in name:
            shown = name.partition("=")[0]  # the value may be a secret
            raise ConfigurationError(f"has a name with an equals sign, {shown!r}", next_step="Write names without it")
    return value


def _coordinates(value: Sequence[str]) -> Sequence[str]:
    for each in value:
        if len([part for part in each.replace("/", ":").split(":") if part.strip()]) != _COORDINATE_PARTS:
            raise ConfigurationError(
                f"packages names {each!r}, which is no Maven coordinate", next_step="Write group:artifact:version"
            )
    return value


Words = Annotated[Sequence[str], PlainValidator(words)]
Texts = Annotated[Mapping[str, str], PlainValidator(texts)]
Place = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, PurePath) else value)]
Conf = Annotated[Texts, AfterValidator(_conf)]
Env = Annotated[Texts, AfterValidator(_env)]
Packages = Annotated[Words, AfterValidator(_coordinates)]
Master = Annotated[str, AfterValidator(_master)]
Name = Annotated[str, AfterValidator(_name)]
DriverMemory = Annotated[str, memory("driver_memory")]
StartFrom = Annotated[str | Mapping[str, str], PlainValidator(_start)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlace:
    """The place of a job's drivers: this host, or the place that a connection names."""

    master: str = "local[*]"
    engine: str = DEFAULT_ENGINE
    engine_options: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def options(
        self, master: str | None, engine: str | None, engine_options: Mapping[str, str] | None
    ) -> dict[str, Any]:
        """Return the options of a spec for the place; given options replace the connection's."""
        engine = engine or self.engine
        of_connection = self.engine_options if engine == self.engine else {}  # another engine has other options
        return {
            "master": master or self.master,
            "engine": engine,
            "engine_options": {**of_connection, **(engine_options or {})},
        }


class Start(Model):
    """Options of a start from any *start_from*."""

    model_config = ConfigDict(extra="forbid")

    sinks: Texts = option(
        {},
        "For checkpoint directories in *start_from*: query -> output directory of its file sink, or "
        '``"foreachBatch"``, or another format.',
        shown={**_START, "metavar": "[QUERY=]PATH|FORMAT"},
    )
    claim_mode: ClaimMode = option(
        ClaimMode.NO_CLAIM,
        '``"NO_CLAIM"``: the source of the start stays its owner\'s. ``"CLAIM"``: it becomes the job\'s, which removes '
        "it once newer checkpoints subsume it.",
        shown=_START,
    )
    accept_verdicts: frozenset[Verdict] = option(
        frozenset({Verdict.SAFE}),
        "Accepted verdicts of the start.",
        shown={
            **_START,
            "command": "A verdict besides SAFE that is accepted; repeatable.",
        },
    )
    if_lost: LostRunPolicy | None = option(
        None,
        "Action of a task of a new DAG run when the job has lost its driver. With the same graph the lost run is "
        "recovered and followed. Another graph (script, arguments, conf, options) is refused, unless this is "
        '``"recover"`` (recover the old graph) or ``"restart"`` (end the lost run, and start a new one with the new '
        'graph from *start_from*, by default the latest checkpoint). With ``start_from="fresh"`` ``"restart"`` also '
        "consents to start a job from nothing that only storage knows, as after a loss of ZooKeeper's data.",
        shown={
            **_START,
            "command": "The job has a live run that has lost its driver, and another graph: restart ends it and starts "
            "this run, recover continues it. Without it the submission is refused.",
        },
    )


class JobSpec(Model):
    """A script to run as a highly available job."""

    model_config = ConfigDict(extra="forbid")

    job_id: Annotated[str, AfterValidator(check_job_id)] = option(
        ..., "Stable id of the job: epochs, checkpoints and savepoints belong to it.", shown={"metavar": "JOB"}
    )
    # From a task or a command: a repeated id finds the run again; only a FAILED run is repeated.
    request_id: str = option(..., "Id of the request.", shown=INTERNAL)
    application: Place = option(
        ...,
        "Path of the PySpark script; the modules in its directory that it imports travel with it.",
        shown={"command": "The PySpark script."},
    )
    arguments: Words = option(
        (),
        "The script's arguments. No place for secrets: the job graph holds them as they are.",
        shown={"command": "The script's arguments, after `--`; no place for secrets."},
    )
    name: Name | None = option(None, "Spark's application name; the job id when left out.", shown=_APPLICATION)
    conf: Conf = option(
        {},
        "Spark conf; travels in a file that only its owner can read.",
        shown={
            **_APPLICATION,
            "metavar": "KEY=VALUE",
            "command": "Spark conf; repeatable. Every user of this host can read a command line: write secrets into "
            "--properties-file.",
        },
    )
    env: Env = option(
        {},
        "Environment of the driver.",
        shown={
            **_APPLICATION,
            "metavar": "NAME[=VALUE]",
            "command": "Environment of the driver; repeatable. NAME alone takes the value that this command has, so "
            "that a secret is not in the process list.",
        },
    )
    py_files: Words = option((), "Zips, wheels, eggs and modules for ``--py-files``.", shown=_APPLICATION)
    files: Words = option((), "Data files for ``--files``.", shown=_APPLICATION)
    jars: Words = option((), "Jars for ``--jars``.", shown=_APPLICATION)
    archives: Words = option(
        (),
        "Archives for ``--archives``, unpacked for driver and executors: ``env.tar.gz#environment`` is the directory "
        "``environment``. A packed environment travels so, with ``spark.pyspark.python`` in *conf*.",
        shown=_APPLICATION,
    )
    packages: Packages = option((), "Maven coordinates for ``--packages``.", shown=_APPLICATION)
    master: Master = option(
        "local[*]",
        "Spark master: ``local``, ``local[...]``, ``local-cluster[...]``, or with *allow_remote_executors* that of a "
        "cluster. By default that of *spark_conn_id*, else ``local[*]``.",
        shown={**_TARGET, "connection": True},
    )
    engine: Annotated[str, AfterValidator(_engine)] = option(
        DEFAULT_ENGINE,
        f"Engine that runs the driver: {' or '.join(_ENGINES)}. By default that of *spark_conn_id*, else "
        f'``"{DEFAULT_ENGINE}"``.',
        shown={**_TARGET, "connection": True},
    )
    engine_options: Texts = option(
        {},
        '``"python"``: interpreter of the driver, which has this package and pyspark; by default that of the task. '
        "``\"spark_home\"``: Spark's directory on the driver's host; by default ``SPARK_HOME``, else pyspark. The "
        "guide for standalone clusters lists further options.",
        shown={
            **_TARGET,
            "connection": True,
            "metavar": "NAME=VALUE",
            "command": "Option of the engine; repeatable.",
        },
    )
    driver_memory: DriverMemory | None = option(
        None, 'Memory of the driver\'s JVM: ``"1g"``.', shown={"group": "Where it runs"}
    )
    resources: Resources = Resources()
    start_from: StartFrom = option(
        LATEST,
        '``"latest"`` (from nothing when the job has no checkpoint), ``"fresh"`` (from nothing although there is '
        'state; ``LOSS_POSSIBLE`` once another sink than files was given a batch), ``"checkpoint-<n>"``, '
        '``"savepoint-<id>"``, or checkpoint directories that Spark wrote elsewhere: a path whose last name is the '
        "query's, or query -> path.",
        shown={
            "group": "Start",
            "metavar": "WORD|[QUERY=]PATH",
            "command": "latest (from nothing when the job has no checkpoint), fresh, checkpoint-<n>, savepoint-<id>, "
            "or a checkpoint directory that Spark wrote elsewhere, once for each query. Default: latest.",
        },
    )
    start: Start = Start()
    job_owner: str | None = option(
        None,
        'Owner of the job from then on: the id of its DAG, ``"{{ dag.dag_id }}"``. Other DAGs and the command line '
        "are then refused unless they force it. Prevents accidents; it is no security.",
        shown={"group": "High availability", "holder": "start"},
    )
    ha: HaOptions = HaOptions()
    when_killed: KillPolicy = option(
        KillPolicy.DETACH,
        'Effect on the job when a user marks the waiting task failed or successful: ``"detach"`` (none), '
        '``"stop_with_checkpoint"`` or ``"cancel"``. All but ``"detach"`` need Airflow 3.3.',
        shown={**_HA, "of_task": True},
    )
    force: bool = option(
        False,  # noqa: FBT003  # a default
        "Whether the task acts although the job belongs to another DAG.",
        shown={**_START, "of_task": True},
    )
    # Conf for OpenLineage's listener in Spark, from Airflow; *conf* takes precedence.
    lineage: Texts = option({}, "Conf for OpenLineage's listener.", shown=INTERNAL)


def _other(name: str, default: Any = None) -> Any:
    """Declare an option of a restore that replaces an option of the submission; the default keeps it."""
    declared = options_of(JobSpec)[name]
    text = f"Replaces the value of the submission: {declared.field.description}"
    shown = {key: value for key, value in declared.shown.items() if key != "command"}
    return option(default, text, shown={**shown, "connection": True})


def _as_submitted(name: str) -> Any:
    """Declare an option of a restore that is also an option of a submission."""
    declared = options_of(JobSpec)[name]
    return option(declared.field.default, declared.field.description or "", shown=declared.shown)


QueryNames = Annotated[frozenset[str], PlainValidator(names)]


@dataclass(frozen=True, kw_only=True)
class RestoreRequest:
    """A restore: a new run of a job from a checkpoint or savepoint.

    An option that is ``None`` is as in the graph that wrote the checkpoint.
    """

    job_id: str = option(..., "Job that receives the new run.", shown=INTERNAL)
    request_id: str = option(..., "Id of the request.", shown=INTERNAL)
    source_job: Annotated[str, AfterValidator(check_job_id)] | None = option(
        None,
        "Job that the checkpoint belongs to; *job_id* when left out.",
        shown={
            "metavar": "JOB",
            "command": "Job that the checkpoint belongs to. Default: the same job.",
        },
    )
    start_from: Annotated[str | Mapping[str, str], PlainValidator(_restored_start)] = option(
        LATEST,
        '``"latest"``, ``"checkpoint-<n>"``, ``"savepoint-<id>"`` (also the beginning of an id, or a label) or '
        '``"before <time>"``; or checkpoint directories that Spark wrote elsewhere: a path whose last name is the '
        "query's, or query -> path.",
        shown={
            "metavar": "WORD|[QUERY=]PATH",
            "command": "latest, checkpoint-<n>, savepoint-<id> or 'before <time>', e.g. 14:05, 2026-11-21T14:05, "
            "14:05+00:00; or a checkpoint directory that Spark wrote elsewhere, a path, s3://bucket/prefix or "
            "hdfs://namenode:8020/path, once for each query of the script. Its last name is the query's when none is "
            "given. Default: latest.",
        },
    )
    # Query -> checkpoint directory that Spark wrote elsewhere; replaces *source_job* and *start_from*.
    adopt: Texts = option({}, "Directories of *start_from*.", shown=INTERNAL)
    fallback: bool = option(
        True,  # noqa: FBT003  # a default
        "Whether an older candidate may be taken when a newer one is known to be bad.",
    )
    output_mode: OutputMode = option(
        OutputMode.CONTINUE,
        'For another output directory: ``"continue"`` (its log names the old files) or ``"fresh"`` (it names only the '
        "new files).",
    )
    accept_verdicts: frozenset[Verdict] = _as_submitted("accept_verdicts")
    claim_mode: ClaimMode = _as_submitted("claim_mode")
    sinks: Texts = _as_submitted("sinks")
    if_lost: LostRunPolicy | None = option(
        None,
        'Action when the job has a live run that has lost its driver: ``"restart"`` ends it and restores, '
        '``"recover"`` continues it instead and follows it. By default the restore is refused.',
        shown={"holder": "start"},
    )
    accept_unverified: QueryNames = option(
        frozenset(),
        "Queries for which unverified facts are accepted; judged as ``LOSS_POSSIBLE``.",
        shown={"metavar": "QUERY"},
    )
    reset_query_ids: QueryNames = option(
        frozenset(),
        "Queries with a fresh query id, so that their Delta table skips no batch.",
        shown={"metavar": "QUERY"},
    )
    kafka_bootstrap: KafkaBootstrap = _other("kafka_bootstrap", default={})
    kafka_properties: str | None = _other("kafka_properties")
    repeatable: Queries | None = _other("repeatable")
    allow_new_queries: bool | None = _other("allow_new_queries")
    allow_remote_executors: bool | None = _other("allow_remote_executors")
    application: Place | None = _other("application")
    name: Name | None = _other("name")
    arguments: Words | None = _other("arguments")
    py_files: Words | None = _other("py_files")
    files: Words | None = _other("files")
    jars: Words | None = _other("jars")
    archives: Words | None = _other("archives")
    packages: Packages | None = _other("packages")
    conf: Conf | None = _other("conf")
    env: Env | None = _other("env")
    master: Master | None = _other("master")
    driver_memory: DriverMemory | None = _other("driver_memory")
    when_killed: KillPolicy = _as_submitted("when_killed")
    force: bool = _as_submitted("force")
    # From a submission that starts from checkpoint directories.
    options: HaOptions | None = option(None, "Options of the new run.", shown=INTERNAL)
    # As in a spec. The parent of an earlier run is not inherited.
    lineage: Texts = option({}, "Conf for OpenLineage's listener.", shown=INTERNAL)

    def __post_init__(self) -> None:
        """Encode the names of queries as names of their directories."""
        for name in ("adopt", "sinks", "kafka_bootstrap"):
            written = {query_directory(query): value for query, value in getattr(self, name).items()}
            object.__setattr__(self, name, written)
        for name in ("accept_unverified", "reset_query_ids"):
            object.__setattr__(self, name, frozenset(map(query_directory, getattr(self, name))))
