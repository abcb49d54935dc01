"""What the runbook shows: rejected candidates with their file and reason, and the plan."""

from __future__ import annotations

import json

from airflow_provider_ha.api.documents.restore_plan import plan_figures, selection_view
from airflow_provider_ha.checkpoints.model import (
    BatchEntry,
    Candidate,
    QueryCut,
    QueryPlan,
    QuerySink,
    RestorePlan,
    SinkKind,
    Verdict,
)
from airflow_provider_ha.checkpoints.restore.select import RestoreSource, Selection
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


def test_a_plan_says_what_is_executed_again_and_its_verdict() -> None:
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
