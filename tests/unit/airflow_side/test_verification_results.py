"""What a verification says to Airflow: small, and without anything that a file holds."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_ha.api.documents.verdict import SHOWN_FINDINGS, directory_verdict
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.proof_result import Proof, ProofOutcome, StepResult
from airflow_provider_ha.checkpoints.verify.verification_report import BatchVerdict, Finding, VerificationReport
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.operators._parameters import seconds_of


def report(*, startable: bool | None, restorable: tuple[int, ...] = (), findings: int = 0) -> VerificationReport:
    found = tuple(
        Finding(Code.STATE_MISSING, f"state/0/{n}/9.delta", 8, "a secret", "x", True) for n in range(findings)
    )
    batches = tuple(BatchVerdict(batch, ()) for batch in restorable)
    return VerificationReport(startable=startable, restorable=list(restorable), findings=found, batches=batches)


def spark_said(outcome: ProofOutcome, of: VerificationReport) -> Proof:
    return Proof("/data/counts", 8, of, StepResult(outcome, "so it is"), StepResult(ProofOutcome.NOT_ASKED))


@pytest.mark.parametrize(
    ("found", "verdict", "restorable"),
    [
        (report(startable=True, restorable=(7, 8)), "startable", True),
        (report(startable=False, restorable=(7,)), "restorable", True),
        (report(startable=False), "not_restorable", False),
        (report(startable=None), "unknown", None),
    ],
)
def test_the_verdict_on_a_directory(found: VerificationReport, verdict: str, restorable: bool | None) -> None:
    result = directory_verdict("/data/counts", found)

    assert (result.verdict.value, result.restorable) == (verdict, restorable)


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (ProofOutcome.PROVEN, "startable"),
        (ProofOutcome.REFUTED, "not_restorable"),
        (ProofOutcome.UNKNOWN, "unknown"),
    ],
)
def test_spark_has_the_last_word(outcome: ProofOutcome, verdict: str) -> None:
    found = report(startable=True, restorable=(8,))

    result = directory_verdict("/data/counts", found, spark_said(outcome, found))

    assert result.verdict.value == verdict
    assert result.proofs["counts"].proven is {"startable": True, "not_restorable": False}.get(verdict)


def test_a_result_stays_small_and_says_how_much_was_left_off() -> None:
    result = directory_verdict("/data/counts", report(startable=False, findings=500))

    assert len(result.findings) == SHOWN_FINDINGS
    assert result.findings_left_off == 480
    assert "a secret" not in json.dumps(result.to_json())
    assert len(json.dumps(result.to_json())) < 4000


def test_a_message_names_the_first_findings() -> None:
    result = directory_verdict("/data/counts", report(startable=False, findings=500))

    assert result.why == "; ".join(f"STATE_MISSING state/0/{n}/9.delta" for n in range(3))


@pytest.mark.parametrize(
    ("given", "seconds"), [(timedelta(minutes=2), 120.0), ("7200", 7200.0), (1.5, 1.5), ("", None), (None, None)]
)
def test_a_duration_may_come_through_a_template(given: Any, seconds: float | None) -> None:
    assert seconds_of(given, "max_age") == seconds


@pytest.mark.parametrize("wrong", ["soon", 0, -1, timedelta(0), "nan", "inf"])
def test_what_is_no_duration_is_refused_by_its_name(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_age"):
        seconds_of(wrong, "max_age")
