"""Verification of a job's checkpoint or savepoint: lease, checks of all queries, proof, and record.

Invariant: the checkpoint is only read. The application is fetched from storage, as a restore on another host would do,
into a directory that is removed with the proof. The job's sinks and its lock are not touched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal

from airflow_provider_ha.checkpoints.model import QueryCut
from airflow_provider_ha.checkpoints.restore.select import RestoreSource, select
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.proof_copy import scratch
from airflow_provider_ha.checkpoints.verify.proof_protocol import Application
from airflow_provider_ha.checkpoints.verify.proof_result import Proof
from airflow_provider_ha.checkpoints.verify.proof_result import Proof as SparkProof
from airflow_provider_ha.checkpoints.verify.restorable import all_of
from airflow_provider_ha.checkpoints.verify.verification import Depth, verify
from airflow_provider_ha.checkpoints.verify.verification_report import Finding, VerificationReport
from airflow_provider_ha.errors import HaError, ObjectMissingError, StorageUnavailableError
from airflow_provider_ha.jobs.application.artifacts import fetch_application
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import Blob, JobGraph
from airflow_provider_ha.jobs.job_stores import checkpoint_store, held, savepoint_store, select_checkpoint
from airflow_provider_ha.jobs.verification.spark_proof import DEFAULT_DEADLINE, DEFAULT_HEAP, ProofProgress, prove
from airflow_provider_ha.jobs.verification.verification_records import (
    MOST_FINDINGS,
    FindingRecord,
    LastVerification,
    write_last_verification,
)
from airflow_provider_ha.storage.durable import private_directories
from airflow_provider_ha.storage.object_store import ObjectStore


PROOFS = "proofs"  # below this host's home directory


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofOptions:
    """Options of a proof.

    :param start: Whether to start the job's application on the checkpoint, in addition to loading its state.
    :param heap: Memory of the JVM, as ``1g``.
    :param deadline: Seconds that Spark may take for each query.
    """

    start: bool = True
    heap: str = DEFAULT_HEAP
    deadline: float = DEFAULT_DEADLINE


@contextmanager
def proof_place(job: JobContext) -> Iterator[Path]:
    """Yield an empty directory for a proof, below this host's home directory and outside all jobs.

    It is removed at the end of the block. The directory of a killed proof is removed by the next proof, of any job.

    :raises StorageUnavailableError: The directory cannot be created.
    """
    if job.config.home_root is None:
        job.roots.require()
    parent = job.config.home_path / PROOFS
    try:
        private_directories(parent)
    except OSError as error:
        raise StorageUnavailableError(
            f"cannot make {parent}: {error.strerror}",
            next_step="Check the permissions and the free space of the home root",
        ) from error
    with scratch(parent, parent) as place:
        yield place


def fetch(job: JobContext, graph: str, place: Path) -> Application:
    """Fetch the application of a job graph from storage into *place*.

    :param graph: Digest of the graph; empty for a checkpoint without a job.
    :raises ObjectMissingError: The graph, or a file of the application, is missing in storage.
    :raises RecordCorruptError: The graph or a file is damaged.
    """
    if not graph:
        raise ObjectMissingError(
            "it names no job graph, so its application is unknown",
            next_step="Let the job take its own savepoint, or only load the state (start=False)",
        )
    return application_of(job.store, job.graph(Blob(sha256=graph, size=0)), place)


def prove_cut(
    directory: Tree,
    queries: Mapping[str, QueryCut],
    place: Path,
    *,
    application: Application | None,
    options: ProofOptions,
    progress_to: Callable[[ProofProgress], None] = lambda _: None,
) -> dict[str, SparkProof]:
    """Prove every query of a cut that has committed a batch, in sequence.

    :param directory: A pin or a savepoint, with a directory per query.
    :param place: Directory for copies, which are removed afterwards.
    :param application: Application that starts the queries; ``None`` to only load their state.
    :param progress_to: Receives the current step, with the query's name.
    :raises StorageUnavailableError: A copy could not be made.
    """

    def named(query: str, now: ProofProgress) -> None:
        progress_to(replace(now, query=query))

    return {
        query: prove(
            directory / query,
            batch=part.batch,
            application=application,
            query=query,
            scratch_directory=place,
            heap=options.heap,
            deadline=options.deadline,
            progress_to=partial(named, query),
        )
        for query, part in queries.items()
        if part.batch >= 0
    }


def application_of(store: ObjectStore, graph: JobGraph, directory: Path) -> Application:
    """Return the application of a job graph, as its driver would run it.

    :param store: The job's storage.
    :param graph: Graph of the run that wrote the checkpoint or savepoint, which has the graph's digest.
    :param directory: Private directory for its files, created and removed by the caller.
    :raises ObjectMissingError: A file is missing in storage.
    :raises RecordCorruptError: A file has another digest, or a name that would leave *directory*.
    :raises StorageUnavailableError: Storage could not be read, or *directory* could not be written.
    """
    fetched = fetch_application(store, graph, directory)
    return Application(
        script=fetched.script,
        arguments=tuple(graph.arguments),
        conf=dict(graph.conf),
        env=dict(graph.env),
        py_files=fetched.py_files,
        files=fetched.files,
        jars=fetched.jars,
        archives=fetched.archives,
        packages=tuple(graph.packages),
        directory=fetched.files_directory,
    )


ProofDepth = Literal["quick", "full", "prove"]


@dataclass(frozen=True, slots=True)
class CutVerification:
    """Result of the verification of a job's checkpoint or savepoint.

    :param name: ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param created_at: Creation time of the checkpoint or savepoint.
    :param cut: Query -> N.
    :param problem: First problem that prevents a restore, as file and reason; ``None`` without a problem.
    :param reports: Query -> its verification; without queries that were skipped after a problem.
    :param proofs: Query -> result of Spark; empty without a proof.
    """

    name: str
    created_at: datetime
    cut: Mapping[str, int]
    problem: tuple[str, str] | None
    reports: Mapping[str, VerificationReport]
    proofs: Mapping[str, Proof]

    @property
    def restorable(self) -> bool | None:
        """``True`` if it can be restored; ``None`` if Spark gave no answer."""
        return False if self.problem is not None else all_of(proof.proven for proof in self.proofs.values())


def first_candidate(job: JobContext, start_from: str) -> str:
    """Return the name of the checkpoint or savepoint that *start_from* refers to now, even if it is damaged.

    :raises CheckpointMissingError: The job has no such checkpoint or savepoint.
    """
    selection = select_checkpoint(job, start_from=start_from, fallback=False, depth="quick")
    return selection.candidates[0].source if selection.candidates else selection.require().name


def verify_cut(
    job: JobContext,
    start_from: str,
    *,
    depth: ProofDepth,
    by: str,
    spark_version: str | None = None,
    options: ProofOptions | None = None,
) -> CutVerification:
    """Verify the checkpoint or savepoint that *start_from* refers to, and never an older one instead.

    :param start_from: ``"latest"``, ``"checkpoint-<n>"``, ``"savepoint-<id>"`` or ``"before <time>"``.
    :param depth: Depth of the verification; ``"prove"`` also uses Spark, with the application of the job's own graph.
    :raises UnknownJobError: The job does not exist.
    :raises CheckpointMissingError: There is no checkpoint or savepoint to verify.
    :raises ObjectMissingError: The application of the job's graph is missing in storage.
    :raises StorageUnavailableError: A read failed, so the result is unknown.
    """
    job.snapshot()  # raises UnknownJobError
    read_depth: Depth = "quick" if depth == "quick" else "full"
    reports: dict[str, VerificationReport] = {}

    def look(directory: Tree) -> VerificationReport:
        name = directory.name
        reports[name] = verify(directory, depth=read_depth, spark_version=spark_version)
        return reports[name]

    with held(job, partial(first_candidate, job, start_from), by=by) as name:
        selection = select(
            checkpoint_store(job),
            savepoint_store(job),
            job.area,
            start_from=name,
            fallback=False,
            depth=read_depth,
            verify=look,
        )
        candidate, chosen = selection.candidates[0], selection.chosen
        proofs = _proofs(job, chosen, options or ProofOptions()) if depth == "prove" and chosen is not None else {}
    return CutVerification(
        name=name,
        created_at=candidate.created_at,
        cut=candidate.cut,
        problem=None if candidate.accepted else (candidate.file or ".", candidate.reason),
        reports=reports,
        proofs=proofs,
    )


def _proofs(job: JobContext, chosen: RestoreSource, options: ProofOptions) -> dict[str, Proof]:
    with proof_place(job) as place:
        application = fetch(job, chosen.graph, place / "application") if options.start else None
        directory = job.area.tree(chosen.directory)
        return prove_cut(directory, chosen.queries, place, application=application, options=options)


log = logging.getLogger(__name__)
_LETTERS = 500


def keep(
    job: JobContext, found: CutVerification, *, depth: ProofDepth, by: str, spark_version: str | None = None
) -> None:
    """Store a verification as the job's last. Errors are only logged, because the caller has the result."""
    try:
        write_last_verification(job.store, job.keys, _record(job, found, depth, by, spark_version))
    except HaError as error:
        log.warning("the verification of %s of job %r cannot be stored for its page: %s", found.name, job.job_id, error)


def _record(
    job: JobContext, found: CutVerification, depth: ProofDepth, by: str, spark_version: str | None
) -> LastVerification:
    every = [
        FindingRecord(code=each.code.value, file=f"{query}/{each.path}", blocks=each.blocks)
        for query, each in _findings(found)
    ]
    every.sort(key=lambda each: each.blocks is False)
    return LastVerification(
        job_id=job.job_id,
        source=found.name,
        taken_at=found.created_at,
        cut=dict(found.cut),
        at=job.clock.now(),
        depth=depth,
        spark_version=spark_version or "",
        restorable=found.restorable,
        problem=_short(f"{found.problem[0]}: {found.problem[1]}") if found.problem is not None else "",
        findings=tuple(every[:MOST_FINDINGS]),
        findings_left_off=max(0, len(every) - MOST_FINDINGS),
        proofs={
            query: "" if proof.proven else _short(proof.why or "no answer") for query, proof in found.proofs.items()
        },
        requested_by=by,
    )


def _findings(found: CutVerification) -> Iterator[tuple[str, Finding]]:
    for query, proof in found.proofs.items():
        yield from ((query, each) for each in proof.findings)
    for query, report in found.reports.items():
        yield from ((query, each) for each in report.findings)


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"
