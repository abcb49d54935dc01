"""Why a run was started again, and where the time of a recovery went."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_ha.jobs.recovery.losses import RecoveryTimes, RestartReason, restart_reason, restarts_since
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.jobs.runs.submissions import STALLED, Failure, FailureKind
from tests.support.clusters.jobs_helpers import NOON, a_submission, an_exit


def lost(attempt: int = 1, *, hours: int = 0, **exit_fields: Any) -> SubmissionView:
    submission = a_submission(attempt).model_copy(update={"created_at": NOON + timedelta(hours=hours)})
    return SubmissionView(submission=submission, exit=an_exit().model_copy(update=exit_fields))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, RestartReason.KILLED),
        ({"outage": True}, RestartReason.OUTAGE),
        ({"unfit": True}, RestartReason.UNFIT),
        ({"decision": "choose"}, RestartReason.OTHER),
        ({"failure": Failure(kind=FailureKind.APPLICATION)}, RestartReason.APPLICATION),
        ({"failure": Failure(kind=FailureKind.OUTAGE)}, RestartReason.OUTAGE),
        ({"failure": Failure(kind=FailureKind.UNKNOWN)}, RestartReason.OTHER),
        ({"failure": Failure(error_class=STALLED)}, RestartReason.STALLED),
    ],
    ids=["killed", "outage", "unfit", "decision", "application", "broker", "unknown", "stalled"],
)
def test_the_exit_of_a_driver_says_why_another_one_was_started(fields: dict[str, Any], reason: RestartReason) -> None:
    assert restart_reason(lost(**fields)) is reason


def test_a_driver_without_an_exit_has_lost_its_host() -> None:
    assert restart_reason(SubmissionView(submission=a_submission())) is RestartReason.HOST


def test_only_restarts_since_the_moment_count() -> None:
    submissions = [lost(1), lost(2, hours=1, outage=True), lost(3, hours=30), lost(4, hours=31)]

    found = restarts_since(submissions, NOON + timedelta(hours=12))

    assert {reason: count for reason, count in found.items() if count} == {
        RestartReason.OUTAGE: 1,
        RestartReason.KILLED: 1,
    }
    assert found.keys() == set(RestartReason)


def test_a_loss_without_a_proof_of_death_is_submitted_again_after_the_last_sign_of_life() -> None:
    times = RecoveryTimes(
        alive_at=NOON,
        dead_at=None,
        submitted_at=NOON + timedelta(seconds=20),
        led_at=NOON + timedelta(seconds=25),
        committed_at=None,
    )

    assert times.phases == {"submit": 20.0, "lead": 5.0}
