"""Batch durations, inputs and backlogs, reduced to few enough points for charts and their table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from airflow_provider_ha.jobs.history.progress_history import RESOLUTION, ProgressPoint
from airflow_provider_ha.plugins._timeline import Axis
from airflow_provider_ha.query_names import own_name


_POINTS = 180  # per query: one every few pixels
_ROWS = 900  # of all queries: a page reloads every few seconds
_FEWEST = 30  # per query, for any number of queries
_BREAK = 3  # steps without a batch: the line is interrupted
_EPOCH_START = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class ChartRow:
    """A time step of a query.

    :param series: The position of the query in :attr:`Charts.queries`.
    :param point: Its batches committed in the step, as one point at the beginning of the step.
    """

    series: int
    point: ProgressPoint


@dataclass(frozen=True, slots=True)
class Charts:
    """Content of the charts.

    :param queries: Names, sorted.
    :param rows: Newest first.
    :param begin: Of the axis, in seconds since 1970.
    :param end: Of the axis.
    :param gap: Seconds between two points of a query beyond which no line joins them.
    :param step: Seconds per row of a query.
    """

    queries: tuple[str, ...]
    rows: tuple[ChartRow, ...]
    begin: int
    end: int
    gap: int
    step: timedelta

    @property
    def has_lag(self) -> bool:
        """Whether the sources of any query report its backlog."""
        return any(row.point.lag is not None for row in self.rows)


def charts_of(axis: Axis, points: Sequence[ProgressPoint]) -> Charts:
    """Return the points on an axis, combined per query and time step.

    Steps always begin at the same moments, so a reload changes only the newest row.

    :param points: Oldest first.
    """
    seen = [point for point in points if axis.begin - RESOLUTION < point.at <= axis.end]
    queries = sorted({point.query for point in seen})
    step = _step(axis, len(queries))
    merged: dict[tuple[datetime, str], ProgressPoint] = {}
    for point in seen:
        name = (point.at - (point.at - _EPOCH_START) % step, point.query)
        known = merged.get(name)
        merged[name] = point.model_copy(update={"at": name[0]}) if known is None else known.with_later(point)
    position = {query: number for number, query in enumerate(queries)}
    newest = sorted(merged.items(), key=lambda item: (-item[0][0].timestamp(), item[0][1]))
    return Charts(
        queries=tuple(map(own_name, queries)),
        rows=tuple(ChartRow(position[point.query], point) for _, point in newest),
        begin=int(axis.begin.timestamp()),
        end=int(axis.end.timestamp()),
        gap=int((_BREAK * step).total_seconds()),
        step=step,
    )


def _step(axis: Axis, queries: int) -> timedelta:
    """Return whole minutes."""
    wanted = max(_FEWEST, min(_POINTS, _ROWS // max(1, queries)))
    return RESOLUTION * max(1, -(-(axis.end - axis.begin) // (RESOLUTION * wanted)))
