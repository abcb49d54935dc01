"""A submission has one driver: its supervisor takes the place before it starts anything, or finds it taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete
from airflow_provider_ha.errors import ConfigurationError, JobStateError, NotConnectedError
from airflow_provider_ha.host.engines.standalone_arrival import StandaloneDriver
from airflow_provider_ha.host.supervisor.one_driver import take_place
from airflow_provider_ha.jobs.cluster_roots import RootsOfCluster
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.losses import failure_of
from airflow_provider_ha.jobs.recovery.transactions import note_not_launched, note_started
from airflow_provider_ha.jobs.runs.submissions import SubmissionStarted
from tests.support.clusters import rebuild_helpers as helpers


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> JobContext:
    """A job whose only submission has reported nothing yet."""
    job = helpers.job(config, coordinator, "flights")
    run = helpers.submit(job, tmp_path)
    coordinator.commit(Delete(job.paths.submission_started(run, 1)))
    return job


def spec(job: JobContext, driver: str, *, log: str = "/disk/driver.log") -> DriverSpec:
    view = job.runs.get(1)
    assert view.newest is not None
    ticket = Ticket(
        job_id="flights",
        run=1,
        attempt=1,
        submission_id=view.newest.submission.submission_id,
        graph=view.run.graph,
    )
    handle = StandaloneDriver(masters="http://a:6066", driver=driver).handle(log_uri=f"file://host{log}")
    return DriverSpec(config=job.config, ticket=ticket, directory=Path("/disk"), handle=handle)


def started(job: JobContext) -> SubmissionStarted | None:
    return job.runs.get(1).submissions[0].started


def never() -> bool:
    return False


def test_a_driver_whose_submitter_got_no_answer_is_found_by_its_own_report(job: JobContext) -> None:
    mine = spec(job, "driver-1")

    take_place(mine, stopped=never)

    assert mine.handle is not None
    assert started(job) == SubmissionStarted(handle=mine.handle)


def test_the_supervisor_adds_what_its_submitter_did_not_know(job: JobContext) -> None:
    mine = spec(job, "driver-1")
    submission = job.runs.get(1).submissions[0].submission
    note_started(job, 1, submission, StandaloneDriver(masters="http://a:6066", driver="driver-1").handle())

    take_place(mine, stopped=never)

    assert mine.handle is not None
    assert started(job) == SubmissionStarted(handle=mine.handle)


def test_a_second_driver_of_a_submission_is_refused_and_changes_nothing(job: JobContext) -> None:
    first = spec(job, "driver-1")
    take_place(first, stopped=never)

    with pytest.raises(JobStateError, match="attempt 1 of run 1 is another driver"):
        take_place(spec(job, "driver-2"), stopped=never)

    assert first.handle is not None
    assert started(job) == SubmissionStarted(handle=first.handle)


def test_a_submission_that_is_over_gets_no_driver(job: JobContext) -> None:
    note_not_launched(job, 1, 1, "given up", outage=False)

    with pytest.raises(JobStateError, match="or it is over"):
        take_place(spec(job, "driver-1"), stopped=never)

    assert started(job) is None


@pytest.mark.long
def test_a_supervisor_that_is_asked_to_end_waits_for_no_zookeeper(job: JobContext) -> None:
    mine = spec(job, "driver-1")
    away = mine.model_copy(update={"config": mine.config.model_copy(update={"zookeeper": "127.0.0.1:1"})})

    with pytest.raises(NotConnectedError):
        take_place(away, stopped=lambda: True)


def test_what_keeps_a_driver_from_its_machine_is_shown_with_the_job(job: JobContext, tmp_path: Path) -> None:
    """As a standalone worker whose configuration names another storage: its log is on that machine only."""
    RootsOfCluster(job.config, job.coordinator).settle()
    mine = spec(job, "driver-1")
    elsewhere = mine.config.model_copy(update={"storage_root": f"file://{tmp_path}/elsewhere"})
    with pytest.raises(ConfigurationError):
        take_place(mine.model_copy(update={"config": elsewhere}), stopped=never)
    refused = job.runs.get(1)
    shown = failure_of(refused.submissions, HaOptions(), job.clock.now(), lost=True, led_since=None)

    assert f"file://{tmp_path}/elsewhere/" in refused.refused
    assert "which is not the same storage" in refused.refused
    assert shown is not None
    assert shown.reason == refused.refused
    take_place(mine, stopped=never)
    assert job.runs.get(1).refused == "", "the submission has its driver"
