"""What the batches of a job took, read and left, as few enough points for charts and their table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from airflow_provider_ha.jobs.history.progress_history import RESOLUTION, ProgressPoint
from airflow_provider_ha.plugins._timeline import Axis
from airflow_provider_ha.query_names import own_name


_POINTS = 180  # of a query: one every few pixels
_ROWS = 900  # of all queries: a page is loaded again every few seconds
_FEWEST = 30  # of a query, however many there are
_BREAK = 3  # steps without a batch: the line stops
_EPOCH_START = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class ChartRow:
    """A step of time of a query.

    :param series: The position of the query in :attr:`Charts.queries`.
    :param point: All that it committed in the step, as one point at the beginning of the step.
    """

    series: int
    point: ProgressPoint


@dataclass(frozen=True, slots=True)
class Charts:
    """What the charts show.

    :param queries: Names, sorted.
    :param rows: Newest first.
    :param begin: Of the axis, in seconds since 1970.
    :param end: Of the axis.
    :param gap: Seconds between two points of a query beyond which no line joins them.
    :param step: Of time, of which the batches of a query are one row.
    """

    queries: tuple[str, ...]
    rows: tuple[ChartRow, ...]
    begin: int
    end: int
    gap: int
    step: timedelta

    @property
    def has_lag(self) -> bool:
        """Whether the sources of a query tell how far behind it is."""
        return any(row.point.lag is not None for row in self.rows)


def charts_of(axis: Axis, points: Sequence[ProgressPoint]) -> Charts:
    """Return the points on an axis, those of one step of time and one query as one.

    Steps begin at the same moments however often the page is loaded, so that only the newest row changes.

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
