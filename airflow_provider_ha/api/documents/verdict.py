"""Verdicts of verifications, short enough for Airflow's database, and the last verification of a job.

Invariant: no content of a file and no conf of a job is in it, only codes, names of files and verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ha.api.documents.view import View
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.proof_result import Proof, ProofOutcome
from airflow_provider_ha.checkpoints.verify.verification_report import Finding, VerificationReport


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.verification.job_verification import CutVerification
    from airflow_provider_ha.jobs.verification.verification_records import FindingRecord, LastVerification


class RecordedFindingView(View):
    """One finding.

    :param meaning: Its meaning for a decision; empty for a code of a newer release.
    :param next_step: How to resolve it; the same.
    """

    code: str
    file: str
    blocks: bool | None
    meaning: str
    next_step: str


class LastVerificationView(View):
    """The last verification."""

    source: str
    taken_at: datetime
    at: datetime
    depth: str
    spark_version: str
    restorable: bool | None
    problem: str
    findings: tuple[RecordedFindingView, ...]
    findings_left_off: int
    proofs: dict[str, str]
    requested_by: str


def last_verification_view(found: LastVerification) -> LastVerificationView:
    """Return what a page shows of a verification."""
    return LastVerificationView.of(found, findings=tuple(_finding(each) for each in found.findings))


def _finding(kept: FindingRecord) -> RecordedFindingView:
    try:
        known = Finding(Code(kept.code), kept.file, None, "", blocks=kept.blocks)
    except ValueError:
        return RecordedFindingView.of(kept, meaning="", next_step="")
    return RecordedFindingView.of(kept, meaning=known.meaning, next_step=known.next_step)


SHOWN_FINDINGS = 20
_LETTERS = 200
_NAMED = 3  # findings in a message


class StartVerdict(str, Enum):
    """The use that a checkpoint still has."""

    STARTABLE = "startable"  # Spark can start from it as it is
    RESTORABLE = "restorable"  # only an older batch can be restored
    NOT_RESTORABLE = "not_restorable"
    UNKNOWN = "unknown"


class FileFindingView(View):
    """One finding."""

    code: Code
    file: str
    blocks: bool | None


class ProofVerdictView(View):
    """Spark's answer about one query.

    :param batch: The batch of the request.
    :param proven: ``true``, ``false`` when Spark refused, ``null`` when there was no answer.
    :param loaded: Outcome of loading the state.
    :param started: Outcome of starting the query.
    :param reason: Why it is not proven; empty when it is.
    :param seconds: How long it took.
    """

    batch: int | None
    proven: bool | None
    loaded: ProofOutcome
    started: ProofOutcome
    reason: str
    seconds: float


class ProblemFileView(View):
    """The first thing that keeps a cut from being restored.

    :param file: The file.
    :param found: The damage.
    """

    file: str
    found: str


class VerdictView(View):
    """The result of a verification.

    :param subject: The directory, ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param verdict: ``startable``, ``restorable``, ``not_restorable`` or ``unknown``.
    :param restorable: Whether it can be restored; ``null`` when that is unknown.
    :param findings: The first findings.
    :param findings_left_off: How many more there are.
    :param proofs: Query -> Spark's answer; empty without a proof.
    """

    subject: str
    verdict: StartVerdict
    restorable: bool | None
    findings: tuple[FileFindingView, ...]
    findings_left_off: int
    proofs: dict[str, ProofVerdictView]

    @property
    def why(self) -> str:
        """The reason of the verdict, as a clause: Spark's answer, or the first findings."""
        said = [f"{query}: {proof.reason}" for query, proof in self.proofs.items() if proof.reason]
        blocking = [item for item in self.findings if item.blocks is not False] or self.findings
        found = [f"{item.code.value} {item.file}" for item in blocking[:_NAMED]]
        return "; ".join(said or found) or "no restorable checkpoint was found"


class DirectoryVerdictView(VerdictView):
    """The result of the verification of a checkpoint directory.

    :param latest: The newest batch to which it can be restored; ``null`` if it cannot be restored.
    """

    latest: int | None


class CutVerdictView(VerdictView):
    """The result of the verification of a checkpoint or savepoint of a job.

    :param problem: The first problem that prevents a restore; ``null`` without a problem.
    """

    created_at: datetime
    cut: dict[str, int]
    problem: ProblemFileView | None
    job_id: str

    @property
    def why(self) -> str:
        """The reason of the verdict: the problem, where there is one."""
        return f"{self.problem.file}: {self.problem.found}" if self.problem is not None else super().why


def directory_verdict(path: str, report: VerificationReport, proof: Proof | None = None) -> DirectoryVerdictView:
    """Return the result for one checkpoint directory.

    :param proof: Is about one batch: Spark's no, and its silence, weigh more than what the files look like.
    """
    if proof is not None and proof.proven is not True:
        verdict = StartVerdict.UNKNOWN if proof.proven is None else StartVerdict.NOT_RESTORABLE
    elif report.startable is False:
        verdict = StartVerdict.RESTORABLE if report.restorable else StartVerdict.NOT_RESTORABLE
    else:
        verdict = StartVerdict.STARTABLE if report.startable else StartVerdict.UNKNOWN
    findings = _blamed([("", finding) for finding in (*(proof.findings if proof else ()), *report.findings)])
    return DirectoryVerdictView(
        subject=path,
        verdict=verdict,
        restorable=_restorable(verdict),
        findings=findings[:SHOWN_FINDINGS],
        findings_left_off=max(0, len(findings) - SHOWN_FINDINGS),
        proofs=_proofs({Path(path).name: proof} if proof else {}),
        latest=report.latest_restorable,
    )


def cut_verdict(job_id: str, cut: CutVerification) -> CutVerdictView:
    """Return the result for a checkpoint or savepoint of a job."""
    verdict = {True: StartVerdict.STARTABLE, False: StartVerdict.NOT_RESTORABLE, None: StartVerdict.UNKNOWN}[
        cut.restorable
    ]
    found = [(query, finding) for query, proof in cut.proofs.items() for finding in proof.findings]
    found += [(query, finding) for query, report in cut.reports.items() for finding in report.findings]
    findings = _blamed(found)
    return CutVerdictView(
        subject=cut.name,
        verdict=verdict,
        restorable=_restorable(verdict),
        findings=findings[:SHOWN_FINDINGS],
        findings_left_off=max(0, len(findings) - SHOWN_FINDINGS),
        proofs=_proofs(cut.proofs),
        created_at=cut.created_at,
        cut=dict(cut.cut),
        problem=ProblemFileView(file=cut.problem[0], found=_short(cut.problem[1])) if cut.problem else None,
        job_id=job_id,
    )


def _restorable(verdict: StartVerdict) -> bool | None:
    return None if verdict is StartVerdict.UNKNOWN else verdict is not StartVerdict.NOT_RESTORABLE


def _blamed(findings: Sequence[tuple[str, Finding]]) -> tuple[FileFindingView, ...]:
    return tuple(
        FileFindingView(code=item.code, file=f"{query}/{item.path}" if query else item.path, blocks=item.blocks)
        for query, item in findings
    )


def _proofs(proofs: Mapping[str, Proof]) -> dict[str, ProofVerdictView]:
    return {
        query: ProofVerdictView(
            batch=proof.batch,
            proven=proof.proven,
            loaded=proof.loading.outcome,
            started=proof.starting.outcome,
            reason=_short(proof.why),
            seconds=round(proof.seconds, 1),
        )
        for query, proof in proofs.items()
    }


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"
