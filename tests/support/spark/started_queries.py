"""Queries that are started without Spark: pyspark's side is stood in for."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan, Verdict
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.queries.checked_writer import WriterCalls
from airflow_provider_ha.driver.queries.query_naming import StartLedger
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.queries.query_start import QueryStarter
from airflow_provider_ha.driver.queries.writer_notes import notes
from airflow_provider_ha.driver.script import Lifecycle
from tests.support.checkpoints.writer_helpers import writer_of


OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n0'


def trigger_report(batch: int, *, executed: bool = False) -> Any:
    """Return what Spark reports at the end of a trigger."""
    phases = {"addBatch": 5} if executed else {"triggerExecution": 1}
    report = {"timestamp": "2026-01-01T00:00:00.000Z", "batchId": batch, "durationMs": phases}
    return SimpleNamespace(json=lambda: json.dumps(report), timestamp=lambda: report["timestamp"])


class Started:
    """pyspark's calls, and the handles that they returned."""

    def __init__(self) -> None:
        self.handles: list[SimpleNamespace] = []
        self.during_replay: Callable[[], None] = lambda: None
        self.tables: list[str] = []

    def calls(self, directory: Path) -> WriterCalls:
        """Return calls that start a query which commits a batch at once."""

        def start(writer: Any, _: str | None) -> SimpleNamespace:
            name = notes(writer).name
            assert name is not None
            commit(directory / name)
            handle = SimpleNamespace(runId=len(self.handles), isActive=True, exception=lambda: None)
            thread = SimpleNamespace(isAlive=lambda: handle.isActive, join=lambda _: None)
            execution = SimpleNamespace(queryExecutionThread=lambda: thread)
            handle._jsq = SimpleNamespace(streamingQuery=lambda: execution)
            self.handles.append(handle)
            return handle

        def into_table(writer: Any, name: str) -> SimpleNamespace:
            self.tables.append(name)
            return start(writer, None)

        def ignored(*_: Any, **__: Any) -> None:
            pass

        return WriterCalls(start, into_table, ignored, ignored, ignored, lambda _: self.during_replay(), ignored)


def commit(directory: Path) -> None:
    """Commit the planned batch, or the next one."""
    (directory / "offsets").mkdir(parents=True, exist_ok=True)
    (directory / "commits").mkdir(exist_ok=True)
    now = progress(LocalTree(directory))
    batch = now.planned if now.in_flight else now.planned + 1
    (directory / "offsets" / str(batch)).write_text(OFFSETS)
    (directory / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def starter_of(
    spark: Started, directory: Path, lifecycle: Lifecycle, plan: RestorePlan | None = None, **more: Any
) -> QueryStarter:
    kind = OriginKind.RESTORE if plan else OriginKind.FRESH
    origin = Origin(kind, "live/e1-a", LocalTree(directory), directory.as_uri(), plan=plan)
    registry = QueryRegistry(SystemClock())
    ledger = StartLedger(LocalTree(directory))
    return QueryStarter(origin, registry, lifecycle, spark.calls(directory), ledger, **more)


def plan_of(query: str, *, replay: int = 0, adopted: bool = False) -> RestorePlan:
    place = AdoptedCheckpoint(path="/data/windows", query_id="id", planned=2, committed=2)
    entries = tuple(BatchEntry(batch=batch, offsets=OFFSETS) for batch in range(replay))
    return RestorePlan(
        job_id="j",
        source_job="j",
        source="path",
        source_id="s",
        directory="",
        verdict=Verdict.SAFE,
        queries={query: QueryPlan(batch=-1, sink=QuerySink(kind=SinkKind.OTHER), replay=entries)},
        age_seconds=0,
        created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        adopted={query: place} if adopted else {},
    )


def file_writer(name: str, directory: Path, path: str) -> Any:
    """Return a writer of a file sink."""
    writer = writer_of(name, directory)
    notes(writer).sink = "json"
    notes(writer).options["path"] = path
    return writer


class Rows:
    """As much of a batch as is asked for."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.kept = False

    def persist(self) -> Rows:
        self.kept = True
        return self

    def unpersist(self) -> None:
        self.kept = False

    def count(self) -> int:
        return self._rows
