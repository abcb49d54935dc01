"""What a schedule removes of its savepoints, and what stays at any limit.

On the fake ensemble and on a real one. The clock is the test's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.store.retention_policy import SavepointRetention, superfluous_savepoints
from airflow_provider_ha.checkpoints.store.savepoints import savepoint_store as store_module
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Op, SetData
from airflow_provider_ha.coordination.reader_leases import ReaderLease, hold
from tests.conformance.stores.stage import add_savepoint, job_of, savepoints
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.jobs_helpers import begin_from_savepoint
from tests.support.clusters.pointer_helpers import Wall, leading
from tests.support.fake import FakeEnsemble


BACKENDS = ("fake", "zookeeper")
DAY = 24 * 3600.0


@pytest.fixture
def wall() -> Wall:
    """The clock of savepoints and of readers' leases."""
    return Wall()


@pytest.fixture
def job(backend: str, config: HaConfig, coordinator: Coordinator, ensemble: FakeEnsemble, wall: Wall) -> Iterator[Job]:
    """A job that this process leads."""
    with leading(config, coordinator, clock=ensemble.clock if backend == "fake" else None) as leadership:
        yield job_of(config, coordinator, leadership, clock=wall)


def one_a_day(job: Job, wall: Wall, count: int, *, schedule: str | None = "nightly", name: str = "s") -> None:
    """Let a schedule make savepoints ``s1``, ``s2``...; the last one is a day old afterwards."""
    for number in range(1, count + 1):
        add_savepoint(job, f"{name}{number}", number, schedule=schedule, created_at=wall.now())
        wall.pass_by(DAY)


def retain(job: Job, *, count: int | None = None, days: float | None = None) -> tuple[str, ...]:
    max_age = None if days is None else timedelta(days=days)
    return job.savepoints.retain(job.leadership.commit, SavepointRetention("nightly", count, max_age))


def reading(job: Job, savepoint_id: str, wall: Wall) -> ReaderLease:
    return hold(
        job.coordinator, job.paths, f"savepoint-{savepoint_id}", holder="a restore", seconds=10 * DAY, clock=wall
    )


def test_what_is_older_than_the_schedule_allows_goes(job: Job, wall: Wall) -> None:
    one_a_day(job, wall, 4)

    assert retain(job, days=2) == ("s1", "s2")  # s3 is exactly two days old
    assert savepoints(job) == ["s3", "s4"]
    assert not job.savepoints.directory("s1").exists()


def test_the_newest_stays_however_old_it_is(job: Job, wall: Wall) -> None:
    one_a_day(job, wall, 2)
    wall.pass_by(365 * DAY)

    assert retain(job, count=1, days=1) == ("s1",)
    assert retain(job, count=0, days=1) == ()
    assert savepoints(job) == ["s2"]


@pytest.mark.parametrize(
    ("limits", "gone"),
    [({"count": 3, "days": 9}, ("s1",)), ({"count": 9, "days": 2}, ("s1", "s2")), ({}, ())],
    ids=["count", "age", "neither"],
)
def test_of_two_limits_the_narrower_counts(job: Job, wall: Wall, limits: dict[str, int], gone: tuple[str, ...]) -> None:
    one_a_day(job, wall, 4)

    assert retain(job, **limits) == gone


def test_savepoints_without_this_schedule_neither_count_nor_expire(job: Job, wall: Wall) -> None:
    one_a_day(job, wall, 2, schedule=None, name="mine")
    one_a_day(job, wall, 2, schedule="weekly", name="weekly")
    one_a_day(job, wall, 2)

    assert retain(job, count=1, days=0.5) == ("s1",)
    assert savepoints(job) == ["mine1", "mine2", "s2", "weekly1", "weekly2"]


def test_a_savepoint_under_a_lease_stays_until_the_lease_ends(job: Job, wall: Wall) -> None:
    one_a_day(job, wall, 3)
    lease = reading(job, "s1", wall)

    assert retain(job, count=1) == ("s2",)
    assert savepoints(job) == ["s1", "s3"]

    lease.release()
    assert retain(job, count=1) == ("s1",)


def test_a_reader_that_comes_after_the_decision_is_no_reason_to_fail(
    job: Job, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The savepoint that was just made is complete: that an older one could not be removed must not spoil it."""
    one_a_day(job, wall, 3)

    def with_a_reader(*arguments: Any, **options: Any) -> object:
        reading(job, "s1", wall)
        return superfluous_savepoints(*arguments, **options)

    monkeypatch.setattr(store_module, "superfluous_savepoints", with_a_reader)

    assert retain(job, count=1) == ("s2",)
    assert savepoints(job) == ["s1", "s3"]


def test_what_a_run_begins_from_stays_until_the_run_has_a_checkpoint(job: Job, wall: Wall) -> None:
    one_a_day(job, wall, 3)
    begin_from_savepoint(job.coordinator, job.paths, "s1", number=1)

    assert retain(job, count=1) == ("s2",)
    assert savepoints(job) == ["s1", "s3"]

    job.add(1, 1)
    assert retain(job, count=1) == ("s1",)


def test_a_pointer_that_cannot_be_read_is_left_alone_with_its_files(job: Job, wall: Wall) -> None:
    one_a_day(job, wall, 3)
    node = job.coordinator.get(job.paths.savepoint("s1"))
    job.coordinator.commit(SetData(job.paths.savepoint("s1"), b"{", node.version))

    assert retain(job, count=1) == ("s2",)

    assert savepoints(job) == ["s1", "s3"]
    assert [pointer.name for pointer in job.savepoints.list().unreadable] == ["s1"]


def test_the_pointer_goes_before_the_files(job: Job, wall: Wall) -> None:
    one_a_day(job, wall, 2)
    seen = []

    def commit(*ops: Op) -> list[int]:
        done = job.leadership.commit(*ops)
        seen.append((job.coordinator.find(job.paths.savepoint("s1")) is None, job.savepoints.directory("s1").exists()))
        return done

    job.savepoints.retain(commit, SavepointRetention("nightly", 1))

    assert seen[0] == (True, True)
    assert seen[-1] == (True, False)
