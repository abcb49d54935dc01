"""Keep what a verification of a job has found, for the job's page."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from airflow_provider_ha.checkpoints.verify.findings import Finding
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.verification.verified_cut import ProofDepth, VerifiedCut
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.history.last_verification import (
    MOST_FINDINGS,
    KeptFinding,
    LastVerification,
    write_last_verification,
)


log = logging.getLogger(__name__)
_LETTERS = 500


def keep(job: JobContext, found: VerifiedCut, *, depth: ProofDepth, by: str, spark_version: str | None = None) -> None:
    """Keep a verification as the last one of its job. What cannot be kept is logged: the answer is what counts."""
    try:
        write_last_verification(job.store, job.keys, _record(job, found, depth, by, spark_version))
    except HaError as error:
        log.warning("what was found of %s of job %r cannot be kept for its page: %s", found.name, job.job_id, error)


def _record(
    job: JobContext, found: VerifiedCut, depth: ProofDepth, by: str, spark_version: str | None
) -> LastVerification:
    every = [
        KeptFinding(code=each.code.value, file=f"{query}/{each.path}", blocks=each.blocks)
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


def _findings(found: VerifiedCut) -> Iterator[tuple[str, Finding]]:
    for query, proof in found.proofs.items():
        yield from ((query, each) for each in proof.findings)
    for query, report in found.reports.items():
        yield from ((query, each) for each in report.findings)


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"
