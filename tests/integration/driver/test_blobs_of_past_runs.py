"""Graphs of runs that are removed: a driver that removes runs also removes the blobs that nothing names any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig, Retention
from airflow_provider_ha.coordination.coordinator import Coordinator, SetData
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.blobs import put_blob
from tests.support.clusters.aged_job import AgedJob


RUNS, GONE = 30, 5  # between two runs an hour passes, and a run stays for a day


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator) -> AgedJob:
    """A job whose last run has a driver, and the earlier ones only their records."""
    return AgedJob(config.model_copy(update={"retention": Retention(runs=2, days=1)}), coordinator, led_every=RUNS)


def graphs(job: AgedJob) -> set[str]:
    return {Path(info.key).name for info in job.context.store.list(keys.BLOBS)}


def named(job: AgedJob) -> set[str]:
    return {job.context.runs.get(number).run.graph.sha256 for number in job.context.runs.numbers()}


def test_a_run_that_goes_takes_its_graph_with_it(job: AgedJob) -> None:
    job.live(RUNS)

    assert job.context.runs.numbers() == list(range(GONE + 1, RUNS + 1))
    assert graphs(job) == named(job)


@pytest.mark.long
def test_a_graph_that_another_run_needs_stays(job: AgedJob) -> None:
    job.live(1)
    shared = job.context.runs.get(1).run.graph
    job.live(RUNS - 2)
    node = job.coordinator.get(job.paths.run(RUNS - 1))
    later = job.context.runs.get(RUNS - 1).run.model_copy(update={"graph": shared})
    job.coordinator.commit(SetData(node.path, later.to_bytes(), node.version))

    job.live(1)

    assert 1 not in job.context.runs.numbers()
    assert shared.sha256 in graphs(job)


@pytest.mark.long
def test_an_upload_that_nothing_names_yet_stays(job: AgedJob) -> None:
    job.live(RUNS - 1)
    upload = put_blob(job.context.store, b"of a submission on its way")

    job.live(1)

    assert graphs(job) == named(job) | {upload.sha256}


@pytest.mark.long
def test_no_graph_goes_while_something_cannot_be_read(job: AgedJob) -> None:
    job.live(RUNS - 1)
    job.context.store.write(job.keys.journal("submission", f"{RUNS - 1}-1"), b"garbage")
    before = graphs(job)

    job.live(1)

    assert 1 not in job.context.runs.numbers()
    assert graphs(job) >= before


def test_a_driver_that_removes_no_run_looks_for_no_blob(job: AgedJob) -> None:
    job.led_every = 2
    job.live(2)

    assert job.context.store.info(keys.BLOB_COLLECTION) is None
