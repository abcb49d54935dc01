"""What keeps a query from being started, before Spark is asked for anything. pyspark's own side is stood in for."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QueryPlan, QuerySink, RestorePlan, SinkKind, Verdict
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.lifecycle import Lifecycle
from airflow_provider_ha.driver.origin import Origin, OriginKind
from airflow_provider_ha.driver.queries import QueryRegistry
from airflow_provider_ha.driver.query_start import QueryStarter, WriterCalls
from airflow_provider_ha.driver.spark_conf import CHECKPOINT_LOCATION
from airflow_provider_ha.driver.writer_notes import notes
from airflow_provider_ha.errors import ApplicationRefusedError, RestoreRefusedError
from airflow_provider_ha.pointers.ownership import AdoptedCheckpoint


class Conf(dict[str, str]):
    """The conf of a session."""

    def set(self, key: str, value: str) -> None:
        self[key] = value


def writer_of(name: str, directory: Path, master: str = "local[2]") -> Any:
    """Return what a script has when it calls ``start()``: its notes, and a session with its conf."""
    conf = Conf({CHECKPOINT_LOCATION: directory.as_uri(), "spark.sql.sources.default": "parquet"})
    writer = SimpleNamespace(_spark=SimpleNamespace(conf=conf, sparkContext=SimpleNamespace(master=master)))
    noted = notes(writer)
    noted.name, noted.sink = name, "noop"
    return writer


def test_a_query_that_was_not_adopted_is_refused_before_it_starts(tmp_path: Path) -> None:
    """Its name was mistyped: it would begin from nothing, and write again what its checkpoint says it has written."""
    plan = RestorePlan(
        job_id="j",
        source_job="j",
        source="path",
        source_id="s",
        directory="",
        verdict=Verdict.SAFE,
        queries={"windows": QueryPlan(batch=2, sink=QuerySink(kind=SinkKind.OTHER))},
        age_seconds=0,
        created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        adopted={"windows": AdoptedCheckpoint(path="/data/windows", query_id="id", planned=2, committed=2)},
    )
    started: list[Any] = []

    def called(writer: Any, *_: Any) -> SimpleNamespace:
        started.append(writer)
        return SimpleNamespace(runId="r")

    lifecycle = Lifecycle()
    origin = Origin(OriginKind.RESTORE, "live/e1-a", tmp_path, plan=plan)
    starter = QueryStarter(
        origin, QueryRegistry(SystemClock()), lifecycle, WriterCalls(called, called, called, called, called)
    )

    with pytest.raises(RestoreRefusedError, match="starts query 'window'"):
        starter.start(writer_of("window", tmp_path), None)

    assert started == []
    assert lifecycle.refusal is not None  # also when the script swallows the error


def test_a_query_with_a_relative_output_is_refused_before_it_starts(tmp_path: Path) -> None:
    started: list[Any] = []

    def called(writer: Any, *_: Any) -> SimpleNamespace:
        started.append(writer)
        return SimpleNamespace(runId="r")

    writer = writer_of("q", tmp_path)
    notes(writer).sink = "json"
    lifecycle = Lifecycle()
    starter = QueryStarter(
        Origin(OriginKind.FRESH, "live/e1-a", tmp_path),
        QueryRegistry(SystemClock()),
        lifecycle,
        WriterCalls(called, called, called, called, called),
    )

    with pytest.raises(ApplicationRefusedError, match="query 'q' writes to the relative path 'out'"):
        starter.start(writer, "out")

    assert started == []
    assert lifecycle.refusal is not None


def test_a_script_that_chooses_a_remote_master_is_refused(tmp_path: Path) -> None:
    starter, started = starting(tmp_path)

    with pytest.raises(ApplicationRefusedError, match="the Spark master is 'spark://host:7077'"):
        starter.start(writer_of("q", tmp_path, master="spark://host:7077"), None)

    assert started == []


def test_a_remote_master_that_is_allowed_by_name_is_taken(tmp_path: Path) -> None:
    starter, started = starting(tmp_path, remote_allowed=True)

    starter.start(writer_of("q", tmp_path, master="spark://host:7077"), None)

    assert len(started) == 1


def starting(directory: Path, *, remote_allowed: bool = False) -> tuple[QueryStarter, list[Any]]:
    """Return a starter of an epoch without a past, and the writers that it has started."""
    started: list[Any] = []

    def called(writer: Any, *_: Any) -> SimpleNamespace:
        started.append(writer)
        return SimpleNamespace(runId="r")

    calls = WriterCalls(called, called, called, called, called)
    origin = Origin(OriginKind.FRESH, "live/e1-a", directory)
    registry = QueryRegistry(SystemClock())
    return QueryStarter(origin, registry, Lifecycle(), calls, remote_allowed=remote_allowed), started
