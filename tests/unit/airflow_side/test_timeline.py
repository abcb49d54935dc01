"""Timeline and charts of a job's page."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from airflow_provider_ha.airflow_side.page.charts import (
    Axis,
    Charts,
    Mark,
    Timeline,
    TimeSpan,
    axis_of,
    charts_of,
    fitting,
    timeline,
    verdicts_of,
)
from airflow_provider_ha.api.documents.checkpoints import CheckpointRow, SavepointRow
from airflow_provider_ha.api.documents.history import EpochView, HistoryView, RunHistoryView
from airflow_provider_ha.api.documents.restore_plan import PlanView, plan_view
from airflow_provider_ha.checkpoints.model import CheckpointKind
from airflow_provider_ha.checkpoints.plan_model import Candidate, RestorePlan, Verdict
from airflow_provider_ha.jobs.model import StartKind
from airflow_provider_ha.jobs.progress_history import ProgressPoint


NOON = datetime(2026, 11, 24, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
AXIS = Axis(NOON - 100 * MINUTE, NOON)  # a minute is a percent


def epoch(number: int, led: int | None, ended: int | None) -> EpochView:
    """Return one that led *led* minutes before noon, and ended *ended* minutes before it."""
    return EpochView(
        run=1,
        attempt=number,
        engine="local",
        requested_by="test",
        submitted_at=NOON - 500 * MINUTE,
        epoch=number if led is not None else None,
        host="worker-1",
        pid=1,
        led_at=before(led),
        ended_at=before(ended),
        end="leads" if ended is None else "lost",
        reason="",
        recovered_by=None,
        recovered_at=None,
    )


def before(minutes: int | None) -> datetime | None:
    return NOON - minutes * MINUTE if minutes is not None else None


def history(*epochs: EpochView) -> HistoryView:
    """Return a job of one run.

    :param epochs: Oldest first.
    """
    run = RunHistoryView(
        run=1,
        started_from=StartKind.FRESH,
        source=None,
        owner=None,
        created_at=NOON - 500 * MINUTE,
        state=None,
        reason="",
        ended_at=None,
        checkpoint=None,
        epochs=epochs[::-1],
        left_out=0,
    )
    return HistoryView(job_id="flights", runs=(run,), left_out=0, unreadable=())


def checkpoint(number: int, minutes: int) -> CheckpointRow:
    return CheckpointRow(
        number=number,
        epoch=3,
        run=1,
        reason=CheckpointKind.PERIODIC,
        payload="payload",
        sha256="0" * 64,
        size=48_211,
        cut={},
        created_at=NOON - minutes * MINUTE,
    )


def savepoint(savepoint_id: str, minutes: int) -> SavepointRow:
    return SavepointRow(
        savepoint_id=savepoint_id,
        directory="directory",
        manifest_sha256="0" * 64,
        size=3_412_000_000,
        cut={},
        schedule=None,
        label="",
        created_at=NOON - minutes * MINUTE,
        claimed_by=None,
    )


def bars(found: Timeline) -> list[tuple[int | None, float, float]]:
    return [(bar.epoch.epoch, bar.left, bar.width) for bar in found.bars]


def test_an_epoch_is_a_bar_from_when_it_led_to_when_it_ended_oldest_first() -> None:
    found = timeline(AXIS, history(epoch(1, 90, 50), epoch(2, 40, None)), (), ())

    assert bars(found) == [(1, 10.0, 40.0), (2, 60.0, 40.0)]


def test_an_epoch_that_reaches_beyond_the_axis_ends_at_its_ends() -> None:
    found = timeline(AXIS, history(epoch(1, 300, 50), epoch(2, 40, -10)), (), ())

    assert bars(found) == [(1, 0.0, 50.0), (2, 60.0, 40.0)]


@pytest.mark.parametrize(
    "away", [epoch(1, 300, 200), epoch(1, -10, None), epoch(1, None, 50)], ids=["before", "after", "never led"]
)
def test_an_epoch_that_is_not_on_the_axis_is_no_bar(away: EpochView) -> None:
    assert bars(timeline(AXIS, history(away), (), ())) == []


@pytest.mark.parametrize(("minutes", "left"), [(50, 50.0), (0, 99.6)], ids=["in the middle", "at the end"])
def test_an_epoch_that_was_short_is_still_seen(minutes: int, left: float) -> None:
    found = timeline(AXIS, history(epoch(1, minutes, minutes)), (), ())

    assert bars(found) == [(1, left, 0.4)]


def test_checkpoints_and_savepoints_lie_where_they_were_taken() -> None:
    found = timeline(AXIS, history(), (checkpoint(8, 25),), (savepoint("weekly", 75),))

    assert [(mark.text, mark.left) for mark in found.checkpoints] == [("checkpoint 8 of epoch 3", 75.0)]
    assert [(mark.text, mark.left) for mark in found.savepoints] == [("savepoint weekly", 25.0)]


def test_what_was_taken_before_or_after_the_axis_is_not_on_it() -> None:
    taken = {100: 0.0, 101: None, 0: 100.0, -1: None}

    found = timeline(
        AXIS,
        history(),
        [checkpoint(minutes + 2, minutes) for minutes in taken],
        [savepoint(f"s{minutes}", minutes) for minutes in taken],
    )

    on_it = [left for left in taken.values() if left is not None]
    assert [mark.left for mark in found.checkpoints] == on_it
    assert [mark.left for mark in found.savepoints] == on_it


def test_a_mark_has_the_size_and_the_verdict_of_its_checkpoint() -> None:
    verdicts = {"checkpoint-8": "a state file is short", "savepoint-weekly": "can be restored"}

    found = timeline(
        AXIS, history(), (checkpoint(8, 1), checkpoint(7, 2)), (savepoint("weekly", 3),), verdicts=verdicts
    )

    assert found.checkpoints == (
        Mark(99.0, "checkpoint 8 of epoch 3", 48_211, "a state file is short"),
        Mark(98.0, "checkpoint 7 of epoch 3", 48_211),
    )
    assert found.savepoints == (Mark(97.0, "savepoint weekly", 3_412_000_000, "can be restored"),)


def test_a_verdict_is_the_reason_for_which_a_plan_left_something_out() -> None:
    plan = a_plan(
        "flights",
        Candidate(source="checkpoint-8", cut={}, created_at=NOON, accepted=False, reason="a state file is short"),
        Candidate(source="savepoint-weekly", cut={}, created_at=NOON, accepted=True),
    )

    assert verdicts_of(plan) == {"checkpoint-8": "a state file is short", "savepoint-weekly": "can be restored"}


def test_a_plan_that_starts_from_another_job_says_nothing_of_this_one() -> None:
    plan = a_plan("another", Candidate(source="checkpoint-8", cut={}, created_at=NOON, accepted=True))

    assert verdicts_of(plan) == {}


def a_plan(source_job: str, *candidates: Candidate) -> PlanView:
    return plan_view(
        RestorePlan(
            job_id="flights",
            source_job=source_job,
            source="checkpoint",
            source_id="8",
            directory="directory",
            verdict=Verdict.SAFE,
            queries={},
            candidates=candidates,
            age_seconds=1.0,
            created_at=NOON,
        )
    )


def test_the_axis_of_all_there_is_begins_with_the_first_epoch() -> None:
    found = axis_of(TimeSpan.ALL, history(epoch(1, 300, 200), epoch(2, 40, None)), now=NOON)

    assert found == Axis(NOON - 300 * MINUTE, NOON)


def test_the_axis_of_a_job_without_an_epoch_is_not_empty() -> None:
    found = axis_of(TimeSpan.ALL, HistoryView(job_id="flights", runs=(), left_out=0, unreadable=()), now=NOON)

    assert [left for left, _ in found.ticks] == [0, 25, 50, 75, 100]
    assert found.begin < found.end


@pytest.mark.parametrize(
    ("began", "ended", "span"), [(10, None, TimeSpan.RUN), (2000, 1990, TimeSpan.RUN), (1500, None, TimeSpan.DAY)]
)
def test_a_page_begins_with_the_time_that_the_run_fills(began: int, ended: int | None, span: TimeSpan) -> None:
    (run,) = history().runs
    run = run.model_copy(update={"created_at": before(began), "ended_at": before(ended)})
    found = HistoryView(job_id="flights", runs=(run,), left_out=0, unreadable=())

    assert fitting(found, now=NOON) is span
    axis = axis_of(TimeSpan.RUN, found, now=NOON)
    assert (axis.begin, axis.position(before(ended) or NOON) > 95) == (before(began), True)


def test_a_job_without_a_run_has_an_axis() -> None:
    none = HistoryView(job_id="flights", runs=(), left_out=0, unreadable=())

    assert fitting(none, now=NOON) is TimeSpan.DAY
    assert axis_of(TimeSpan.RUN, none, now=NOON).end == NOON


def axis(span: timedelta, *, end: datetime = NOON) -> Axis:
    return Axis(end - span, end)


def point(
    at: datetime, *, query: str = "hourly", batch: int = 1, seconds: float = 2.0, lag: int | None = None
) -> ProgressPoint:
    return ProgressPoint(
        at=at,
        query=query,
        batch=batch,
        batch_seconds=seconds,
        longest_seconds=seconds,
        input_rows=100,
        input_rate=10.0,
        lag=lag,
    )


def minutes(count: int, *queries: str) -> list[ProgressPoint]:
    return [
        point(NOON - number * MINUTE, query=query, batch=count - number)
        for number in reversed(range(count))
        for query in queries
    ]


def shown(charts: Charts) -> list[tuple[datetime, str, int]]:
    return [(row.point.at, charts.queries[row.series], row.point.batch) for row in charts.rows]


def test_an_hour_has_each_minute_of_each_query_newest_first() -> None:
    charts = charts_of(axis(60 * MINUTE), minutes(2, "b", "a"))

    assert charts.queries == ("a", "b")
    assert shown(charts) == [
        (NOON, "a", 2),
        (NOON, "b", 2),
        (NOON - MINUTE, "a", 1),
        (NOON - MINUTE, "b", 1),
    ]


def test_the_batches_of_a_step_are_one_row_with_their_mean_and_the_newest_lag() -> None:
    begin = NOON - timedelta(hours=8)  # steps of 8 minutes lie on it
    points = [point(begin, seconds=1.0, lag=900), point(begin + 3 * MINUTE, batch=2, seconds=3.0, lag=5)]

    (row,) = charts_of(axis(timedelta(days=1)), points).rows

    assert (row.point.at, row.point.batch, row.point.batch_seconds, row.point.lag) == (begin, 2, 2.0, 5)


def test_points_outside_the_axis_are_left_out() -> None:
    points = [point(NOON - timedelta(hours=2)), point(NOON - 30 * MINUTE), point(NOON + 5 * MINUTE)]

    assert [row.point.at for row in charts_of(axis(60 * MINUTE), points).rows] == [NOON - 30 * MINUTE]


def test_steps_of_a_chart_are_stable_over_time() -> None:
    points = minutes(600, "hourly")
    day = timedelta(days=1)

    before = charts_of(axis(day), points).rows
    after = charts_of(axis(day, end=NOON + timedelta(seconds=95)), points).rows

    assert before == after


@pytest.mark.parametrize(
    ("span", "queries", "step"),
    [
        (timedelta(hours=1), 1, MINUTE),
        (timedelta(hours=6), 1, 2 * MINUTE),
        (timedelta(days=7), 1, 56 * MINUTE),
        (timedelta(days=7), 9, 101 * MINUTE),
        (timedelta(days=7), 500, 336 * MINUTE),
    ],
)
def test_a_step_is_long_enough_for_few_rows(span: timedelta, queries: int, step: timedelta) -> None:
    names = [f"query-{number:03d}" for number in range(queries)]

    charts = charts_of(axis(span), minutes(1, *names))

    assert charts.step == step
    assert charts.gap == 3 * step.total_seconds()


@pytest.mark.parametrize(("lag", "has"), [(None, False), (0, True), (12, True)])
def test_a_lag_exists_only_if_a_query_reports_it(lag: int | None, has: bool) -> None:
    assert charts_of(axis(60 * MINUTE), [point(NOON, lag=lag)]).has_lag is has


def test_without_points_there_is_an_axis_and_nothing_on_it() -> None:
    charts = charts_of(axis(60 * MINUTE), [])

    assert (charts.queries, charts.rows, charts.has_lag) == ((), (), False)
    assert charts.end - charts.begin == 3600
