"""A submission leads once: what a cluster manager or a wrapper starts again for it is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.driver.members.driver_session import DriverSession, lead
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState
from tests.support.clusters import rebuild_helpers as helpers
from tests.support.deadline import error_of


@pytest.fixture
def context(config: HaConfig, coordinator: Coordinator) -> JobContext:
    return helpers.job(config, coordinator, "flights")


@pytest.fixture
def spec(context: JobContext, tmp_path: Path) -> DriverSpec:
    """The only submission of a run."""
    run = helpers.submit(context, tmp_path)
    newest = context.runs.get(run).newest
    assert newest is not None
    directory = tmp_path / "submission"
    directory.mkdir()
    return DriverSpec(
        config=context.config,
        ticket=Ticket(
            job_id="flights",
            run=run,
            attempt=1,
            submission_id=newest.submission.submission_id,
            graph=context.runs.get(run).run.graph,
        ),
        directory=directory,
    )


@pytest.fixture
def first(spec: DriverSpec) -> Iterator[DriverSession]:
    """The process that leads for the submission."""
    led = lead(spec, SystemClock())
    yield led
    led.coordinator.close()


def test_a_second_process_of_a_submission_that_has_led_is_refused(spec: DriverSpec, first: DriverSession) -> None:
    first.leadership.release()

    error = error_of(lambda: lead(spec, SystemClock()))

    assert isinstance(error, JobStateError)
    assert re.search(r"this submission has led epoch 1 already, as pid \d+ on ", str(error))


def test_a_refused_process_raises_no_epoch_and_leaves_the_job_lost(
    spec: DriverSpec, first: DriverSession, context: JobContext
) -> None:
    first.leadership.release()

    with pytest.raises(JobStateError):
        lead(spec, SystemClock())

    snapshot = context.snapshot()
    assert snapshot.epoch == 1
    assert snapshot.leader is None
    assert snapshot.state is JobState.LOST


def test_the_record_of_the_leader_is_stored_with_the_submission(
    spec: DriverSpec, first: DriverSession, context: JobContext
) -> None:
    node = context.coordinator.get(context.paths.submission_led(spec.run, spec.attempt))
    granted = context.coordinator.get(context.paths.epoch)

    assert node.modified_zxid == granted.modified_zxid
    assert first.leadership.epoch == 1
