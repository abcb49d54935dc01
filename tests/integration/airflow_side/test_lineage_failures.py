"""OpenLineage: lineage that cannot be read, sent or configured keeps no job from starting and fails no task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ha.airflow_side import openlineage
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.operators.follow import SparkHaFollowOperator
from tests.integration.airflow_side.lineage_tasks import (
    Submitting,
    forget_configuration,
    in_a_dag,
    lineage_of,
    receiver,  # noqa: F401  # a fixture
    running,  # noqa: F401  # a fixture
    submitting,  # noqa: F401  # a fixture
)
from tests.integration.airflow_side.task_runner import deferral
from tests.integration.conftest import environment, source  # noqa: F401  # fixtures
from tests.support.lineage_receiver import LineageReceiver


pytestmark = [pytest.mark.usefixtures("airflow_connection", "opened"), pytest.mark.timeout(300)]


@pytest.mark.usefixtures("running", "receiver")
def test_a_lineage_that_cannot_be_read_does_not_fail_the_task(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreadable(job: JobClient, run: int) -> None:
        raise ValueError("a checkpoint of another world")

    monkeypatch.setattr(JobClient, "lineage", unreadable)
    operator = SparkHaFollowOperator(task_id="task", job_id="flights")

    assert deferral(operator, in_a_dag(operator)).trigger.number == 1
    assert "OpenLineage events of run 1 of job flights are not sent" in "".join(capsys.readouterr())


SECRET = "k3y-of-the-receiver"
INVALID = [
    f'{{"type": "http", "url": "http://lineage:5000", "auth": {{"type": "api_key", "apiKey": "{SECRET}"}}',
    f'["http", "{SECRET}"]',
    SECRET,
]


@pytest.fixture(params=INVALID)
def invalid_transport(
    request: pytest.FixtureRequest,
    receiver: LineageReceiver,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """A transport in Airflow's configuration that is no JSON, or no object."""
    del receiver
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", request.param)
    forget_configuration()
    yield request.param
    forget_configuration()


@pytest.mark.usefixtures("running", "invalid_transport")
def test_a_transport_that_cannot_be_read_does_not_fail_the_task_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = SparkHaFollowOperator(task_id="task", job_id="flights")

    deferred = deferral(operator, in_a_dag(operator))

    [said] = [line for line in caplog.messages if "OpenLineage" in line]
    assert deferred.trigger.number == 1
    assert "[openlineage]" in said
    assert SECRET not in caplog.text + "".join(capsys.readouterr())


@pytest.mark.usefixtures("running", "invalid_transport")
def test_a_transport_that_cannot_be_read_does_not_show_a_run_that_finished_as_failed() -> None:
    operator = SparkHaFollowOperator(task_id="task", job_id="flights")
    event = {
        "status": "ended",
        "job_id": "flights",
        "run": 1,
        "state": "FINISHED",
        "epoch": 1,
        "checkpoint": 3,
        "reason": "",
    }

    result = operator.execute_complete(in_a_dag(operator), event)

    assert (result["run"], result["state"]) == (1, "FINISHED")


@pytest.mark.usefixtures("receiver")
def test_an_invalid_boolean_does_not_keep_the_job_from_starting_and_the_log_names_it(
    submitting: Submitting,  # noqa: F811
    config: HaConfig,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_TRANSPORT_INFO", "True")
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO", SECRET)  # of another line
    operator = submitting()

    deferral(operator, in_a_dag(operator))

    assert lineage_of(config)["spark.openlineage.transport.type"] == "http", "the other one is injected all the same"
    said = "".join(capsys.readouterr())
    assert "[openlineage] spark_inject_parent_job_info" in said
    assert SECRET not in said


@pytest.mark.usefixtures("injected")
def test_a_provider_that_does_not_fit_does_not_keep_the_job_from_starting(
    submitting: Submitting,  # noqa: F811
    config: HaConfig,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken() -> None:
        raise AttributeError("a name of another release")

    monkeypatch.setattr(openlineage, "_injectors", broken)
    operator = submitting()

    deferral(operator, in_a_dag(operator))

    assert lineage_of(config) == {}
    assert "could not be injected: AttributeError" in "".join(capsys.readouterr())


@pytest.mark.usefixtures("running", "receiver")
def test_a_transport_that_the_client_refuses_is_not_quoted_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: Any) -> None:
        raise ValueError(f"no such transport: {{'type': 'htp', 'auth': {{'apiKey': '{SECRET}'}}}}")

    monkeypatch.setattr(SparkHaFollowOperator, "_send_running", refused)
    operator = SparkHaFollowOperator(task_id="task", job_id="flights")

    deferral(operator, in_a_dag(operator))

    said = "".join(capsys.readouterr())
    assert "OpenLineage events of run 1 of job flights are not sent: ValueError. Correct [openlineage]" in said
    assert SECRET not in caplog.text + said


@pytest.mark.usefixtures("running", "receiver")
def test_an_event_that_cannot_be_made_does_not_fail_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Any) -> None:
        raise TypeError("a facet of another release")

    monkeypatch.setattr(SparkHaFollowOperator, "_operator_lineage", broken)
    operator = SparkHaFollowOperator(task_id="task", job_id="flights")

    assert deferral(operator, in_a_dag(operator)).trigger.number == 1
