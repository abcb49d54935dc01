"""What can be asked of a job from outside, as values. Two requests with one ``request_id`` are one request."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from pathlib import PurePosixPath

from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.checkpoints.restore.wanted import parse_wanted
from airflow_provider_ha.checkpoints.retention.policy import max_age_of
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.model import DEFAULT_ENGINE, OutputMode
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.options.resources import Resources
from airflow_provider_ha.pointers.ownership import ClaimMode
from airflow_provider_ha.query_names import QueryDirectory, is_query_directory, query_directory
from airflow_provider_ha.uris import split


LATEST = "latest"
FRESH = "fresh"
_MUCH_LATER = datetime(9000, 1, 1, tzinfo=timezone.utc)


class IfLost(str, Enum):
    """What a request does about a live run of another request that has lost its driver, and is not the same.

    ``RECOVER`` goes on with that run, from its own graph. ``RESTART`` ends it and makes the requested run, in
    one transaction.
    """

    RECOVER = "recover"
    RESTART = "restart"


def if_lost(word: str | None) -> IfLost | None:
    """Return the choice that a user writes; ``None`` for nothing, also from a template.

    :raises ConfigurationError: There is no such choice.
    """
    if word is None or str(word).strip() in {"", "None"}:
        return None
    try:
        return IfLost(word)
    except ValueError:
        choices = [choice.value for choice in IfLost]
        raise ConfigurationError(f"if_lost={word!r} is not known", next_step=f"Use one of {choices}") from None


def claim_mode(word: str) -> ClaimMode:
    """Return the claim mode that a user writes.

    :raises ConfigurationError: There is no such mode.
    """
    try:
        return ClaimMode(word)
    except ValueError:
        modes = [mode.value for mode in ClaimMode]
        raise ConfigurationError(f"claim mode {word!r} is not known", next_step=f"Use one of {modes}") from None


def accepted(words: Iterable[str]) -> frozenset[Verdict]:
    """Return the verdicts that a user writes.

    :raises ConfigurationError: There is no such verdict.
    """
    try:
        return frozenset(Verdict(word) for word in words)
    except ValueError as error:
        verdicts = [verdict.value for verdict in Verdict]
        raise ConfigurationError(f"accept_verdicts: {error}", next_step=f"Use a list of {verdicts}") from None


def named_directories(start_from: str | Mapping[str, str]) -> Mapping[str, str]:
    """Return query -> directory when *start_from* names directories; nothing when it is a word.

    :param start_from: A path, whose last name is the query's, or query -> path.
    """
    if not isinstance(start_from, str):
        return dict(start_from)
    if "/" not in start_from:
        return {}
    last = PurePosixPath(split(start_from).path).name
    # The directory of a query of ours has the name that it is written with; another one that of the query itself.
    return {QueryDirectory(last) if is_query_directory(last) else last: start_from}


def check_start(start_from: str | Mapping[str, str], *, words: Collection[str] = (), directories: bool = False) -> None:
    """Refuse what names no start. A moment may lie in the future: it may be over when the request is made.

    :param words: What else it may be.
    :param directories: Whether it may name directories.
    :raises ConfigurationError: It names nothing.
    """
    if start_from not in words and not (directories and named_directories(start_from)):
        parse_wanted(str(start_from), now=_MUCH_LATER)


def savepoint_arguments(
    schedule: str | None, retain: int | None, retain_days: float | None, label: str
) -> dict[str, object]:
    """Return the arguments of an operation that takes a savepoint.

    :raises ConfigurationError: They cannot be met, or a word has signs that no terminal shows: no manifest takes it.
    """
    for name, word in (("schedule", schedule), ("label", label)):
        if not (word or "").isprintable():
            raise ConfigurationError(
                f"{name} {word!r} has characters that cannot be shown", next_step="Write it in one line, without tabs"
            )
    if retain is not None and retain < 1:
        raise ConfigurationError(
            f"retain={retain} keeps no savepoint", next_step="Use 1 or more: the newest savepoint always stays"
        )
    max_age_of(retain_days)
    for name, limit in (("retain", retain), ("retain_days", retain_days)):
        if limit is not None and not schedule:
            raise ConfigurationError(
                f"{name} requires a schedule: only savepoints of a schedule are ever removed",
                next_step="Name the schedule that the savepoint belongs to",
            )
    arguments: dict[str, object] = {"schedule": schedule, "retain": retain, "label": label}
    if retain_days is not None:  # a caller of an earlier release that repeats its request sends the same arguments
        arguments["retain_days"] = retain_days
    return arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRequest:
    """Run a script as a highly available job.

    :param job_id: Stable id of the job: epochs, checkpoints and savepoints belong to it.
    :param request_id: Id of the request. A repeated id finds the run again; only a FAILED one is repeated.
    :param application: Path of the PySpark script.
    :param name: Spark's application name; the job id when left out.
    :param arguments: The script's arguments. No place for secrets: the job graph holds them as they are.
    :param py_files: Zips, wheels, eggs and modules for ``--py-files``.
    :param files: Data files for ``--files``.
    :param jars: Jars for ``--jars``.
    :param archives: Archives for ``--archives``, unpacked for driver and executors; ``env.tar.gz#env`` names the
        directory.
    :param packages: Maven coordinates for ``--packages``.
    :param conf: Spark conf; travels in a file that only its owner can read.
    :param env: Environment of the driver.
    :param master: Spark master.
    :param engine: Name of the engine that runs the drivers.
    :param engine_options: What it is configured with for this job (:mod:`~airflow_provider_ha.engines.registry`).
    :param driver_memory: Memory of the driver's JVM: ``"1g"``.
    :param resources: What the job asks Spark for beside that.
    :param options: How available the job is to be; a master that is not local needs ``allow_remote_executors``.
    :param lineage: Conf for OpenLineage's listener in Spark: what *conf* sets itself counts more.
    :param start_from: ``"latest"`` (from nothing when the job has no checkpoint), ``"fresh"`` (from nothing although
        there is state), ``"checkpoint-<n>"``, ``"savepoint-<id>"``, or checkpoint directories that Spark wrote
        elsewhere: a path, or query -> path (:mod:`~airflow_provider_ha.control.restore.adoption`).
    :param sinks: Of such directories: query -> output directory of its file sink, or the format of another sink.
    :param claim_mode: Whether the job becomes the owner of what it starts from.
    :param accept_verdicts: Verdicts that are accepted for what it starts from.
    :param owner: Whose job it is from then on, a DAG id (:mod:`~airflow_provider_ha.control.job.job_owner`).
    :param if_lost: What to do about a lost run whose graph or start is another one; ``None`` refuses it.
    """

    job_id: str
    request_id: str
    application: str
    name: str | None = None
    arguments: Sequence[str] = ()
    py_files: Sequence[str] = ()
    files: Sequence[str] = ()
    jars: Sequence[str] = ()
    archives: Sequence[str] = ()
    packages: Sequence[str] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    master: str = "local[*]"
    engine: str = DEFAULT_ENGINE
    engine_options: Mapping[str, str] = field(default_factory=dict)
    driver_memory: str | None = None
    resources: Resources = field(default_factory=Resources)
    options: HaOptions = field(default_factory=HaOptions)
    lineage: Mapping[str, str] = field(default_factory=dict)
    start_from: str | Mapping[str, str] = LATEST
    sinks: Mapping[str, str] = field(default_factory=dict)
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    accept_verdicts: frozenset[Verdict] = frozenset({Verdict.SAFE})
    owner: str | None = None
    if_lost: IfLost | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """Run a job from a checkpoint or savepoint, as a new run.

    What is ``None`` is as in the graph that wrote the checkpoint.

    :param job_id: Job that gets the new run.
    :param request_id: Id of the request, as in :class:`SubmitRequest`.
    :param source_job: Job that the checkpoint belongs to; *job_id* when left out.
    :param start_from: ``"latest"``, ``"checkpoint-<n>"``, ``"savepoint-<id>"`` or ``"before <time>"``
        (:mod:`~airflow_provider_ha.checkpoints.restore.wanted`).
    :param fallback: Whether an older candidate may be taken when a newer one is known to be bad.
    :param output: What a file sink's log holds when the output directory is another one.
    :param accept_verdicts: Verdicts that are accepted.
    :param claim_mode: Whether the job becomes the owner of the savepoint or of the directories.
    :param adopt: Query -> checkpoint directory that Spark wrote elsewhere, in place of *source_job* and *start_from*.
    :param sinks: With *adopt*: query -> output directory of its file sink, or the format of another sink.
    :param kafka_bootstrap: Query -> ``host:port,host:port`` of the brokers that it reads from; what is not named here
        is as in the options of the graph that wrote the checkpoint.
    :param kafka_properties: File of client properties, to log in there.
    :param accept_unverified: Queries for which unverified facts are accepted; judged as LOSS_POSSIBLE.
    :param reset_query_ids: Queries that get a fresh query id: their table skips none of their batches.
    :param repeatable: Queries whose output a batch that comes again leaves as it was, in place of what the options say
        (``HaOptions.repeatable``).
    :param allow_new_queries: In place of what the options say (``HaOptions.allow_new_queries``).
    :param allow_remote_executors: Allow a master that is not local; ``False`` leaves it to the options.
    :param if_lost: What to do when the job has a live run that has lost its driver; ``None`` refuses the restore.
    :param lineage: Conf for OpenLineage's listener in Spark. No parent of an earlier run is taken over.
    """

    job_id: str
    request_id: str
    source_job: str | None = None
    start_from: str = LATEST
    fallback: bool = True
    output: OutputMode = OutputMode.CONTINUE
    accept_verdicts: frozenset[Verdict] = frozenset({Verdict.SAFE})
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    adopt: Mapping[str, str] = field(default_factory=dict)
    sinks: Mapping[str, str] = field(default_factory=dict)
    kafka_bootstrap: Mapping[str, str] = field(default_factory=dict)
    kafka_properties: str | None = None
    accept_unverified: frozenset[str] = frozenset()
    reset_query_ids: frozenset[str] = frozenset()
    repeatable: tuple[str, ...] | None = None
    allow_new_queries: bool | None = None
    application: str | None = None
    name: str | None = None
    arguments: Sequence[str] | None = None
    py_files: Sequence[str] | None = None
    files: Sequence[str] | None = None
    jars: Sequence[str] | None = None
    archives: Sequence[str] | None = None
    packages: Sequence[str] | None = None
    conf: Mapping[str, str] | None = None
    env: Mapping[str, str] | None = None
    master: str | None = None
    driver_memory: str | None = None
    options: HaOptions | None = None
    allow_remote_executors: bool = False
    if_lost: IfLost | None = None
    lineage: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take the names of queries as their script has them."""
        for name in ("adopt", "sinks", "kafka_bootstrap"):
            written = {query_directory(query): value for query, value in getattr(self, name).items()}
            object.__setattr__(self, name, written)
        for name in ("accept_unverified", "reset_query_ids"):
            object.__setattr__(self, name, frozenset(map(query_directory, getattr(self, name))))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedRun:
    """The run that a request led to.

    :param run: Its number.
    :param attempt: Its newest submission to the engine.
    :param created: Whether this very call made the run; ``False`` when it was found again.
    """

    job_id: str
    run: int
    attempt: int
    created: bool
