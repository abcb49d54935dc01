"""Where a sensor begins, and what it makes of an event."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.runs.run_store import RunView
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.sensors._base import Baseline, baseline_of, first_baseline
from airflow_provider_ha.sensors.checkpoint import SparkHaCheckpointSensor
from airflow_provider_ha.sensors.job_status import SparkHaJobStatusSensor
from tests.support.airflow_exceptions import AirflowException, AirflowFailException
from tests.support.clusters.airflow_helpers import StateStore, context
from tests.support.clusters.jobs_helpers import a_result, a_run


def test_a_retry_keeps_the_number_of_the_first_execution() -> None:
    store = StateStore()

    first_baseline(context(task_state_store=store), Baseline(checkpoint=5, ended_run=0))
    again = first_baseline(context(task_state_store=store), Baseline(checkpoint=9, ended_run=2))

    assert again == Baseline(checkpoint=5, ended_run=2)


def test_a_run_that_is_over_already_is_not_what_the_sensor_watches() -> None:
    over = JobStatus(
        job_id="flights", run=RunView(run=a_run(3), result=a_result(JobState.FINISHED)), checkpoint_counter=7
    )

    assert baseline_of(over) == Baseline(checkpoint=7, ended_run=3)


@pytest.mark.parametrize(("given", "newer_than"), [(None, 5), ("None", 5), ("", 5), ("3", 3), (0, 0)])
def test_a_number_that_is_given_wins_over_the_first_execution(given: Any, newer_than: int) -> None:
    sensor = SparkHaCheckpointSensor(task_id="s", job_id="flights")
    sensor.newer_than = given  # as a template renders it

    assert sensor.trigger(Baseline(checkpoint=5)).newer_than == newer_than


def test_an_unknown_target_state_fails_at_once() -> None:
    sensor = SparkHaJobStatusSensor(task_id="s", job_id="flights")
    sensor.target_states = ["GOOD"]  # as a template renders it

    with pytest.raises(AirflowFailException, match="'GOOD'"):
        sensor.trigger(Baseline())


def test_an_event_becomes_facts_or_a_failure() -> None:
    sensor = SparkHaCheckpointSensor(task_id="s", job_id="flights")

    assert sensor.execute_complete({}, {"status": "success", "checkpoint": 6}) == {"checkpoint": 6}
    with pytest.raises(AirflowException, match="ended"):
        sensor.execute_complete({}, {"status": "failed", "reason": "run 1 ended"})
    with pytest.raises(AirflowFailException, match="corrupt"):
        sensor.execute_complete({}, {"status": "error", "reason": "corrupt"})
