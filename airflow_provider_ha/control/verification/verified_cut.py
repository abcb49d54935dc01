"""Verifying what a job could be restored from, while the job runs: leased, judged query by query, never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal

from airflow_provider_ha.checkpoints.proof.report import Proof
from airflow_provider_ha.checkpoints.restore.select import Chosen, select
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.report import Report
from airflow_provider_ha.checkpoints.verify.restorable import all_of
from airflow_provider_ha.checkpoints.verify.verify import Depth, verify
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.reader_lease import held
from airflow_provider_ha.control.job.stores import checkpoint_store, savepoint_store, select_checkpoint
from airflow_provider_ha.control.verification.cut_proof import ProofOptions, fetch, proof_place, prove_cut


ProofDepth = Literal["quick", "full", "prove"]


@dataclass(frozen=True, slots=True)
class VerifiedCut:
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
    reports: Mapping[str, Report]
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
) -> VerifiedCut:
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
    reports: dict[str, Report] = {}

    def look(directory: Tree) -> Report:
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
    return VerifiedCut(
        name=name,
        created_at=candidate.created_at,
        cut=candidate.cut,
        problem=None if candidate.accepted else (candidate.file or ".", candidate.reason),
        reports=reports,
        proofs=proofs,
    )


def _proofs(job: JobContext, chosen: Chosen, options: ProofOptions) -> dict[str, Proof]:
    with proof_place(job) as place:
        application = fetch(job, chosen.graph, place / "application") if options.start else None
        directory = job.area.tree(chosen.directory)
        return prove_cut(directory, chosen.queries, place, application=application, options=options)
