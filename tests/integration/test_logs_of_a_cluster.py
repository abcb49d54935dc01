"""Where the log of a driver is that a worker of a cluster runs: the command names it, and reads no other file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.errors import LogMissingError
from airflow_provider_ha.host.engines.standalone_arrival import StandaloneDriver
from airflow_provider_ha.jobs.drivers.run_logs import find_log, is_pending, last_words
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.jobs.runs.submissions import SubmissionStarted
from tests.support.clusters import rebuild_helpers as helpers


DRIVER = StandaloneDriver(masters="http://a:6066", driver="driver-1")


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> JobContext:
    job = helpers.job(config, coordinator, "flights")
    helpers.submit(job, tmp_path)
    log = job.config.home_path / job.keys.application(1, 1) / "driver.log"
    log.parent.mkdir(parents=True)
    log.write_text("of another driver\n")
    return job


def view(job: JobContext, log_uri: str = "", ui_uri: str = "") -> SubmissionView:
    found = job.runs.get(1).submissions[0]
    started = SubmissionStarted(handle=DRIVER.handle(log_uri=log_uri, ui_uri=ui_uri))
    return replace(found, submission=found.submission.model_copy(update={"engine": "standalone"}), started=started)


def test_the_log_of_a_worker_is_named_with_its_host_and_its_page(job: JobContext) -> None:
    reported = view(job, "file://host-b/disk/driver-1/attempt-1/driver.log", "http://host-b:8081/logPage")

    with pytest.raises(LogMissingError, match=r"is on host-b, .*: /disk/driver-1/attempt-1/driver.log") as missing:
        find_log(job, 1, reported)

    assert "http://host-b:8081/logPage" in missing.value.next_step


def test_a_driver_that_has_not_reported_yet_has_no_log(job: JobContext) -> None:
    with pytest.raises(LogMissingError, match="has not reported where it runs"):
        find_log(job, 1, view(job))


def test_no_file_of_this_host_is_taken_for_it(job: JobContext) -> None:
    reported = view(job, "file://host-b/disk/driver.log")

    assert not is_pending(job, 1, reported)
    assert last_words(job, job.runs.get(1), reported) == ""
