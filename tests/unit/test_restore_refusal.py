"""What stops a restore with any accepted verdict: an effect that is unknown."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from airflow_provider_ha.checkpoints.model import PlanFinding, RestorePlan, Verdict
from airflow_provider_ha.errors import RestoreRefusedError, RestoreUnknownError
from airflow_provider_ha.jobs.restore.job_restore import require_accepted


EVERYTHING = frozenset(Verdict)


def plan(verdict: Verdict, *, unknown: dict[str, tuple[str, ...]]) -> RestorePlan:
    return RestorePlan(
        job_id="j",
        source_job="j",
        source="checkpoint",
        source_id="1",
        directory="pin",
        verdict=verdict,
        queries={},
        age_seconds=0,
        created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        findings=(PlanFinding(query="q", verdict=verdict, reason="q: not known: no broker answered"),),
        unknown=unknown,
    )


def test_what_is_not_known_stops_a_restore_that_allows_everything() -> None:
    with pytest.raises(RestoreUnknownError, match="no broker answered") as caught:
        require_accepted(plan(Verdict.LOSS_POSSIBLE, unknown={"q": ("no broker answered",)}), EVERYTHING)

    assert "accept_unverified=q" in caught.value.next_step


def test_who_named_its_query_may_allow_the_loss() -> None:
    named = plan(Verdict.LOSS_POSSIBLE, unknown={})

    require_accepted(named, EVERYTHING)
    with pytest.raises(RestoreRefusedError, match="LOSS_POSSIBLE"):
        require_accepted(named, frozenset({Verdict.SAFE, Verdict.DUPLICATES_POSSIBLE}))


def test_what_is_impossible_is_told_as_that() -> None:
    with pytest.raises(RestoreRefusedError, match="IMPOSSIBLE"):
        require_accepted(plan(Verdict.IMPOSSIBLE, unknown={"q": ("no broker answered",)}), EVERYTHING)
