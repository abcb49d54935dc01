"""Progress sources that the contract of progress sources runs on, with a stand-in for Spark's handle of a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.checkpointing.progress import (
    EitherProgress,
    PeriodicProgress,
    ProgressSource,
    ReportedProgress,
)
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from tests.support.fake.clock import VirtualClock


PERIOD = 2.0


class Handle:
    """What pyspark returns for a query, as far as its progress is asked for."""

    def __init__(self) -> None:
        self.progress: Any = None
        self.dead = False
        self._jsq = SimpleNamespace(lastProgress=self._last)

    def _last(self) -> Any:
        if self.dead:
            raise ConnectionRefusedError("the JVM is gone")
        return self.progress

    def report(self, batch: int, timestamp: str) -> None:
        """Put another trigger in place of the last one."""
        self.progress = SimpleNamespace(batchId=lambda: batch, timestamp=lambda: timestamp)


@dataclass
class Stage:
    """Queries of a driver, and a clock that the test moves."""

    directory: Path
    clock: VirtualClock
    registry: QueryRegistry
    triggers: int = 0

    def start(self, name: str) -> Handle:
        """Start a query, again when it was started before."""
        handle = Handle()
        spec = SinkSpec(SinkKind.OTHER, "noop")
        self.registry.add(StartedQuery(name, handle, spec, LocalTree(self.directory / name)))
        return handle

    def trigger(self, handle: Handle, batch: int) -> None:
        """End a trigger of a query; *batch* is what Spark names in its progress."""
        self.triggers += 1
        handle.report(batch, f"2026-01-01T00:00:{self.triggers:02d}.000Z")


def reported(stage: Stage) -> ProgressSource:
    """Return the source that asks the queries."""
    return ReportedProgress(stage.registry)


def listed(stage: Stage) -> ProgressSource:
    """Return the source that only knows the time."""
    return PeriodicProgress(stage.clock, PERIOD)


def either(stage: Stage) -> ProgressSource:
    """Return both, as a driver has them."""
    return EitherProgress(ReportedProgress(stage.registry), PeriodicProgress(stage.clock, PERIOD))


SOURCES: dict[str, Callable[[Stage], ProgressSource]] = {"reported": reported, "listed": listed, "either": either}
