"""When the publisher looks at its directories: as often as its source says, and again when a look has failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.checkpointing.publisher import Provenance, Publisher
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.storage.keys import JobKeys
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.clusters.coordination_helpers import JOB
from tests.support.spark.recorded_job import QUERY, copy_live


pytestmark = pytest.mark.timeout(300)
INTERVAL = 10.0

LIVE = JobKeys(JOB).working_directory(1, "a")


class Once:
    """A source that says one time that something has moved."""

    def __init__(self) -> None:
        self.answers = [True]

    def moved(self) -> bool:
        return bool(self.answers and self.answers.pop())


class AheadClock(SystemClock):
    """The real clocks, a while ahead."""

    ahead = 0.0

    def lease_time(self) -> float:
        return super().lease_time() + self.ahead


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator) -> Iterator[Job]:
    with led_job(config, coordinator) as led:
        yield led


@pytest.fixture
def clock() -> AheadClock:
    return AheadClock()


@pytest.fixture
def live(config: HaConfig) -> Path:
    """A directory whose query has not committed its last batch yet."""
    live = copy_live(config.work_path / LIVE)
    commits = live / QUERY / "commits"
    newest = max(int(path.name) for path in commits.glob("[0-9]*"))
    (commits / str(newest)).rename(live / f".{newest}")
    return live


@pytest.fixture
def publisher(job: Job, live: Path, clock: AheadClock) -> Publisher:
    registry = QueryRegistry(clock)
    registry.add(StartedQuery(QUERY, SimpleNamespace(), SinkSpec(SinkKind.OTHER, "noop"), LocalTree(live / QUERY)))
    registry.script_waits()
    return Publisher(
        store=job.checkpoints,
        leadership=job.leadership,
        registry=registry,
        origin=Origin(OriginKind.FRESH, LIVE, LocalTree(live)),
        provenance=Provenance(JOB, 1, "g", "4.2.0"),
        options=HaOptions(checkpoint_interval=INTERVAL),
        area=LinkedWorkArea(job.config.work_path),
        clock=clock,
        source=Once(),
    )


def commit(live: Path) -> None:
    """Commit the last batch."""
    (held,) = live.glob(".[0-9]*")
    held.rename(live / QUERY / "commits" / held.name.removeprefix("."))


def test_commits_without_a_report_wait_for_the_next_look(publisher: Publisher, live: Path, clock: AheadClock) -> None:
    assert publisher.tick() is not None
    commit(live)
    clock.ahead = INTERVAL

    assert publisher.tick() is None


def test_commits_that_were_looked_at_are_published_when_the_interval_is_over(
    publisher: Publisher, live: Path, clock: AheadClock
) -> None:
    """The query may be idle from then on, and report nothing more."""
    source = publisher._source
    assert isinstance(source, Once)
    assert publisher.tick() is not None
    commit(live)
    source.answers = [True]
    assert publisher.tick() is None

    clock.ahead = INTERVAL

    assert publisher.tick() is not None


def test_a_look_that_failed_is_repeated(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its source says only once that something has moved."""
    record = publisher.record
    failures = [StorageUnavailableError("the disk does not answer")]

    def fail_once() -> None:
        if failures:
            raise failures.pop()
        record()

    monkeypatch.setattr(publisher, "record", fail_once)
    with pytest.raises(StorageUnavailableError):
        publisher.tick()

    assert publisher.tick() is not None
