"""What a verification says as small JSON: XCom lies in Airflow's database, and a report can be as long as a checkpoint.

Invariant: no content of a file and no conf of a job is in it, only codes, names of files and verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.proof.report import Proof
    from airflow_provider_ha.checkpoints.verify.findings import Finding
    from airflow_provider_ha.checkpoints.verify.report import Report
    from airflow_provider_ha.control.verification.verified_cut import VerifiedCut


SHOWN_FINDINGS = 20
_LETTERS = 200
_TOLD = 3  # findings in a message
# Spark can start from it as it is; only an older batch can be restored; nothing can; the answer is unknown.
STARTABLE, RESTORABLE, NOT_RESTORABLE, UNKNOWN = "startable", "restorable", "not_restorable", "unknown"


def of_directory(path: str, report: Report, proof: Proof | None = None) -> dict[str, Any]:
    """Return what is known of one checkpoint directory.

    :param proof: Is about one batch: Spark's no, and its silence, weigh more than what the files look like.
    """
    if proof is not None and proof.proven is not True:
        verdict = UNKNOWN if proof.proven is None else NOT_RESTORABLE
    elif report.startable is False:
        verdict = RESTORABLE if report.restorable else NOT_RESTORABLE
    else:
        verdict = STARTABLE if report.startable else UNKNOWN
    findings = [("", finding) for finding in (*(proof.findings if proof else ()), *report.findings)]
    proofs = {Path(path).name: proof} if proof else {}
    return {"subject": path, **_judged(verdict), "latest": report.latest_restorable, **_found(findings, proofs)}


def of_cut(cut: VerifiedCut) -> dict[str, Any]:
    """Return what is known of a checkpoint or savepoint of a job."""
    verdict = {True: STARTABLE, False: NOT_RESTORABLE, None: UNKNOWN}[cut.restorable]
    findings = [(query, finding) for query, proof in cut.proofs.items() for finding in proof.findings]
    findings += [(query, finding) for query, report in cut.reports.items() for finding in report.findings]
    problem = {"file": cut.problem[0], "found": _short(cut.problem[1])} if cut.problem else None
    return {
        "subject": cut.name,
        **_judged(verdict),
        "created_at": cut.created_at.isoformat(),
        "cut": dict(cut.cut),
        "problem": problem,
        **_found(findings, cut.proofs),
    }


def why(result: Mapping[str, Any]) -> str:
    """Return why the verdict is what it is, as a clause: the problem, what Spark said, or the first findings."""
    if result.get("problem"):
        return f"{result['problem']['file']}: {result['problem']['found']}"
    said = [f"{query}: {proof['reason']}" for query, proof in result["proofs"].items() if proof["reason"]]
    blocking = [item for item in result["findings"] if item["blocks"] is not False] or result["findings"]
    found = [f"{item['code']} {item['file']}" for item in blocking[:_TOLD]]
    return "; ".join(said or found) or "nothing was found that could be started from"


def _judged(verdict: str) -> dict[str, Any]:
    restorable = None if verdict == UNKNOWN else verdict != NOT_RESTORABLE
    return {"verdict": verdict, "restorable": restorable}


def _found(findings: Sequence[tuple[str, Finding]], proofs: Mapping[str, Proof]) -> dict[str, Any]:
    listed = [
        {"code": item.code.value, "file": f"{query}/{item.path}" if query else item.path, "blocks": item.blocks}
        for query, item in findings
    ]
    return {
        "findings": listed[:SHOWN_FINDINGS],
        "findings_left_off": max(0, len(listed) - SHOWN_FINDINGS),
        "proofs": {query: _proof(proof) for query, proof in proofs.items()},
    }


def _proof(proof: Proof) -> dict[str, Any]:
    return {
        "batch": proof.batch,
        "proven": proof.proven,
        "loaded": proof.loading.outcome.value,
        "started": proof.starting.outcome.value,
        "reason": "" if proof.proven else _short(_reason(proof)),
        "seconds": round(proof.seconds, 1),
    }


def _reason(proof: Proof) -> str:
    """Return what the steps say that were asked and are not proven."""
    asked = (step for step in (proof.loading, proof.starting) if step.outcome.value in {"refuted", "unknown"})
    return "; ".join(dict.fromkeys(step.reason for step in asked if step.reason))


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"
