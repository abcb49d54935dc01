"""Values of a DAG: refused when it is parsed, and masked when they look like secrets."""

from __future__ import annotations

import logging
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.declaration import options_of
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest
from airflow_provider_ha.operators import _parameters
from airflow_provider_ha.operators._run import SparkHaRunOperator
from airflow_provider_ha.operators.cancel import SparkHaCancelOperator
from airflow_provider_ha.operators.checkpoint import SparkHaCheckpointOperator
from airflow_provider_ha.operators.delete_job import SparkHaDeleteJobOperator
from airflow_provider_ha.operators.follow import SparkHaFollowOperator
from airflow_provider_ha.operators.hand_over import SparkHaHandOverOperator
from airflow_provider_ha.operators.move import SparkHaMoveOperator
from airflow_provider_ha.operators.plan_restore import SparkHaPlanRestoreOperator
from airflow_provider_ha.operators.recover_jobs import SparkHaRecoverJobsOperator
from airflow_provider_ha.operators.restore import SparkHaRestoreOperator
from airflow_provider_ha.operators.restore_drill import SparkHaRestoreDrillOperator
from airflow_provider_ha.operators.savepoint import SparkHaSavepointOperator
from airflow_provider_ha.operators.select_checkpoint import SparkHaSelectCheckpointOperator
from airflow_provider_ha.operators.stop import SparkHaStopOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from airflow_provider_ha.operators.verify_checkpoint import SparkHaVerifyCheckpointOperator
from airflow_provider_ha.sensors.checkpoint import SparkHaCheckpointSensor
from airflow_provider_ha.sensors.job_status import SparkHaJobStatusSensor
from airflow_provider_ha.sensors.leader import SparkHaLeaderSensor


pytest.importorskip("airflow")


SUBMIT = {"job_id": "orders", "application": "main.py"}
JOB = {"job_id": "orders"}
TASKS: dict[Any, dict[str, Any]] = {
    SparkHaCancelOperator: JOB,
    SparkHaCheckpointOperator: JOB,
    SparkHaDeleteJobOperator: JOB,
    SparkHaFollowOperator: JOB,
    SparkHaHandOverOperator: JOB,
    SparkHaMoveOperator: JOB | {"to_spark_ha_conn_id": "other"},
    SparkHaPlanRestoreOperator: JOB,
    SparkHaRecoverJobsOperator: {},
    SparkHaRestoreOperator: JOB,
    SparkHaRestoreDrillOperator: JOB,
    SparkHaSavepointOperator: JOB,
    SparkHaSelectCheckpointOperator: JOB,
    SparkHaStopOperator: JOB,
    SparkHaSubmitOperator: SUBMIT,
    SparkHaVerifyCheckpointOperator: JOB,
    SparkHaCheckpointSensor: JOB,
    SparkHaJobStatusSensor: JOB,
    SparkHaLeaderSensor: JOB,
}
WRONG: dict[str, Any] = {
    "job_id": "a job/with a slash",
    "source_job": "../other",
    "start_from": "checkpoint-newest",
    "schedule": "every\nnight",
    "savepoint_label": "before\tthe upgrade",
    "retain_days": "a week",
    "wait_for": "ready",
    "when_killed": "kill",
    "if_lost": "restrat",
    "claim_mode": "CLAIMED",
    "output_mode": "new",
    "accept_verdicts": ["SAVE"],
    "mode": "suspended",
    "depth": "deep",
    "fail_on": "anything",
    "target_states": ["READY"],
    "newer_than": "last",
    "min_epoch": "first",
    "min_run": "first",
    "run": "newest",
    "standby": "maybe",
    "retain": "all",
    "force": "maybe",
    "savepoint": "maybe",
    "keep_savepoints": "maybe",
    "plan_only": "maybe",
    "skip_unknown_job": "maybe",
    "start": "maybe",
    "stop": "maybe",
    "max_age": "a day",
    "max_duration": 0,
    "deadline": -1,
    "retained_checkpoints": 0,
    "checkpoint_interval": -1,
    "restart_attempts": "many",
    "metrics_port": 70_000,
    "executor_cores": "two",
    "executor_memory": "much",
    "driver_memory": "4 GB",
    "heap": "much",
    "master": "local[two]",
    "conf": {"executor.memory": "1g"},
    "env": {"TOKEN": None},
    "engine": "yarn",
    "engine_options": "python",
    "sinks": {"hourly": None},
    "kafka_bootstrap": {"hourly": "broker"},
    "name": "a\tname",
    "allow_new_queries": "maybe",
    "allow_remote_executors": "maybe",
    "restart_in_place": "maybe",
    "fallback": "maybe",
    "spark_version": "newest",
    "leader_timeout": "soon",
    **dict.fromkeys(("arguments", "files", "py_files", "jars", "archives", "packages", "repeatable"), "one"),
    **dict.fromkeys(("accept_unverified", "reset_query_ids"), "one"),
}


def held(task: Any) -> dict[str, str]:
    """Return option -> parameter of a task that holds it."""
    if not issubclass(task, SparkHaRunOperator):
        return {}
    model = JobSpec if task is SparkHaSubmitOperator else RestoreRequest
    return {name: each.holder for name, each in options_of(model).items() if each.holder}


CASES = [
    (task, name)
    for task in TASKS
    for name in WRONG
    if name in (*task.template_fields, *held(task))
    and not (name == "mode" and "mode" not in task.__init__.__code__.co_varnames)
]


def with_value(task: Any, name: str, value: Any) -> dict[str, Any]:
    """Return the arguments of a task with one more value."""
    holder = held(task).get(name)
    return TASKS[task] | ({holder: {name: value}} if holder else {name: value})


@pytest.mark.parametrize(("task", "name"), CASES, ids=lambda part: getattr(part, "__name__", part))
def test_a_value_that_cannot_be_used_is_an_error_of_the_import(task: Any, name: str) -> None:
    with pytest.raises(ConfigurationError) as told:
        task(task_id="t", **with_value(task, name, WRONG[name]))

    assert told.value.next_step


@pytest.mark.parametrize("task", [SparkHaCheckpointSensor, SparkHaJobStatusSensor, SparkHaLeaderSensor])
@pytest.mark.parametrize("seconds", [0, -1, "often"])
def test_looks_without_a_pause_are_an_error_of_the_import(task: Any, seconds: Any) -> None:
    with pytest.raises(ConfigurationError, match="poll_interval"):
        task(task_id="t", **(TASKS[task] | {"poll_interval": seconds}))


@pytest.mark.parametrize(
    ("name", "sizes"), [("driver_memory", ("512m", "4G")), ("executor_memory", ("2048", "4gb", "1g", "512MB"))]
)
def test_sizes_that_java_and_spark_take_are_taken(name: str, sizes: tuple[str, ...]) -> None:
    for size in sizes:
        given: dict[str, Any] = SUBMIT | {name: size}
        assert SparkHaSubmitOperator(task_id="t", **given)


@pytest.mark.parametrize("size", ["2048", "4gb", "0g", "g"])
def test_a_heap_that_java_does_not_take_is_an_error_of_the_import(size: str) -> None:
    with pytest.raises(ConfigurationError, match="is not an amount of memory"):
        SparkHaSubmitOperator(task_id="t", job_id="orders", application="main.py", driver_memory=size)


@pytest.mark.parametrize("task", [SparkHaStopOperator, SparkHaDeleteJobOperator])
@pytest.mark.parametrize("limit", [30, "1 minute", timedelta(0)])
def test_a_wait_that_airflow_cannot_take_is_an_error_of_the_import(task: Any, limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="wait_timeout"):
        task(task_id="t", **(TASKS[task] | {"wait_timeout": limit}))


@pytest.mark.parametrize("wrong", ["newest", "checkpoint-", "savepoint-", "before noon", "checkpoint-1.5"])
@pytest.mark.parametrize("task", [task for task in TASKS if "start_from" in task.template_fields])
def test_a_start_that_names_nothing_is_an_error_of_the_import(task: Any, wrong: str) -> None:
    with pytest.raises(ConfigurationError):
        task(task_id="t", **(TASKS[task] | {"start_from": wrong}))


@pytest.mark.parametrize(
    "start", ["latest", "checkpoint-12", "savepoint-9f", "before 14:05", "before 2999-01-01T00:00"]
)
@pytest.mark.parametrize("task", [task for task in TASKS if "start_from" in task.template_fields])
def test_a_start_that_may_be_there_when_the_task_runs_is_taken(task: Any, start: str) -> None:
    assert task(task_id="t", **(TASKS[task] | {"start_from": start})).start_from == start


@pytest.mark.parametrize(
    "limits",
    [
        {"retain": 0, "schedule": "nightly"},
        {"retain": 3},
        {"retain_days": 7},
        {"retain_days": 0, "schedule": "nightly"},
    ],
    ids=lambda limits: "-".join(limits),
)
def test_limits_that_keep_no_savepoint_are_an_error_of_the_import(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        SparkHaSavepointOperator(task_id="t", job_id="orders", **limits)


@pytest.mark.parametrize(("task", "name"), CASES, ids=lambda part: getattr(part, "__name__", part))
@pytest.mark.parametrize("template", ["{{ params.value }}", ["{% if true %}SAFE{% endif %}"]], ids=["text", "list"])
def test_a_template_is_looked_at_when_it_is_rendered(task: Any, name: str, template: Any) -> None:
    assert task(task_id="t", **with_value(task, name, template))


def test_every_operator_and_sensor_is_tried() -> None:
    import importlib
    import pkgutil

    from airflow_provider_ha import operators, sensors
    from airflow_provider_ha.airflow_side.compat.sdk import BaseOperator

    found = {
        thing
        for package in (operators, sensors)
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        for name, thing in vars(importlib.import_module(module.name)).items()
        if name in getattr(importlib.import_module(module.name), "__all__", ()) and isinstance(thing, type)
        if issubclass(thing, BaseOperator)
    }

    assert found == set(TASKS)


ARGUMENTS = ["--password={{ secret }}", "--since", "now"]


@pytest.fixture
def masked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(_parameters.ArgumentSecrets, "log", logging.getLogger("task"), raising=False)
    monkeypatch.setattr(_parameters, "mask_secret", found.append)
    return found


@pytest.mark.parametrize(
    "operator",
    [
        SparkHaSubmitOperator(task_id="t", job_id="j", application="app.py", arguments=ARGUMENTS),
        SparkHaRestoreOperator(task_id="t", job_id="j", arguments=ARGUMENTS),
    ],
    ids=["submit", "restore"],
)
def test_a_rendered_secret_is_masked_and_named_in_a_warning(
    operator: SparkHaSubmitOperator | SparkHaRestoreOperator, masked: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    context: Any = {"secret": "hunter2"}

    operator.render_template_fields(context)

    assert masked == ["hunter2"]

    with caplog.at_level(logging.WARNING):
        operator.warn_of_argument_secrets()

    assert "--password" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("index", [0, 1])
def test_the_secrets_of_a_mapped_task_are_masked_when_it_is_rendered(index: int, masked: list[str]) -> None:
    with DAG("d", schedule=None) as dag:
        mapped = SparkHaSubmitOperator.partial(task_id="t", job_id="j", application="app.py").expand(
            arguments=[["--password=first-{{ secret }}"], ["--password=second-{{ secret }}"]]
        )
    instance = SimpleNamespace(map_index=index, task=mapped)
    context: Any = {"ti": instance, "dag": dag, "dag_run": SimpleNamespace(conf={}), "secret": "hunter2"}

    mapped.render_template_fields(context)

    assert instance.task.arguments == [f"--password={('first', 'second')[index]}-hunter2"]
    assert masked == [f"{('first', 'second')[index]}-hunter2"]


def test_secrets_that_were_rendered_another_way_are_masked_before_the_run(masked: list[str]) -> None:
    operator = SparkHaSubmitOperator(task_id="t", job_id="j", application="app.py", arguments=["--password=hunter2"])

    operator.warn_of_argument_secrets()

    assert masked == ["hunter2"]


def test_a_restore_that_names_no_arguments_has_none(masked: list[str]) -> None:
    operator = SparkHaRestoreOperator(task_id="t", job_id="j")

    operator.render_template_fields({})

    assert masked == []
    assert operator.restore_request("r").arguments is None
