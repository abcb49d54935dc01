"""What a session keeps of the jobs whose metrics it sends, and what it decodes again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_ha.airflow_side.job_samples import SampledJob
from airflow_provider_ha.airflow_side.job_stats import JobMetricsReader
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.fleet.notify.session import Session
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import Status
from airflow_provider_ha.jobs.runs.run_store import decode
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.clusters.shown_cluster import ShownJob, now


HOUR = timedelta(hours=1)


@pytest.fixture
def job(config: HaConfig, coordinator: KazooCoordinator, cluster_paths: Any) -> ShownJob:
    """A job that is led again after a loss, with a checkpoint and a status."""
    at = now()
    shown = ShownJob(coordinator, open_store(config), cluster_paths, "flights").submit(at - HOUR).lead(at - HOUR)
    shown.lose(at).recover(at).lead(at).take_checkpoint(at).status(at)
    return shown


@pytest.fixture
def session(config: HaConfig) -> Iterator[Session]:
    """A session of a triggerer."""
    with HaClient.open(config) as client:
        yield Session(client, lambda _: None)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """The kinds of the records that are decoded for metrics alone."""
    kinds, real = list[type](), decode

    def noted(node: Any, record: Any) -> Any:
        kinds.append(record)
        return real(node, record)

    monkeypatch.setattr("airflow_provider_ha.airflow_side.job_stats.decode", noted)
    return kinds


def read(known: JobMetricsReader, session: Session) -> SampledJob:
    found = known.read(session, ["flights"])["flights"]
    assert found is not None
    return found


def test_a_status_that_was_not_written_again_is_not_decoded_again(
    job: ShownJob, session: Session, decoded: list[type]
) -> None:
    known = JobMetricsReader()
    before = [read(known, session) for _ in range(2)][-1]
    decoded.clear()

    again = read(known, session)

    assert decoded == []
    assert again == before
    assert again.snapshot.status is not None


def test_a_status_that_was_written_again_is_news(job: ShownJob, session: Session) -> None:
    known = JobMetricsReader()
    before = [read(known, session) for _ in range(3)][-1].snapshot.status
    assert before is not None

    job.coordinator.commit(SetData(job.paths.status, before.model_copy(update={"stalled": "it hangs"}).to_bytes()))

    after = read(known, session).snapshot.status
    assert after is not None
    assert (before.stalled, after.stalled) == ("", "it hangs")


def test_nothing_is_kept_of_a_job_that_no_sample_needs(job: ShownJob, session: Session) -> None:
    known = JobMetricsReader()
    assert read(known, session).snapshot.graph is not None

    kinds = {type(each) for each in reached_from(vars(known))}

    assert Status in kinds
    assert GraphPointer not in kinds


def test_nothing_is_kept_of_a_job_that_is_read_as_a_whole_each_time(job: ShownJob, session: Session) -> None:
    known = JobMetricsReader()
    read(known, session)
    job.lose(now())

    read(known, session)

    assert Status not in {type(each) for each in reached_from(known._known)}


def reached_from(top: object) -> Iterator[object]:
    """Yield what an object holds, through records and collections."""
    seen, left = set[int](), [top]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        yield each
        left.extend(gc.get_referents(each))
