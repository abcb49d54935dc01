"""What a job of many runs leaves: as much after the last one as after a fraction of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from airflow_provider_ha.config import HaConfig, Retention
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from tests.support.clusters.aged_job import RETAINED_CHECKPOINTS, AgedJob, Size


EPOCHS = 50
NOTES, NOTE_BYTES = 250, 150  # runs in one node with notes about their two tasks, and the bytes for each
SHORT = Retention(runs=10, days=1)  # in a day 24 runs begin and end


def assert_bounded(later: Size, earlier: Size, *, runs: int) -> None:
    """Only the notes about requests may grow, and what is kept of the newest 50 epochs, which few runs do not have."""
    assert later.znodes <= earlier.znodes * 1.1 + runs / NOTES
    assert later.tree_bytes <= earlier.tree_bytes * 1.1 + runs * NOTE_BYTES
    assert later.widest <= earlier.widest * 1.1
    assert later.files <= earlier.files * 1.1 + EPOCHS
    assert later.directories <= earlier.directories * 1.1 + EPOCHS
    assert later.blobs <= earlier.blobs * 1.1 + 10
    assert later.file_bytes <= earlier.file_bytes * 1.1 + EPOCHS * 500


def assert_notes(job: AgedJob) -> None:
    """Those are left that a restore of the oldest retained checkpoint can need; each led run makes a checkpoint."""
    oldest = job.runs - (RETAINED_CHECKPOINTS - 1) * job.led_every

    assert sorted(job.given("rows").epochs()) == list(range(oldest, job.runs + 1))


@pytest.mark.long
def test_what_two_hundred_runs_leave_is_bounded(config: HaConfig, coordinator: Coordinator) -> None:
    job = AgedJob(config.model_copy(update={"retention": SHORT}), coordinator)
    job.live(100)
    earlier = job.measure()

    job.live(100)

    assert_bounded(job.measure(), earlier, runs=100)
    assert_notes(job)


@pytest.fixture
def patient(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgedJob]:
    """A job whose leases outlast a busy machine, and whose files are not flushed: no host crashes here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    timings = config.timings.model_copy(update={"session_timeout": 30.0})
    slow = config.model_copy(update={"retention": SHORT, "timings": timings})
    session = KazooCoordinator.connect(slow)
    yield AgedJob(slow, session, led_every=50)
    session.close()


@pytest.mark.apart
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_what_ten_thousand_runs_leave_is_bounded(patient: AgedJob) -> None:
    patient.live(2_000)
    earlier = patient.measure()

    patient.live(8_000)

    later = patient.measure()
    print(f"after 2,000 runs {earlier}; after 10,000 {later}")
    assert_bounded(later, earlier, runs=8_000)
    assert len(patient.context.runs.numbers()) <= 80
    assert_notes(patient)


def test_a_job_that_has_grown_shrinks_in_small_steps(config: HaConfig, coordinator: Coordinator) -> None:
    """As after a time in which no run was removed."""
    job = AgedJob(config.model_copy(update={"retention": SHORT}), coordinator, cleaning=False)
    job.live(100)
    grown = job.measure()

    job.cleaning = True
    job.live(10)

    assert len(job.context.runs.numbers()) <= 40
    assert job.measure().znodes < grown.znodes / 2
