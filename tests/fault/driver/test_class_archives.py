"""A job's drivers map the class archive of their host once it is made, and none dies of it twice."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.host.archives import training
from airflow_provider_ha.host.archives.archive_store import ArchiveStore, StoredArchive
from airflow_provider_ha.host.archives.driver_launch import NOT_MADE, driver_launch
from airflow_provider_ha.jobs.drivers.driver_spec import ARCHIVE_USED
from airflow_provider_ha.jobs.drivers.spark_release import find_spark_home
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.jobs.runs.submissions import SubmissionLed
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.supervised_job import SupervisedJob, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.hours, pytest.mark.timeout(1800)]
TRAINING = 1000.0  # seconds: it has the lowest priority, beside other tests
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # without the tests' own archive


def ended_or_runs(job: SupervisedJob, number: int) -> SubmissionView | None:
    """Return an attempt once it is RUNNING, or over."""
    snapshot = job.job.snapshot()
    assert snapshot.run is not None
    found = [view for view in snapshot.run.submissions if view.submission.attempt == number]
    leads = snapshot.leader is not None and snapshot.leader.attempt == number
    return found[0] if found and (found[0].exit is not None or (leads and snapshot.state is JobState.RUNNING)) else None


def class_archive(job: SupervisedJob, client: HaClient, number: int) -> str:
    """Return how the driver of an attempt has loaded its classes, once the job is RUNNING under it."""
    view = wait_until(lambda: ended_or_runs(job, number), timeout=PATIENCE, what=f"attempt {number}")
    assert view.exit is None
    led = read_record(client.coordinator, client.paths.job(job.job.job_id).submission_led(1, number), SubmissionLed)
    assert led is not None
    return led[0].class_archive


def mapped(job: SupervisedJob) -> set[str]:
    """Return the archives that the driver's JVM maps."""
    lines = Path(f"/proc/{job.jvm().pid}/maps").read_text().splitlines()
    return {line.split()[-1] for line in lines if line.endswith(".jsa")}


def make_archive(store: ArchiveStore) -> StoredArchive:
    """Make the archive of this host at once: beside other tests the job's supervisor waits for a free core."""
    home = find_spark_home(None)
    call = [str(home / "bin" / "spark-submit"), "--properties-file", "/dev/null", "script.py"]
    launch = driver_launch(call, {**os.environ, "SPARK_HOME": str(home)}, store, enabled=True)
    if launch.training is not None:
        launch.training.run(store, os.environ)
    [made] = wait_until(store.archives, timeout=TRAINING, what="the archive, if the supervisor was first")
    return made


def damage(archive: StoredArchive) -> None:
    """Replace an archive by a cut one and let its note agree, as if the disk had lost its end after the comparison."""
    cut = archive.path.read_bytes()[: archive.note.length // 3]
    other = archive.path.with_suffix(".cut")
    other.write_bytes(cut)
    other.chmod(0o400)
    other.replace(archive.path)
    note = archive.note.model_copy(update={"length": len(cut), "sha256": hashlib.sha256(cut).hexdigest()})
    archive.path.with_suffix(".json").write_bytes(note.to_bytes())


def test_the_second_driver_maps_the_archive_that_was_made_beside_the_first_one(
    gated: Callable[..., SupervisedJob], client: HaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "TRAINING_SECONDS", TRAINING)
    job, store = gated(), ArchiveStore.of(client.config)
    job.conf = {"spark.driver.extraJavaOptions": QUICK}
    job.options = HaOptions(checkpoint_interval=0)
    job.stream.feed(2)
    job.submit()

    assert class_archive(job, client, 1) == NOT_MADE
    archive = make_archive(store)
    job.jvm().kill()
    assert class_archive(job, client, 2) == ARCHIVE_USED
    assert mapped(job) == {str(archive.path)} | {path for path in mapped(job) if "/jvm/" in path}

    # A JVM keeps the archive that it has mapped. One that dies of its archive is no failure of the job, and does not
    # happen twice.
    damage(archive)
    job.stream.feed(1)
    job.await_read(2)
    job.jvm().kill()
    died = wait_until(lambda: ended_or_runs(job, 3), timeout=PATIENCE, what="the end of a JVM with a damaged archive")
    assert died.exit is not None
    assert died.exit.outage
    assert "ended by signal" in class_archive(job, client, 4)
    assert store.archives() == []

    job.stream.feed(1)
    job.await_read(3)  # attempt 3 led no epoch
    terminate_and_compare(job, 4)
