"""Progress of a job's batches over days: durations, rows and lag, in storage, for charts.

A point is a minute of a query. Batches committed in the same minute form a single point, with the sum of their rows,
the mean and the longest of their durations, the rate of all rows over their time of arrival, and batch and lag of the
newest. A minute without a commit has no point.

The points of six hours form an object, which the leader of an epoch rewrites once a minute while batches come. Its
first write includes the points of earlier epochs for the same six hours, so the object of the highest epoch is
complete. Objects of lower epochs, and objects older than a week, are then removed: a job has at most some 30 objects,
of some 25 kB per query.

Invariant: no decision depends on the history. An object is removed only if a newer object has its points, or if it is
too old.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import ClassVar

from airflow_provider_ha.errors import ObjectMissingError, RecordCorruptError
from airflow_provider_ha.records import Model, Record
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore


log = logging.getLogger(__name__)
RESOLUTION = timedelta(minutes=1)
PERIOD = timedelta(hours=6)
"""Time span of the points in an object."""
KEPT = timedelta(days=7)
_EPOCH_START = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NAME = re.compile(r"(\d{8}T\d{2})-e(\d+)\.json")
_NAME_OF_PERIOD = "%Y%m%dT%H"
_Row = tuple[int, int, int, float, float, int, float, int | None]


class ProgressPoint(Model):
    """A minute of a query with at least one batch.

    :param at: Start of the minute of their commits, UTC.
    :param batch: Number of the newest batch.
    :param batches: Number of batches.
    :param batch_seconds: Mean duration of a batch.
    :param longest_seconds: Longest duration of a batch.
    :param input_rows: Rows read by all batches.
    :param input_rate: Rows per second that arrived for the batches.
    :param lag: Rows that the sources had when the newest batch was planned, and that it did not read; ``None`` if the
        sources do not report this.
    """

    at: datetime
    query: str
    batch: int
    batches: int = 1
    batch_seconds: float
    longest_seconds: float
    input_rows: int
    input_rate: float
    lag: int | None = None

    @property
    def arrival_seconds(self) -> float:
        """Time in which the rows arrived; the duration of the batches if the rate is unknown."""
        return self.input_rows / self.input_rate if self.input_rate > 0 else self.batches * self.batch_seconds

    def with_later(self, other: ProgressPoint) -> ProgressPoint:
        """Return a combined point; *other* has the newer batches."""
        batches, rows = self.batches + other.batches, self.input_rows + other.input_rows
        arrival = self.arrival_seconds + other.arrival_seconds
        return ProgressPoint(
            at=self.at,
            query=self.query,
            batch=other.batch,
            batches=batches,
            batch_seconds=(self.batches * self.batch_seconds + other.batches * other.batch_seconds) / batches,
            longest_seconds=max(self.longest_seconds, other.longest_seconds),
            input_rows=rows,
            input_rate=rows / arrival if arrival > 0 else 0.0,
            lag=other.lag,
        )


class ProgressPeriod(Record):
    """``jobs/<job>/progress/<period>-e<epoch>.json``: the points of six hours.

    :param points: Query -> its points, oldest first: second of the minute since 1970, batch, batches, mean and longest
        seconds, rows, rate, lag.
    """

    kind: ClassVar[str] = "progress-history"

    job_id: str
    epoch: int
    points: dict[str, tuple[_Row, ...]]

    def unpacked(self) -> Iterator[ProgressPoint]:
        """Yield the points."""
        for query, rows in self.points.items():
            for second, batch, batches, mean, longest, read, rate, lag in rows:
                yield ProgressPoint(
                    at=_EPOCH_START + timedelta(seconds=second),
                    query=query,
                    batch=batch,
                    batches=batches,
                    batch_seconds=mean,
                    longest_seconds=longest,
                    input_rows=read,
                    input_rate=rate,
                    lag=lag,
                )


@dataclass(frozen=True, slots=True)
class _Found:
    """An object of the history."""

    key: str
    period: datetime
    epoch: int


_Points = dict[tuple[str, datetime], ProgressPoint]


class ProgressHistory:
    """The history that the leader of an epoch writes. Safe in several threads, except :meth:`write`."""

    def __init__(self, store: ObjectStore, keys: JobKeys, epoch: int) -> None:
        self._store = store
        self._keys = keys
        self._epoch = epoch
        self._points: dict[datetime, _Points] = {}
        self._changed: set[datetime] = set()
        # Period whose earlier points were included -> keys of their objects, until these are removed.
        self._taken: dict[datetime, tuple[str, ...] | None] = {}
        self._lock = threading.Lock()

    def add(self, point: ProgressPoint) -> None:
        """Record one or more batches for the next write."""
        at = _floor(point.at, RESOLUTION)
        period, name = _floor(at, PERIOD), (point.query, at)
        with self._lock:
            points = self._points.setdefault(period, {})
            known = points.get(name)
            points[name] = point.model_copy(update={"at": at}) if known is None else known.with_later(point)
            self._changed.add(period)

    def write(self, now: datetime) -> None:
        """Write new points, if any. The next call repeats a failed write.

        :raises StorageError: The points could not be written.
        """
        self._forget(now)
        for period in sorted(self._changed):
            if period not in self._taken:
                self._taken[period] = self._take_over(period)
            with self._lock:
                # before the write: points that arrive during the write are written next time
                self._changed.discard(period)
                record = _packed(self._keys.job_id, self._epoch, self._points[period].values())
            try:
                self._store.write(self._keys.progress(_name(period), self._epoch), record.to_bytes())
            except BaseException:
                with self._lock:
                    self._changed.add(period)
                raise
            if self._taken[period] is not None:
                self._remove(self._taken[period] or (), now)
                self._taken[period] = None

    def _take_over(self, period: datetime) -> tuple[str, ...]:
        """Include the points of the last earlier epoch; return the keys that the next write supersedes."""
        earlier = [found for found in _found(self._store, self._keys) if found.period == period]
        below = sorted((each for each in earlier if each.epoch < self._epoch), key=lambda each: each.epoch)
        for position in reversed(range(len(below))):
            points = _read(self._store, below[position])
            if points is not None:
                self._insert(period, points)
                return tuple(each.key for each in below[: position + 1])
        return ()

    def _insert(self, period: datetime, earlier: Iterable[ProgressPoint]) -> None:
        with self._lock:
            own = self._points[period]
            merged = {(point.query, point.at): point for point in earlier}
            for name, point in own.items():
                merged[name] = merged[name].with_later(point) if name in merged else point
            self._points[period] = merged

    def _forget(self, now: datetime) -> None:
        """Remove points from memory that are final, or that are too old to be written."""
        current = _floor(now, PERIOD)
        with self._lock:
            over = [
                period
                for period in self._points
                if (period < current - PERIOD and period not in self._changed) or period + PERIOD <= now - KEPT
            ]
            for period in over:
                del self._points[period]
                self._changed.discard(period)
                self._taken.pop(period, None)

    def _remove(self, superseded: Iterable[str], now: datetime) -> None:
        """Remove superseded objects, and objects that are too old."""
        old = [found.key for found in _found(self._store, self._keys) if found.period + PERIOD <= now - KEPT]
        for key in (*superseded, *old):
            self._store.delete(key)


def read_progress(store: ObjectStore, job_id: str, *, since: datetime) -> list[ProgressPoint]:
    """Return the points of a job from the minute of *since* on, oldest first; at most a week.

    Unreadable objects are left out and logged.

    :param since: A moment with a time zone.
    :raises StorageUnavailableError: Storage could not be read.
    """
    newest: dict[datetime, _Found] = {}
    for found in _found(store, JobKeys(job_id)):
        known = newest.get(found.period)
        if found.period + PERIOD > since and (known is None or found.epoch > known.epoch):
            newest[found.period] = found
    read = [point for found in newest.values() for point in _read(store, found) or ()]
    first = _floor(since, RESOLUTION)
    return sorted((point for point in read if point.at >= first), key=lambda point: (point.at, point.query))


def _found(store: ObjectStore, keys: JobKeys) -> Iterator[_Found]:
    for info in store.list(keys.progress_history):
        name = _NAME.fullmatch(info.key.removeprefix(keys.progress_history))
        if name is not None:
            period = datetime.strptime(name[1], _NAME_OF_PERIOD).replace(tzinfo=timezone.utc)
            yield _Found(info.key, period, int(name[2]))


def _read(store: ObjectStore, found: _Found) -> tuple[ProgressPoint, ...] | None:
    """Return the points of an object; ``None`` if it is missing or damaged."""
    try:
        return tuple(ProgressPeriod.from_bytes(store.read(found.key), source=found.key).unpacked())
    except ObjectMissingError:
        return None  # a newer epoch has included its points
    except RecordCorruptError as error:
        log.warning("the progress of six hours is left out: %s", error)
        return None


def _packed(job_id: str, epoch: int, points: Iterable[ProgressPoint]) -> ProgressPeriod:
    rows: dict[str, list[_Row]] = {}
    for point in sorted(points, key=lambda each: each.at):
        row: _Row = (
            int(point.at.timestamp()),
            point.batch,
            point.batches,
            round(point.batch_seconds, 3),
            round(point.longest_seconds, 3),
            point.input_rows,
            round(point.input_rate, 3),
            point.lag,
        )
        rows.setdefault(point.query, []).append(row)
    return ProgressPeriod(
        job_id=job_id, epoch=epoch, points={query: tuple(of_query) for query, of_query in rows.items()}
    )


def _name(period: datetime) -> str:
    return period.strftime(_NAME_OF_PERIOD)


def _floor(moment: datetime, step: timedelta) -> datetime:
    moment = moment.astimezone(timezone.utc)
    return moment - (moment - _EPOCH_START) % step
