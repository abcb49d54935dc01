"""ZooKeeper's data, or the mount of the storage, is lost under a Spark job: it goes on, and no row is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.errors import JobStateError, StorageUnavailableError
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.reconciler import ReconcileOutcome
from airflow_provider_ha.jobs.drivers.driver_spec import SUPERVISOR_MODULE
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.rebuild.rebuild import plan_rebuild, rebuild
from airflow_provider_ha.jobs.runs.submissions import Submission
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.timings import Timings
from tests.support.clusters import submit_helpers
from tests.support.clusters.jobs_helpers import list_quarantined
from tests.support.spark.words_job import feed, request, rows, wait_for_epoch
from tests.support.specs import changed


def drivers(submission: Submission) -> list[psutil.Process]:
    """Return the processes of a submission that could write for the job: all but its supervisor, which only reports."""
    return [process for process in submit_helpers.processes_of(submission) if not _is_supervisor(process)]


def _is_supervisor(process: psutil.Process) -> bool:
    try:
        return SUPERVISOR_MODULE in process.cmdline()
    except psutil.Error:  # one that has just ended writes nothing any more
        return True


TABLE = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from airflow_provider_ha.driver import context

def append(frame, batch):
    table, epoch = Path(sys.argv[2]), context.current().epoch
    newest = max([int(path.name.partition("-")[0]) for path in table.iterdir()], default=0)
    if epoch >= newest:  # a zombie writes nothing
        (table / f"{epoch}-{batch}").write_text("\\n".join(sorted(row.value for row in frame.collect())))

spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.text(sys.argv[1])
lines.writeStream.queryName("words").foreachBatch(append).start().awaitTermination()
"""


def in_table(table: Path) -> list[str]:
    return sorted(word for path in table.iterdir() for word in path.read_text().split())


@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", ["rebuild", pytest.param("fresh start", marks=pytest.mark.hours)])
def test_a_table_that_compares_epochs_loses_no_row_when_its_zookeeper_was_lost(
    server: EmbeddedZooKeeper, tmp_path: Path, way: str
) -> None:
    """A run that began with epoch 1 again would be taken for a zombie, and its rows would be dropped."""
    config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{tmp_path}/storage", timings=Timings())
    table = tmp_path / "table"
    table.mkdir()
    wanted = request(tmp_path, "first")
    Path(wanted.application).write_text(TABLE)
    wanted = changed(wanted, arguments=[str(tmp_path / "in"), str(table)])
    with HaClient.open(config) as client:
        feed(tmp_path, "one")
        client.job("words").submit(wanted)
        wait_for_epoch(client.job("words"), 1)
        (view,) = client.job("words")._job.runs.get(1).submissions
        submit_helpers.kill_all(client.job("words")._job)
        wait_until(lambda: client.job("words").snapshot().state is JobState.LOST, timeout=60, what="the loss")
        client.job("words").recover(by="test")
        feed(tmp_path, "two")
        wait_for_epoch(client.job("words"), 2)
        view = client.job("words")._job.runs.get(1).submissions[-1]

    server.kill()
    shutil.rmtree(server.data_dir)
    wait_until(lambda: not drivers(view.submission), timeout=120, what="the driver to give up by itself")
    server.start()

    with HaClient.open(config) as client:
        job = client.job("words")
        with pytest.raises(JobStateError, match="ZooKeeper knows no job"):
            job.submit(changed(wanted, request_id="scheduled"))
        try:
            if way == "rebuild":
                rebuild(config, client.coordinator, plan_rebuild(config, client.store, client.coordinator))
                job.recover(by="test")
            else:
                accepted = frozenset({Verdict.SAFE, Verdict.LOSS_POSSIBLE})
                anew = changed(wanted, request_id="anew", start_from="fresh", accept_verdicts=accepted)
                job.submit(changed(anew, if_lost=LostRunPolicy.RESTART))
            feed(tmp_path, "three")
            again = ["one", "two"] if way == "fresh start" else []
            expected = sorted([*again, "one", "two", "three"])
            wait_until(lambda: in_table(table) == expected, timeout=240, what="the rows", interval=0.5)
        finally:
            submit_helpers.kill_all(job._job)


@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_job_goes_on_after_its_storage_was_not_mounted(server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    """The mount point stays. Another job is submitted in that time, and the leader of the cluster looks at each job."""
    config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{tmp_path}/storage", timings=Timings())
    storage, away = tmp_path / "storage", tmp_path / "away"
    with HaClient.open(config) as client, HaClient.open(config) as other:
        job = client.job("words")
        try:
            feed(tmp_path, "one")
            job.submit(request(tmp_path, "first"))
            wait_for_epoch(job, 1)
            submit_helpers.kill_all(job._job)
            storage.rename(away)
            storage.mkdir()
            with pytest.raises(StorageUnavailableError, match="not mounted"):
                client.job("other").submit(changed(request(tmp_path, "other"), job_id="other"))
            with ClusterLeader(other, by="test") as leader:
                leader.lead(timeout=30)
                wait_until(lambda: job.snapshot().state is JobState.LOST, timeout=60, what="the loss")
                assert leader.attend("words").outcome in (ReconcileOutcome.NOT_KNOWN, ReconcileOutcome.PENDING)
            assert list(storage.iterdir()) == []
            assert list_quarantined(client.coordinator, client.paths) == {}

            storage.rmdir()
            away.rename(storage)
            job.recover(by="test")
            feed(tmp_path, "two")
            wait_until(lambda: rows(tmp_path) == ["one", "two"], timeout=240, what="both rows", interval=0.5)
        finally:
            submit_helpers.kill_all(job._job)


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
        with pytest.raises(JobStateError, match="spark-ha cluster rebuild"):
            job.submit(request(tmp_path, "scheduled"))
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
