"""ZooKeeper's data is lost under a running Spark job: the driver ends, the tree is rebuilt, and no row is lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.config import HaConfig, Timings
from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.control.rebuild import plan_rebuild, rebuild
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.jobs.host.driver_spec import SUPERVISOR_MODULE
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.submissions import Submission
from airflow_provider_ha.testing.waiting import wait_until
from tests.integration.test_client import feed, request, rows, wait_for_epoch
from tests.support.clusters import submit_helpers


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """A separate ZooKeeper, whose data can be lost."""
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as running:
        yield running


def drivers(submission: Submission) -> list[psutil.Process]:
    """Return the processes of a submission that could write for the job: all but its supervisor, which only reports."""
    return [process for process in submit_helpers.processes_of(submission) if not _is_supervisor(process)]


def _is_supervisor(process: psutil.Process) -> bool:
    try:
        return SUPERVISOR_MODULE in process.cmdline()
    except psutil.Error:  # one that has just ended writes nothing any more
        return True


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_job_goes_on_after_its_zookeeper_was_lost(server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{tmp_path}/storage", timings=Timings())
    with HaClient.open(config) as client:
        feed(tmp_path, "one")
        client.job("words").submit(request(tmp_path, "first"))
        wait_for_epoch(client.job("words"), 1)
        (view,) = client.job("words")._job.runs.get(1).submissions

    server.kill()
    shutil.rmtree(server.data_dir)
    wait_until(lambda: not drivers(view.submission), timeout=120, what="the driver to give up by itself")
    server.start()

    with HaClient.open(config) as client:
        job = client.job("words")
        rebuild(config, client.coordinator, plan_rebuild(config, client.store, client.coordinator))
        lost = job.snapshot()
        assert lost.state is JobState.LOST
        try:
            job.recover(by="test")
            feed(tmp_path, "two")
            wait_until(lambda: rows(tmp_path) == ["one", "two"], timeout=240, what="both rows", interval=0.5)
            assert job.snapshot().epoch > lost.epoch
            job.request_stop(operation_id="stop", requested_by="test")
            wait_until(lambda: job.snapshot().state.terminal, timeout=120, what="the job to stop", interval=0.5)
            assert job.snapshot().state is JobState.FINISHED
        finally:
            submit_helpers.kill_all(job._job)
    assert rows(tmp_path) == ["one", "two"]
