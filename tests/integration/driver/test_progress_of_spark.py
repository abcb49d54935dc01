"""Reports of real queries: enough for the publisher, also without input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.checkpointing.progress import (
    EitherProgress,
    PeriodicProgress,
    ProgressSource,
    ReportedProgress,
)
from airflow_provider_ha.driver.checkpointing.publisher import Provenance, Publisher
from airflow_provider_ha.driver.figures import QueryTrigger
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.stall_watch import look_at
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.coordination_helpers import JOB


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
QUERY = "rows"
HOUR = 3600.0
SILENT = SimpleNamespace(_jsq=SimpleNamespace(lastProgress=lambda: None))
LIVE = JobKeys(JOB).working_directory(1, "a")


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession  # inside functions only

    local = "127.0.0.1"
    conf: dict[str, Any] = {"spark.ui.enabled": "false", "spark.driver.host": local, "spark.driver.bindAddress": local}
    session = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def live(config: HaConfig) -> Path:
    return config.work_path / LIVE


@pytest.fixture
def query(spark: Any, live: Path) -> Iterator[Any]:
    """A query that commits several batches a second."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(live / QUERY))
    handle = writer.trigger(processingTime="200 milliseconds").start()
    yield handle
    handle.stop()


def registry_of(live: Path, handle: Any) -> QueryRegistry:
    registry = QueryRegistry(SystemClock())
    registry.add(StartedQuery(QUERY, handle, SinkSpec(SinkKind.OTHER, "noop"), LocalTree(live / QUERY)))
    registry.script_waits()
    return registry


def publisher_of(job: Job, live: Path, registry: QueryRegistry, source: ProgressSource) -> Publisher:
    return Publisher(
        store=job.checkpoints,
        leadership=job.leadership,
        registry=registry,
        origin=Origin(OriginKind.FRESH, LIVE, LocalTree(live)),
        provenance=Provenance(JOB, 1, "g", "4.2.0"),
        options=HaOptions(checkpoint_interval=0.0),
        area=LinkedWorkArea(job.config.work_path),
        clock=SystemClock(),
        source=source,
    )


def published(publisher: Publisher, checkpoints: int) -> list[int]:
    """Tick until so many checkpoints are published; return the batch of each."""
    cuts: list[int] = []

    def tick() -> bool:
        if (made := publisher.tick()) is not None:
            cuts.append(made.queries[QUERY].batch)
        return len(cuts) == checkpoints

    wait_until(tick, timeout=300, what=f"{checkpoints} checkpoints")
    return cuts


def test_reports_are_enough_to_publish_every_batch(job: Job, live: Path, query: Any) -> None:
    registry = registry_of(live, query)
    source = EitherProgress(ReportedProgress(registry), PeriodicProgress(SystemClock(), HOUR))

    cuts = published(publisher_of(job, live, registry, source), 4)

    assert cuts == sorted(set(cuts))


def test_every_batch_is_heard_once_with_its_figures(live: Path, query: Any) -> None:
    """Also those that ended between two looks."""
    heard: list[QueryTrigger] = []
    source = ReportedProgress(registry_of(live, query), lambda _, trigger: heard.append(trigger))

    def several_at_once() -> bool:
        before = len(heard)
        source.moved()
        wait_until(
            lambda: query._jsq.lastProgress().batchId() > (heard[-1].batch if heard else -1) + 2,
            timeout=300,
            what="batches",
        )
        return before > 0 and len(heard) >= 6

    wait_until(lambda: query._jsq.lastProgress() is not None, timeout=300, what="a first report")
    wait_until(several_at_once, timeout=300, what="six batches")

    batches = [trigger.batch for trigger in heard if trigger.executed]
    assert batches == list(range(batches[0], batches[-1] + 1))
    rows = {record.batchId: record.numInputRows for record in query.recentProgress}
    assert {trigger.batch: trigger.input_rows for trigger in heard if trigger.executed}.items() <= rows.items()
    assert all(trigger.seconds > 0 for trigger in heard)


def test_no_report_is_needed_to_publish(job: Job, live: Path, query: Any) -> None:
    wait_until(lambda: query._jsq.lastProgress() is not None, timeout=300, what="a first report")
    registry = registry_of(live, SILENT)
    source = EitherProgress(ReportedProgress(registry), PeriodicProgress(SystemClock(), 0.5))

    cuts = published(publisher_of(job, live, registry, source), 3)

    assert cuts == sorted(set(cuts))


def test_a_batch_is_committed_before_it_is_reported(live: Path, query: Any) -> None:
    """Else a look that a report asks for would come too early, and the batch would wait for the next one."""
    committed: dict[int, bool] = {}

    def look() -> bool:
        last = query._jsq.lastProgress()
        if last is not None and last.numInputRows() > 0:
            committed.setdefault(last.batchId(), (live / QUERY / COMMITS / str(last.batchId())).exists())
        return len(committed) == 10

    wait_until(look, timeout=300, what="ten reports")

    assert set(committed.values()) == {True}


@pytest.fixture
def idle(spark: Any, tmp_path: Path) -> Iterator[StartedQuery]:
    """A query that has committed the one file that there is."""
    interval, given = "spark.sql.streaming.noDataProgressEventInterval", tmp_path / "given"
    given.mkdir()
    (given / "one.txt").write_text("a row\n")
    spark.conf.set(interval, "200ms")  # 10 s by Spark's default
    writer = spark.readStream.text(str(given)).writeStream.format("noop")
    handle = writer.option("checkpointLocation", str(tmp_path / "rows")).start()
    handle.processAllAvailable()
    yield StartedQuery("rows", handle, SinkSpec(SinkKind.OTHER, "noop"), LocalTree(tmp_path / "rows"))
    handle.stop()
    spark.conf.unset(interval)


def test_a_query_without_input_is_known_to_go_on_by_its_reports(idle: StartedQuery) -> None:
    reported = set[str]()

    def looked() -> bool:
        look = look_at(idle)
        assert look is not None
        assert look.committed == 0
        reported.add(look.reported)
        return len(reported) >= 4

    wait_until(looked, timeout=120, what="three triggers without data after that of the batch")
