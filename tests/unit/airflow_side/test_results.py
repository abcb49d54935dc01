"""Results for Airflow: tables of the runbook, and verifications."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_ha.api.documents.restore_plan import plan_figures, selection_view
from airflow_provider_ha.api.documents.verdict import SHOWN_FINDINGS, directory_verdict
from airflow_provider_ha.checkpoints.model import BatchEntry, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Candidate, QueryPlan, RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.select import RestoreSource, Selection
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.proof_result import Proof, ProofOutcome, StepResult
from airflow_provider_ha.checkpoints.verify.verification_report import BatchVerdict, Finding, VerificationReport
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.operators._parameters import seconds_of
from airflow_provider_ha.operators.plan_restore import plan_text
from airflow_provider_ha.operators.select_checkpoint import candidates_table
from tests.support.clusters.jobs_helpers import NOON


SINK = QuerySink(kind=SinkKind.FILE, format="json", path="/out", max_batch=9)
SELECTION = Selection(
    candidates=(
        Candidate(
            source="checkpoint-8",
            number=8,
            cut={"q": 9},
            created_at=NOON,
            accepted=False,
            file="q/offsets/9",
            reason="it is empty",
        ),
        Candidate(source="checkpoint-7", number=7, cut={"q": 7}, created_at=NOON, accepted=True),
    ),
    chosen=RestoreSource(
        source="checkpoint",
        source_id="7",
        directory="pins/7",
        queries={"q": QueryCut(batch=7, sink=SINK)},
        run=1,
        epoch=2,
        graph="0" * 64,
        spark_version="4.2.0",
        created_at=NOON,
    ),
)
PLAN = RestorePlan(
    job_id="flights",
    source_job="flights",
    source="checkpoint",
    source_id="7",
    directory="pins/7",
    verdict=Verdict.SAFE,
    reasons=("every boundary is recorded",),
    queries={
        "q": QueryPlan(
            batch=7, sink=SINK, replay=(BatchEntry(batch=8, offsets="v1"), BatchEntry(batch=9, offsets="v1"))
        )
    },
    age_seconds=61.04,
    created_at=NOON,
)


def test_a_rejected_candidate_is_shown_with_its_file_and_reason() -> None:
    shown = selection_view(SELECTION, job_id="flights", latest_number=8).to_json()

    lines = candidates_table(SELECTION.candidates).splitlines()

    assert lines[2].split() == ["checkpoint-8", "rejected", "q/offsets/9", "it", "is", "empty"]
    assert lines[3].split() == ["checkpoint-7", "accepted"]
    assert json.loads(json.dumps(shown))["chosen"]["source"] == "checkpoint-7"
    assert shown["chosen"]["cut"] == {"q": 7}


def test_no_choice_is_shown_as_none() -> None:
    shown = selection_view(Selection(candidates=(), chosen=None), job_id="flights", latest_number=0)

    assert shown.to_json() == {"chosen": None, "candidates": [], "job_id": "flights", "latest_number": 0}


def test_a_plan_shows_the_repeated_batches_and_its_verdict() -> None:
    shown = plan_figures(PLAN, latest_number=9)

    assert shown.to_json()["queries"]["q"] == {
        "batch": 7,
        "replayed": [8, 9],
        "sink_batch": 9,
        "sink_gone": False,
        "given": None,
        "inputs": [],
        "input_files": 0,
    }
    text = plan_text(shown)
    assert "From checkpoint-7, 61.0 s old. Verdict: SAFE" in text
    assert "Afterwards it is the user's (NO_CLAIM)." in text
    assert "- every boundary is recorded" in text
    assert json.dumps(shown.to_json())


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
