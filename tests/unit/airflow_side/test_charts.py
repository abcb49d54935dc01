"""Which points of a history become the charts of a job's page."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from airflow_provider_ha.airflow_side.page.charts import Axis, Charts, charts_of
from airflow_provider_ha.jobs.progress_history import ProgressPoint


NOON = datetime(2026, 11, 24, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)


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


def test_steps_stay_where_they_are_while_time_goes_on() -> None:
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
def test_there_is_a_lag_only_where_a_query_tells_it(lag: int | None, has: bool) -> None:
    assert charts_of(axis(60 * MINUTE), [point(NOON, lag=lag)]).has_lag is has


def test_without_points_there_is_an_axis_and_nothing_on_it() -> None:
    charts = charts_of(axis(60 * MINUTE), [])

    assert (charts.queries, charts.rows, charts.has_lag) == ((), (), False)
    assert charts.end - charts.begin == 3600
