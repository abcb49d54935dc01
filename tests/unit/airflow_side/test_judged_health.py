"""Health of a job as its records say, and when it is stalled."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from airflow_provider_ha.api.documents.cluster_events import cluster_event
from airflow_provider_ha.fleet.notify.health_rules import JobHealth, of_leaders, stalls_again
from airflow_provider_ha.fleet.notify.notices import GRANTED, LEADER, NO_LEADER, STALLED, Condition, Notices
from airflow_provider_ha.jobs.model import (
    STANDBY_PATIENCE,
    AcceptedLoss,
    JobState,
    RunResult,
    StandbyCount,
    StartKind,
    StartPoint,
)
from airflow_provider_ha.jobs.runs.submissions import Failure, SubmissionExit
from airflow_provider_ha.jobs.status import NewestRun
from airflow_provider_ha.jobs.verification.verification_records import Drill, DrillVerdict
from tests.support.clusters.jobs_helpers import a_leader
from tests.support.judged_health import BOUNDS, HANGS, JOB, LIVE, a_checkpoint, a_status, ago, with_job, wrong


def a_drill(**changed: Any) -> Drill:
    fields: dict[str, Any] = {
        "drill_id": "weekly",
        "job_id": "flights",
        "source": "savepoint-1",
        "taken_at": ago(9000),
        "cut": {"counts": 5},
        "size": 1,
        "age_seconds": 4000.0,
        "started_at": ago(5000),
        "seconds": {},
        "total_seconds": 90.0,
        "verdict": DrillVerdict.PASSED,
        "spark_version": "4.2.0",
        "requested_by": "test",
    }
    return Drill(**fields | changed)


def a_failure(seconds: float = 60.0, *, exhausted: bool = True) -> RunResult:
    return RunResult(state=JobState.FAILED, epoch=3, reason="lost 4 times", budget_exhausted=exhausted, at=ago(seconds))


def ended(result: RunResult, run: int = 2, **changed: Any) -> JobHealth:
    """Return the health of a job whose newest run has a result."""
    facts = NewestRun(number=run, attempt=1, result=result)
    return replace(with_job(LIVE, facts=facts), **changed)


def failed(seconds: float = 60.0, *, exhausted: bool = True) -> JobHealth:
    return ended(a_failure(seconds, exhausted=exhausted))


def test_nothing_is_wrong_with_a_job_that_runs_and_takes_checkpoints() -> None:
    assert wrong(LIVE) == {}


def test_a_run_that_has_used_up_its_restarts_is_told_with_its_reason() -> None:
    found = wrong(failed())

    assert set(found) == {"restart_budget_exhausted"}
    assert (found["restart_budget_exhausted"].facts or {})["reason"] == "lost 4 times"


def test_a_run_that_failed_for_another_reason_is_told_as_such() -> None:
    assert set(wrong(failed(exhausted=False))) == {"run_failed"}


@pytest.mark.parametrize("exhausted", [True, False])
def test_a_run_that_failed_long_ago_is_not_told(exhausted: bool) -> None:
    assert wrong(failed(90_000.0, exhausted=exhausted)) == {}


@pytest.mark.parametrize(("exhausted", "kind"), [(True, "restart_budget_exhausted"), (False, "run_failed")])
def test_a_run_that_failed_is_told_also_when_the_next_one_is_live_already(exhausted: bool, kind: str) -> None:
    again = replace(LIVE, made_at=ago(30), previous=a_failure(exhausted=exhausted))
    again = with_job(again, facts=NewestRun(number=3, attempt=1), leader=a_leader(4, run=3))

    found = wrong(again)

    assert set(found) == {kind}
    assert found[kind].key == wrong(failed(exhausted=exhausted))[kind].key, "it is not told twice"
    assert (found[kind].facts or {})["run"] == 2
    assert (found[kind].facts or {})["reason"] == "lost 4 times; run 3 was submitted after it"


def test_a_run_that_failed_is_told_also_when_the_next_one_is_over_already() -> None:
    stopped = RunResult(state=JobState.FINISHED, epoch=3, reason="stopped", at=ago(10))

    found = wrong(ended(stopped, 3, made_at=ago(30), previous=a_failure(exhausted=False)))

    assert (found["run_failed"].facts or {})["run"] == 2


def test_of_two_runs_that_failed_the_newest_is_told() -> None:
    found = wrong(ended(a_failure(exhausted=False), 3, made_at=ago(30), previous=a_failure(exhausted=False)))

    assert (found["run_failed"].facts or {})["run"] == 3


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.CANCELED])
def test_a_run_that_was_ended_on_purpose_is_not_told(state: JobState) -> None:
    assert wrong(ended(RunResult(state=state, epoch=3, reason="stopped", at=ago(60)))) == {}


def test_checkpoints_that_fail_have_to_fail_for_a_while() -> None:
    found = wrong(with_job(LIVE, status=a_status(message="no checkpoint: the disk is full")))

    assert set(found) == {"checkpoint_failing"}
    assert found["checkpoint_failing"].lasting == 60.0
    assert (found["checkpoint_failing"].facts or {})["reason"] == "the disk is full"


def test_a_checkpoint_is_too_old_when_there_are_batches_that_it_does_not_hold() -> None:
    behind = replace(with_job(LIVE, status=a_status(6)), checkpoint=a_checkpoint(5, seconds=700.0))

    assert set(wrong(behind)) == {"checkpoint_old"}
    assert (wrong(behind)["checkpoint_old"].facts or {})["age"] == 700.0
    assert wrong(replace(behind, checkpoint=a_checkpoint(5, seconds=500.0))) == {}


def test_a_leader_is_given_time_to_take_a_checkpoint_before_the_one_of_its_predecessor_is_old() -> None:
    behind = replace(with_job(LIVE, status=a_status(6)), checkpoint=a_checkpoint(5, seconds=7000.0))
    after = with_job(behind, status=a_status(6).model_copy(update={"epoch": 4}))

    assert wrong(behind)["checkpoint_old"].lasting == 60.0
    assert wrong(behind)["checkpoint_old"].key != wrong(after)["checkpoint_old"].key


def test_a_job_without_input_needs_no_newer_checkpoint() -> None:
    assert wrong(replace(LIVE, checkpoint=a_checkpoint(5, seconds=86_000.0))) == {}


FRESH = StartPoint()
FROM_NEWEST = StartPoint(kind=StartKind.CHECKPOINT, source_job="flights", source_id="7")
FROM_ELSEWHERE = StartPoint(kind=StartKind.SAVEPOINT, source_job="flights", source_id="before-the-release")


def following(start: StartPoint, committed: int, *, seconds: float = 700.0, works: bool = True) -> JobHealth:
    """Return a second run without a checkpoint, of a job whose first run left checkpoint 7 with batch 500."""
    status = a_status(committed)
    query = status.queries["counts"].model_copy(update={"committed_at": ago(5) if works else None})
    return JobHealth(
        job=replace(JOB, status=status.model_copy(update={"queries": {"counts": query}})),
        made_at=ago(seconds),
        start=start,
        checkpoint=a_checkpoint(500, seconds=90_000.0).model_copy(update={"run": 1}),
    )


@pytest.mark.parametrize(
    ("health", "told"),
    [
        (following(FRESH, 9), True),
        (following(FRESH, -1, works=False), False),
        (following(FROM_NEWEST, 501), True),
        (following(FROM_NEWEST, 500, works=False), False),
        (following(FROM_ELSEWHERE, 9), True),
        (following(FROM_ELSEWHERE, 900, works=False), False),
    ],
    ids=["fresh", "fresh, no input", "goes on", "goes on, no input", "from elsewhere", "from elsewhere, no input"],
)
def test_a_checkpoint_of_another_run_says_nothing_about_batches_that_are_numbered_anew(
    health: JobHealth, told: bool
) -> None:
    found = wrong(health)

    assert set(found) == ({"checkpoint_old"} if told else set())
    if told:
        facts = found["checkpoint_old"].facts or {}
        assert (facts["checkpoint"], facts["age"]) == (None, 700.0)
        assert facts["reason"].startswith("the run, which has no checkpoint, is 700 s old")


def test_a_run_that_is_new_is_not_as_old_as_the_checkpoint_of_the_run_before_it() -> None:
    assert wrong(following(FROM_NEWEST, 501, seconds=60.0)) == {}


def test_a_run_without_any_checkpoint_is_as_old_as_it_is() -> None:
    assert set(wrong(replace(LIVE, checkpoint=None))) == {"checkpoint_old"}
    assert wrong(replace(LIVE, checkpoint=None, made_at=ago(30))) == {}


def test_a_run_that_is_over_needs_no_checkpoint_and_no_drill() -> None:
    over = replace(
        with_job(failed(exhausted=False), status=a_status(9, "no checkpoint: gone")),
        checkpoint=a_checkpoint(1, seconds=9000.0),
        drill=a_drill(verdict=DrillVerdict.FAILED),
    )

    assert set(wrong(over)) == {"run_failed"}


def stalled(state: JobState = JobState.RUNNING, reason: str = HANGS) -> JobHealth:
    return with_job(LIVE, status=a_status().model_copy(update={"stalled": reason, "state": state}))


def test_a_job_that_hangs_is_told_with_its_query_when_it_has_hung_for_a_while() -> None:
    found = wrong(stalled())

    assert set(found) == {"stalled"}
    assert found["stalled"].lasting == 30.0
    assert found["stalled"].facts == {"run": 2, "epoch": 3, "reason": HANGS, "checkpoint": 7}
    assert set(wrong(stalled(JobState.STARTING))) == {"stalled"}


def test_a_job_that_hangs_again_is_another_condition() -> None:
    again = wrong(stalled(reason=HANGS.replace("batch 5", "batch 9")))

    assert again["stalled"].key != wrong(stalled())["stalled"].key


@pytest.mark.parametrize("state", [JobState.STOPPING, JobState.FAILED])
def test_a_job_that_ends_is_not_told_as_stalled(state: JobState) -> None:
    assert wrong(stalled(state)) == {}


@pytest.mark.parametrize(
    ("leader", "told"),
    [
        (Condition(kind=GRANTED, key=(3,), facts={"epoch": 3}), True),
        (Condition(kind=GRANTED, key=(4,), facts={"epoch": 4}), False),
        (Condition(kind=NO_LEADER, facts={"epoch": 3}), False),
        (Condition(), False),
    ],
    ids=["leads", "another leads", "lost", "nothing leads"],
)
def test_what_a_leader_says_of_a_stall_counts_while_it_leads(leader: Condition, told: bool) -> None:
    seen = {("flights", LEADER): leader, ("flights", STALLED): wrong(stalled())["stalled"]}

    found = of_leaders(seen)

    assert found["flights", LEADER] == leader
    assert found["flights", STALLED] == (seen["flights", STALLED] if told else Condition())


@pytest.mark.parametrize(
    ("leader", "told"),
    [
        (Condition(kind=GRANTED, key=(3,), facts={"epoch": 3}), True),
        (Condition(kind=GRANTED, key=(4,), facts={"epoch": 4}), False),
        (Condition(kind=NO_LEADER), False),
    ],
    ids=["leads", "another leads", "lost"],
)
@pytest.mark.parametrize(
    "health",
    [
        with_job(LIVE, status=a_status(message="no checkpoint: the disk is full")),
        replace(with_job(LIVE, status=a_status(6)), checkpoint=a_checkpoint(5, seconds=700.0)),
    ],
    ids=["checkpoint_failing", "checkpoint_old"],
)
def test_checkpoints_of_a_job_that_is_lost_are_not_told_beside_the_loss(
    health: JobHealth, leader: Condition, told: bool
) -> None:
    ((kind, condition),) = wrong(health).items()

    found = of_leaders({("flights", LEADER): leader, ("flights", kind): condition})

    assert found["flights", kind] == (condition if told else Condition())


def without_standby(seconds: float) -> JobHealth:
    standbys = StandbyCount(requested=2, ready=1, note="the warm-up failed", missing_since=ago(seconds))
    return with_job(LIVE, status=a_status().model_copy(update={"standbys": standbys}))


def test_a_standby_driver_that_is_missing_for_minutes_is_told_with_its_note() -> None:
    found = wrong(without_standby(STANDBY_PATIENCE))

    assert set(found) == {"standby_missing"}
    facts = found["standby_missing"].facts or {}
    assert facts["reason"] == "1 of 2 standby drivers ready: the warm-up failed"
    assert (facts["requested"], facts["ready"], facts["epoch"]) == (2, 1, 3)


def test_standby_drivers_that_are_all_ready_are_told_by_epoch() -> None:
    standbys = StandbyCount(requested=1, ready=1)

    found = wrong(with_job(LIVE, status=a_status().model_copy(update={"standbys": standbys})))

    facts = {"run": 2, "epoch": 3, "ready": 1}
    assert found == {"standby_ready": Condition(kind="standby_ready", key=(2, 3), facts=facts)}


def test_a_standby_driver_has_minutes_to_start() -> None:
    assert wrong(without_standby(STANDBY_PATIENCE - 1)) == {}


def test_a_standby_driver_of_a_job_that_is_lost_is_not_told_beside_the_loss() -> None:
    ((kind, condition),) = wrong(without_standby(STANDBY_PATIENCE)).items()

    found = of_leaders({("flights", LEADER): Condition(kind=NO_LEADER), ("flights", kind): condition})

    assert found["flights", kind] == Condition()


def test_a_drill_that_failed_is_told_with_its_reasons() -> None:
    found = wrong(replace(LIVE, drill=a_drill(verdict=DrillVerdict.FAILED, reasons=("no", "never"))))

    assert set(found) == {"drill_failed"}
    assert (found["drill_failed"].facts or {})["reason"] == "no; never"


@pytest.mark.parametrize("verdict", [DrillVerdict.PASSED, DrillVerdict.UNKNOWN])
def test_a_drill_is_measured_by_the_bounds_that_are_set(verdict: DrillVerdict) -> None:
    health = replace(LIVE, drill=a_drill(verdict=verdict))

    assert wrong(health) == {}
    bounds = replace(BOUNDS, recovery_point=3600.0, recovery_time=60.0)
    assert set(wrong(health, bounds)) == {"recovery_point_exceeded", "recovery_time_exceeded"}
    assert wrong(health, replace(BOUNDS, recovery_point=4001.0, recovery_time=91.0)) == {}


def lossy(count: int = 1, seconds: float = 60.0) -> JobHealth:
    loss = AcceptedLoss(queries={"counts": 6}, reason="batch 6 of counts", epoch=3, count=count, at=ago(seconds))
    return with_job(LIVE, status=a_status().model_copy(update={"loss": loss}))


def test_a_run_that_goes_on_without_its_input_is_told_once_for_each_loss() -> None:
    found = wrong(lossy())

    assert set(found) == {"input_lost"}
    assert found["input_lost"].facts == {
        "run": 2,
        "epoch": 3,
        "reason": "batch 6 of counts",
        "queries": {"counts": 6},
    }
    assert found["input_lost"].key == wrong(lossy(seconds=900.0))["input_lost"].key
    assert found["input_lost"].key != wrong(lossy(count=2))["input_lost"].key
    assert cluster_event("input_lost", "flights", found["input_lost"].facts, 0.0).to_json()["queries"] == {"counts": 6}


def test_a_loss_of_last_week_is_no_news() -> None:
    assert wrong(lossy(seconds=7 * 86_400.0)) == {}


def an_end(batch: int | None = 5, *, seconds: float = 60.0, **changed: Any) -> SubmissionExit:
    batches = None if batch is None else {"counts": batch}
    fields: dict[str, Any] = {"error_class": "STALLED", "message": HANGS, "query": "counts", "batches": batches}
    return SubmissionExit(code=1, failure=Failure(**(fields | changed)), at=ago(seconds))


KILLED = SubmissionExit(code=-9, at=ago(60))


def again(
    *, epoch: int = 3, committed_at: datetime | None = None, query: str = "counts", stalled: str = ""
) -> JobHealth:
    """Return a job of which two drivers were stalled at batch 5; what its leader says now."""
    status = a_status()
    shown = status.queries["counts"].model_copy(update={"committed_at": committed_at})
    status = status.model_copy(update={"epoch": epoch, "queries": {query: shown}, "stalled": stalled})
    return replace(with_job(LIVE, status=status), stalls_again=an_end())


@pytest.mark.parametrize(
    ("newest", "before", "told"),
    [
        (an_end(), an_end(), True),
        (an_end(), an_end(message="another sentence"), True),
        (an_end(), an_end(4), False),
        (an_end(), an_end(query="another"), False),
        (an_end(None), an_end(None), False),
        (an_end(), an_end(error_class="ValueError"), False),
        (an_end(error_class="ValueError"), an_end(), False),
        (an_end(), KILLED, False),
        (an_end(), None, False),
        (None, an_end(), False),
    ],
    ids=[
        "at one batch",
        "in other words",
        "at another batch",
        "another query",
        "at an unknown batch",
        "an error before",
        "an error after",
        "killed before",
        "nothing before",
        "nothing after",
    ],
)
def test_a_restart_has_not_helped_when_the_next_driver_is_stalled_at_the_same_batch(
    newest: SubmissionExit | None, before: SubmissionExit | None, told: bool
) -> None:
    assert stalls_again(newest, before) == (newest if told else None)


def test_a_stall_that_a_restart_has_not_ended_is_told_at_once() -> None:
    found = wrong(again())

    assert set(found) == {"stalled"}
    assert found["stalled"].lasting == 0.0
    assert found["stalled"].facts == {
        "run": 2,
        "epoch": 3,
        "checkpoint": 7,
        "reason": f"two drivers in a row ended themselves at the same batch; the last time: {HANGS}",
    }


def test_a_stall_that_a_restart_has_not_ended_stays_one_over_each_further_restart() -> None:
    """The leader of each epoch says so again, with another sentence, and ends itself."""
    notices, found = Notices(100.0, 10_000.0), list[str]()
    lost, at = Condition(kind=NO_LEADER, lasting=1e6), ("flights", STALLED)

    for minute in range(60):
        health = again(epoch=minute // 10, stalled=HANGS if minute % 10 == 9 else "")
        seen = of_leaders({("flights", LEADER): lost, at: wrong(health)["stalled"]})
        found += [event["event"] for event in notices.take(seen, minute * 60.0)]

    assert found == ["stalled"]


@pytest.mark.parametrize(
    ("health", "told"),
    [
        (again(committed_at=ago(10)), False),
        (again(committed_at=ago(70)), True),
        (again(committed_at=ago(10), query="another"), True),
        (with_job(again(), status=None), True),
    ],
    ids=["commits", "committed before", "another query commits", "no status"],
)
def test_a_stall_is_over_when_its_query_commits(health: JobHealth, told: bool) -> None:
    assert ("stalled" in wrong(health)) is told
