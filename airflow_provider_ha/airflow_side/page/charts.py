"""Charts and timeline of a job: batches, epochs, checkpoints and savepoints over time. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from types import MappingProxyType

from airflow_provider_ha.api.documents.checkpoints import CheckpointRow, SavepointRow
from airflow_provider_ha.api.documents.history import EpochView, HistoryView
from airflow_provider_ha.api.documents.restore_plan import PlanView
from airflow_provider_ha.jobs.progress_history import RESOLUTION, ProgressPoint
from airflow_provider_ha.query_names import own_name


_TICKS = 4
_LEAST = 0.4  # percent: shorter bars stay visible


class TimeSpan(str, Enum):
    """Time range of a page, up to now, or to the end of the newest run."""

    RUN = "run"
    HOUR = "1h"
    HOURS = "6h"
    DAY = "24h"
    WEEK = "7d"
    ALL = "all"

    @property
    def length(self) -> timedelta | None:
        """Length of the span; ``None`` for a run, and for the whole history."""
        return {
            TimeSpan.HOUR: timedelta(hours=1),
            TimeSpan.HOURS: timedelta(hours=6),
            TimeSpan.DAY: timedelta(days=1),
            TimeSpan.WEEK: timedelta(days=7),
        }.get(self)


@dataclass(frozen=True, slots=True)
class Axis:
    """Span of time."""

    begin: datetime
    end: datetime

    def position(self, at: datetime) -> float:
        """Return the position of a moment, in percent; moments outside are clamped to the ends."""
        share = (at - self.begin) / (self.end - self.begin)
        return round(100 * min(1.0, max(0.0, share)), 2)

    def has(self, at: datetime) -> bool:
        """Return whether a moment is on the axis."""
        return self.begin <= at <= self.end

    @property
    def ticks(self) -> list[tuple[float, datetime]]:
        """Moments to label below the axis."""
        step = (self.end - self.begin) / _TICKS
        return [(100 * number / _TICKS, self.begin + number * step) for number in range(_TICKS + 1)]


@dataclass(frozen=True, slots=True)
class Bar:
    """Epoch on the timeline."""

    left: float
    width: float
    epoch: EpochView


@dataclass(frozen=True, slots=True)
class Mark:
    """Checkpoint or savepoint on the timeline.

    :param size: Bytes of a checkpoint's record, or of a savepoint's files.
    :param verdict: Verdict of the latest restore plan; empty without one.
    """

    left: float
    text: str
    size: int
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Content of the drawing."""

    axis: Axis
    bars: tuple[Bar, ...]
    checkpoints: tuple[Mark, ...]
    savepoints: tuple[Mark, ...]


def fitting(history: HistoryView, *, now: datetime) -> TimeSpan:
    """Return the initial span: the newest run, or the last day of a longer one."""
    if not history.runs or (history.runs[0].ended_at or now) - history.runs[0].created_at > timedelta(days=1):
        return TimeSpan.DAY
    return TimeSpan.RUN


def axis_of(span: TimeSpan, history: HistoryView, *, now: datetime) -> Axis:
    """Return the axis of a span of time that ends now, or with the newest run."""
    if span is TimeSpan.RUN and history.runs:
        run = history.runs[0]
        end = run.ended_at or now
        begin = min(run.created_at, end - timedelta(minutes=1))
        return Axis(begin, now if run.ended_at is None else end + (end - begin) / 50)  # its end stays visible
    if span.length is not None:
        return Axis(now - span.length, now)
    known = [epoch.led_at or epoch.submitted_at for run in history.runs for epoch in run.epochs]
    return Axis(min([*known, now - timedelta(minutes=1)]), now)


def verdicts_of(plan: PlanView | None) -> dict[str, str]:
    """Return the verdicts of a restore plan on all candidates of its job, by name.

    The checkpoints of another job have the same names, so a plan that starts from another job gives no verdicts.
    """
    if plan is None or plan.source_job != plan.job_id:
        return {}
    return {each.source: "can be restored" if each.accepted else each.reason for each in plan.candidates}


def timeline(
    axis: Axis,
    history: HistoryView,
    checkpoints: Sequence[CheckpointRow],
    savepoints: Sequence[SavepointRow],
    *,
    verdicts: Mapping[str, str] = MappingProxyType({}),
) -> Timeline:
    """Return the content of the axis.

    :param verdicts: From :func:`verdicts_of`.
    """
    epochs = [epoch for run in history.runs for epoch in run.epochs if epoch.led_at is not None]

    def mark(row: CheckpointRow | SavepointRow, name: str, text: str) -> Mark:
        return Mark(axis.position(row.created_at), text, row.size, verdicts.get(name, ""))

    return Timeline(
        axis=axis,
        bars=tuple(bar for epoch in reversed(epochs) if (bar := _bar(axis, epoch)) is not None),
        checkpoints=tuple(
            mark(row, f"checkpoint-{row.number}", f"checkpoint {row.number} of epoch {row.epoch}")
            for row in checkpoints
            if axis.has(row.created_at)
        ),
        savepoints=tuple(
            mark(row, f"savepoint-{row.savepoint_id}", f"savepoint {row.savepoint_id}")
            for row in savepoints
            if axis.has(row.created_at)
        ),
    )


def _bar(axis: Axis, epoch: EpochView) -> Bar | None:
    begin, end = epoch.led_at, epoch.ended_at or axis.end
    if begin is None or end < axis.begin or begin > axis.end:
        return None
    left = axis.position(begin)
    width = max(_LEAST, round(axis.position(end) - left, 2))
    return Bar(min(left, 100 - width), width, epoch)


_POINTS = 180  # per query: one every few pixels
_ROWS = 900  # of all queries: a page reloads every few seconds
_FEWEST = 30  # per query, for any number of queries
_BREAK = 3  # steps without a batch: the line is interrupted
_EPOCH_START = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class ChartRow:
    """Time step of a query.

    :param series: Position of the query in :attr:`Charts.queries`.
    :param point: Its batches committed in the step, as a single point at the beginning of the step.
    """

    series: int
    point: ProgressPoint


@dataclass(frozen=True, slots=True)
class Charts:
    """Content of the charts.

    :param queries: Names, sorted.
    :param rows: Rows, newest first.
    :param begin: Begin of the axis, in seconds since 1970.
    :param end: End of the axis, in seconds since 1970.
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
        """Return whether the sources of any query report its backlog."""
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
