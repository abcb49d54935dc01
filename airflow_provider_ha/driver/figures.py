"""Figures of a driver's triggers, checkpoints and standby drivers, for its metrics and its status.

Invariant: a figure that is missing, or has an unknown form, is ``None`` or 0. The content of a progress is never an
error: its figures are displayed and decide nothing.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from airflow_provider_ha.checkpoints.model import Checkpoint
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.model import StandbyCount
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyStore


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewestCheckpoint:
    """The newest checkpoint of the job.

    :param size: Bytes of its files; ``None`` when they were not listed.
    """

    number: int
    created_at: datetime
    size: int | None = None


class CheckpointFigures:
    """The newest checkpoint, and the number of failures. Thread-safe.

    :ivar took: Called with the seconds from the cut of every new checkpoint to its pointer.
    """

    def __init__(self) -> None:
        self.took: Callable[[float], None] = lambda _: None
        self._newest: NewestCheckpoint | None = None
        self._failures = 0
        self._lock = threading.Lock()

    @property
    def newest(self) -> NewestCheckpoint | None:
        """The newest known checkpoint; ``None`` before the first."""
        with self._lock:
            return self._newest

    @property
    def failures(self) -> int:
        """Number of checkpoints that could not be taken."""
        with self._lock:
            return self._failures

    def found(self, newest: NewestCheckpoint) -> None:
        """Note a checkpoint that an earlier driver has taken."""
        with self._lock:
            self._newest = self._newest or newest

    def published(self, checkpoint: Checkpoint, seconds: float) -> None:
        """Note a new checkpoint."""
        with self._lock:
            self._newest = NewestCheckpoint(checkpoint.number, checkpoint.created_at, checkpoint.state_size)
        self.took(seconds)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Count the block as a failed checkpoint when it raises."""
        try:
            yield
        except HaError:
            with self._lock:
                self._failures += 1
            raise


STANDBY_SECONDS = 5.0  # between two counts of the standby drivers


class StandbyFigures:
    """Count of the run's standby drivers by its leader. One thread counts; any thread reads.

    :param requested: Number that the job requests: without any, nothing is read.
    :ivar count: The last count, which stays while ZooKeeper does not answer.
    :ivar living: The standby drivers of the last count.
    """

    def __init__(self, store: StandbyStore, requested: int, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._counted_at = float("-inf")
        self.count = StandbyCount(requested=requested) if requested else None
        self.living: tuple[Standby, ...] = ()

    def update(self) -> None:
        """Count them if the last count is old."""
        before, now = self.count, self._clock.lease_time()
        if before is None or now - self._counted_at < STANDBY_SECONDS:
            return
        self._counted_at = now
        try:
            self.living = living = self._store.living()
        except HaError as error:
            log.debug("the standby drivers are not counted: %s", error)
            return
        ready = sum(standby.is_ready for standby in living)
        if ready >= before.requested:
            self.count = StandbyCount(requested=before.requested, ready=ready)
            return
        self.count = StandbyCount(
            requested=before.requested,
            ready=ready,
            note=next((standby.note for standby in living if standby.note and not standby.is_ready), ""),
            missing_since=before.missing_since or self._clock.now(),
        )


_EXECUTION = "addBatch"  # the phase that only a trigger with a batch has
_WHOLE = "triggerExecution"


@dataclass(frozen=True, slots=True)
class QueryTrigger:
    """A trigger of a query, as Spark reported it when it was over.

    :param at: When it began.
    :param batch: Its batch; for a trigger without data, the next batch.
    :param executed: Whether it executed a batch.
    :param phases: Spark's phases (``durationMs``) -> seconds; ``triggerExecution`` is the total.
    :param input_rows: Rows that the batch read.
    :param input_rate: Rows per second that arrived since the trigger before it.
    :param processed_rate: Rows per second that the batch processed.
    :param lag: Rows that the sources had when the batch was planned, and that it did not read; ``None`` when no source
        reports them. Kafka does, as offsets.
    """

    at: datetime
    batch: int
    executed: bool
    phases: Mapping[str, float] = field(default_factory=dict)
    input_rows: int = 0
    input_rate: float = 0.0
    processed_rate: float = 0.0
    lag: int | None = None

    @property
    def seconds(self) -> float:
        """Its duration."""
        return self.phases.get(_WHOLE, 0.0)

    @property
    def ended_at(self) -> datetime:
        """Its end: the commit of its batch is included."""
        return self.at + timedelta(seconds=self.seconds)


def read_trigger(text: str) -> QueryTrigger | None:
    """Return the trigger that the JSON of a progress describes; ``None`` when it describes none."""
    try:
        progress = json.loads(text)
        at = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00"))
        batch = int(progress["batchId"])
        phases = {name: _number(value) / 1000 for name, value in (progress.get("durationMs") or {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    sources = [source for source in progress.get("sources") or [] if isinstance(source, dict)]
    return QueryTrigger(
        at=at,
        batch=batch,
        executed=_EXECUTION in phases,
        phases=phases,
        input_rows=int(_number(progress.get("numInputRows"))),
        input_rate=_number(progress.get("inputRowsPerSecond")),
        processed_rate=_number(progress.get("processedRowsPerSecond")),
        lag=_sum([_lag(source) for source in sources]),
    )


def _lag(source: dict[str, Any]) -> int | None:
    """Return the number of offsets that a source of topics and partitions is behind; ``None`` for another source."""
    read, newest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if read is None:
        return None
    if newest is not None:
        return sum(max(0, offset - read.get(partition, 0)) for partition, offset in newest.items())
    metrics = source.get("metrics")
    average = metrics.get("avgOffsetsBehindLatest") if isinstance(metrics, dict) else None
    return None if average is None else round(_number(average) * len(read))


def _offsets(found: Any) -> dict[tuple[str, str], int] | None:
    """Return topic and partition -> offset."""
    if not isinstance(found, dict) or not all(isinstance(partitions, dict) for partitions in found.values()):
        return None
    flat = {(topic, name): offset for topic, partitions in found.items() for name, offset in partitions.items()}
    return flat if flat and all(type(offset) is int for offset in flat.values()) else None


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _number(value: Any) -> float:
    """Return a number; 0 for other values. Spark leaves out infinite rates, or writes them as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if math.isfinite(number) else 0.0


class ReportedTriggers:
    """The newest batch of every query. Thread-safe.

    A trigger without data is not kept: an idle job then has constant figures, and writes no status.
    """

    def __init__(self) -> None:
        self._newest: dict[str, QueryTrigger] = {}
        self._lock = threading.Lock()

    def note(self, query: str, trigger: QueryTrigger) -> None:
        """Note a report of a query."""
        if not trigger.executed:
            return
        with self._lock:
            self._newest[query] = trigger

    def newest(self, query: str) -> QueryTrigger | None:
        """Return the newest batch of a query; ``None`` before the first one in this epoch."""
        with self._lock:
            return self._newest.get(query)

    def all(self) -> Mapping[str, QueryTrigger]:
        """Return query -> its newest batch, without queries that have none."""
        with self._lock:
            return dict(self._newest)

    def batches(self) -> Mapping[str, int]:
        """Return query -> its newest batch."""
        with self._lock:
            return {query: trigger.batch for query, trigger in self._newest.items()}

    def figures(self, query: str) -> Mapping[str, Any]:
        """Return the fields of a ``QueryStatus`` that the newest batch of a query gives; empty before the first one."""
        newest = self.newest(query)
        if newest is None:
            return {}
        return {
            "batch_at": newest.at,
            "batch_seconds": newest.seconds,
            "input_rows": newest.input_rows,
            "input_rate": newest.input_rate,
            "processed_rate": newest.processed_rate,
            "lag": newest.lag,
            "committed_at": newest.ended_at,
        }
