"""Leases of readers while ZooKeeper does not answer, and while what is read is removed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.coordination.reader_leases import active
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import RestoreLeases, _Keeper, held
from tests.conformance.stores.stage import Stage
from tests.fake.jobs import RecordingEngine
from tests.fake.memory_store import MemoryStore
from tests.support.clusters.coordination_helpers import JOB
from tests.support.fake import FakeCoordinator


WHAT = "checkpoint-1"


@pytest.fixture
def session(stage: Stage) -> FakeCoordinator:
    stage.leader("leader")
    return stage.session("reader")


@pytest.fixture
def job(stage: Stage, session: FakeCoordinator) -> JobContext:
    return JobContext(
        job_id=JOB,
        config=stage.config,
        coordinator=session,
        store=MemoryStore(stage.wall),
        engines=Engines.only(RecordingEngine()),
        clock=stage.wall,
    )


def leases(stage: Stage, job: JobContext, what: str = WHAT) -> set[str]:
    return {lease.lease_id for lease in active(stage.session("other"), job.paths, what, stage.wall)}


def fail_in_an_outage(stage: Stage, session: FakeCoordinator) -> None:
    stage.ensemble.disconnect(session, seconds=1e6)
    raise ConfigurationError("of the work")


def test_a_lease_that_cannot_be_renewed_is_kept_and_renewed_by_the_next_turn(
    stage: Stage, session: FakeCoordinator, job: JobContext, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = _Keeper(job, WHAT, "a drill", 60.0)
    first = leases(stage, job)
    stage.ensemble.disconnect(session, seconds=1e6)

    keeper._renew_once()

    assert "the lease on checkpoint-1 of job flights is not renewed" in caplog.text
    assert leases(stage, job) == first
    stage.ensemble.reconnect(session)
    keeper._renew_once()
    assert len(leases(stage, job)) == 1
    assert not leases(stage, job) & first


def test_a_lease_that_cannot_be_released_does_not_change_how_the_work_ended(
    stage: Stage, session: FakeCoordinator, job: JobContext, caplog: pytest.LogCaptureFixture
) -> None:
    job.coordinator.ensure(job.paths.savepoint("s1"))
    with pytest.raises(ConfigurationError, match="of the work"), held(job, lambda: "savepoint-s1", by="a drill"):
        fail_in_an_outage(stage, session)

    assert "a reader's lease stays until it runs out" in caplog.text
    assert len(leases(stage, job, "savepoint-s1")) == 1
    stage.wall.pass_by(700)
    assert leases(stage, job, "savepoint-s1") == set()


def test_what_is_removed_again_and_again_is_not_chosen_for_ever(stage: Stage, job: JobContext) -> None:
    chosen: list[str] = []

    def choose() -> str:
        chosen.append(f"checkpoint-{len(chosen) + 1}")
        return chosen[-1]

    with (
        pytest.raises(CheckpointMissingError, match=r"removed faster than they can be read.*retained_checkpoints"),
        held(job, choose, by="a drill"),
    ):
        pytest.fail("nothing could be held")

    assert len(chosen) == 5
    assert all(leases(stage, job, name) == set() for name in chosen)


def test_a_restore_ends_as_it_would_have_ended_when_its_lease_cannot_be_released(
    stage: Stage, session: FakeCoordinator, job: JobContext, caplog: pytest.LogCaptureFixture
) -> None:
    chosen: Any = SimpleNamespace(name=WHAT)

    def restore() -> None:
        with RestoreLeases(job, "request-1") as reading:
            reading.hold(job, chosen)
            fail_in_an_outage(stage, session)

    with pytest.raises(ConfigurationError, match="of the work"):
        restore()

    assert "a reader's lease stays until it runs out" in caplog.text
    assert len(leases(stage, job)) == 1
