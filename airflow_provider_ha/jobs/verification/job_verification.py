"""Verification of a job's checkpoint or savepoint: lease, checks of each query, proof, and record.

Invariant: what is proven is only read. The application comes out of storage, as a restore on another host would get it,
and lies in a directory of the proof that goes with it; of the job's sinks and of its lock nothing is touched.
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
from airflow_provider_ha.jobs.job_stores import checkpoint_store, held, savepoint_store, select_checkpoint
from airflow_provider_ha.jobs.model import Blob, JobGraph
from airflow_provider_ha.jobs.verification.spark_proof import DEFAULT_DEADLINE, DEFAULT_HEAP, ProofProgress, prove
from airflow_provider_ha.jobs.verification.verification_records import (
    MOST_FINDINGS,
    FindingRecord,
    LastVerification,
    write_last_verification,
)
from airflow_provider_ha.storage.durable import private_directories
from airflow_provider_ha.storage.object_store import ObjectStore


PROOFS = "proofs"  # below the home of this host


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofOptions:
    """How a cut is proven.

    :param start: Whether the job's application is started on it; else its state is loaded only.
    :param heap: Memory of the JVM, as ``1g``.
    :param deadline: Seconds that Spark may take for each query.
    """

    start: bool = True
    heap: str = DEFAULT_HEAP
    deadline: float = DEFAULT_DEADLINE


@contextmanager
def proof_place(job: JobContext) -> Iterator[Path]:
    """Yield an empty directory for one proof: below the home of this host, beside the jobs and in none of them.

    It is gone when the block ends. That of a proof that was killed is collected by the next one, of any job.

    :raises StorageUnavailableError: It cannot be made.
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
    """Bring the application of a job graph out of storage into *place*.

    :param graph: Digest of the graph; empty in what was not made by a job.
    :raises ObjectMissingError: The graph or a file of it is not in storage.
    :raises RecordCorruptError: It is there, and not what was written.
    """
    if not graph:
        raise ObjectMissingError(
            "it names no job graph, so nothing says which application goes on from it",
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
    """Prove every query of a cut that has committed a batch, one after the other.

    :param directory: One directory per query: a pin or a savepoint.
    :param place: Where copies are made, and removed.
    :param application: Starts the queries; ``None`` when only their state is to be loaded.
    :param progress_to: Receives what is being done, with the query's name.
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
    :param graph: Of the run that wrote the checkpoint or savepoint, which names its digest.
    :param directory: Where its files are put; the caller's to make and to remove, and private.
    :raises ObjectMissingError: A file is not in storage.
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
    """What is known of one checkpoint or savepoint of a job.

    :param name: ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param created_at: When it was taken.
    :param cut: Query -> N.
    :param problem: The first thing that keeps it from being restored, as file and reason; ``None`` when it can be.
    :param reports: Query -> its verification; without queries that were not verified after a problem.
    :param proofs: Query -> what Spark said; empty when Spark was not asked.
    """

    name: str
    created_at: datetime
    cut: Mapping[str, int]
    problem: tuple[str, str] | None
    reports: Mapping[str, VerificationReport]
    proofs: Mapping[str, Proof]

    @property
    def restorable(self) -> bool | None:
        """Whether it can be restored; ``None`` when Spark was asked and gave no answer."""
        return False if self.problem is not None else all_of(proof.proven for proof in self.proofs.values())


def first_candidate(job: JobContext, start_from: str) -> str:
    """Return the name of what *start_from* means now, good or bad.

    :raises CheckpointMissingError: There is nothing.
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
    """Verify the checkpoint or savepoint that *start_from* means; an older one is never taken in its place.

    :param start_from: ``"latest"``, ``"checkpoint-<n>"``, ``"savepoint-<id>"`` or ``"before <time>"``.
    :param depth: As of a verification; ``"prove"`` asks Spark as well, with the application of the job's own graph.
    :param by: Reader, as recorded for people.
    :raises UnknownJobError: There is no such job.
    :raises CheckpointMissingError: There is nothing to verify.
    :raises ObjectMissingError: The application of the job's graph is not in storage.
    :raises StorageUnavailableError: Something could not be read: nothing is known.
    """
    job.snapshot()  # an unknown job is refused as one
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
    """Keep a verification as the last one of its job. What cannot be kept is logged: the answer is what counts."""
    try:
        write_last_verification(job.store, job.keys, _record(job, found, depth, by, spark_version))
    except HaError as error:
        log.warning("what was found of %s of job %r cannot be kept for its page: %s", found.name, job.job_id, error)


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
