"""When a job is stalled although its drivers end themselves and are started again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from airflow_provider_ha.fleet.notify.health_rules import JobHealth, of_leaders, stalls_again
from airflow_provider_ha.fleet.notify.notices import LEADER, NO_LEADER, STALLED, Condition, Notices
from airflow_provider_ha.jobs.runs.submissions import Failure, SubmissionExit
from tests.support.judged_health import HANGS, LIVE, a_status, ago, wrong


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
    return replace(LIVE, status=status, stalls_again=an_end())


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
        (replace(again(), status=None), True),
    ],
    ids=["commits", "committed before", "another query commits", "no status"],
)
def test_a_stall_is_over_when_its_query_commits(health: JobHealth, told: bool) -> None:
    assert ("stalled" in wrong(health)) is told
