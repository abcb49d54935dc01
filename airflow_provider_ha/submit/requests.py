"""What can be asked of a job from outside, as values. Two requests with one ``request_id`` are one request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.jobs.model import HaOptions, OutputMode


LATEST = "latest"
FRESH = "fresh"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRequest:
    """Run a script as a highly available job.

    :param job_id: Stable id of the job: epochs, checkpoints and savepoints belong to it.
    :param request_id: Who asks. Asking again with one id finds the run again; only a FAILED one is repeated.
    :param application: Path of the PySpark script.
    :param name: Spark's application name; the job id when left out.
    :param arguments: The script's arguments.
    :param py_files: Zips, wheels, eggs and modules for ``--py-files``.
    :param files: Data files for ``--files``.
    :param jars: Jars for ``--jars``.
    :param packages: Maven coordinates for ``--packages``.
    :param conf: Spark conf; travels in a file that only its owner can read.
    :param env: Environment of the driver.
    :param master: Spark master.
    :param driver_memory: Memory of the driver's JVM: ``"1g"``.
    :param options: How available the job is to be.
    :param start_from: ``"latest"`` (from nothing when the job has no checkpoint), ``"fresh"`` (from nothing although
        there is state), ``"checkpoint-<n>"`` or ``"savepoint-<id>"``.
    """

    job_id: str
    request_id: str
    application: str
    name: str | None = None
    arguments: Sequence[str] = ()
    py_files: Sequence[str] = ()
    files: Sequence[str] = ()
    jars: Sequence[str] = ()
    packages: Sequence[str] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    master: str = "local[*]"
    driver_memory: str | None = None
    options: HaOptions = field(default_factory=HaOptions)
    start_from: str = LATEST


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """Run a job from a checkpoint or savepoint, as a new run.

    What is ``None`` is as in the graph that wrote the checkpoint.

    :param job_id: Job that gets the new run.
    :param request_id: Who asks, as in :class:`SubmitRequest`.
    :param source_job: Job that the checkpoint belongs to; *job_id* when left out.
    :param want: ``"latest"``, ``"checkpoint-<n>"``, ``"savepoint-<id>"`` or ``"before <time>"``
        (:mod:`~airflow_provider_ha.checkpoints.restore.wanted`).
    :param fallback: Whether an older candidate may be taken when a newer one is known to be bad.
    :param output: What a file sink's log holds when the output directory is another one.
    :param allow: Verdicts that are accepted.
    """

    job_id: str
    request_id: str
    source_job: str | None = None
    want: str = LATEST
    fallback: bool = True
    output: OutputMode = OutputMode.CONTINUE
    allow: frozenset[Verdict] = frozenset({Verdict.SAFE})
    application: str | None = None
    name: str | None = None
    arguments: Sequence[str] | None = None
    py_files: Sequence[str] | None = None
    files: Sequence[str] | None = None
    jars: Sequence[str] | None = None
    packages: Sequence[str] | None = None
    conf: Mapping[str, str] | None = None
    env: Mapping[str, str] | None = None
    master: str | None = None
    driver_memory: str | None = None
    options: HaOptions | None = None


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
