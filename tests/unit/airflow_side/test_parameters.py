"""Parameters of operators: declared once, and templated or listed as not templated."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from airflow.sdk import BaseOperator, BaseSensorOperator
from typer.testing import CliRunner

import airflow_provider_ha.operators
import airflow_provider_ha.sensors
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.spec_options import takes as takes_words
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.declaration import option, options_of, parameter_texts, read, spread
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest
from airflow_provider_ha.operators._parameters import given_options, parameters_of, takes, wrong_options
from airflow_provider_ha.operators.restore import SparkHaRestoreOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from tests.docs.options_page import page


pytest.importorskip("airflow")


GIVEN: dict[str, Any] = {"job_id": "orders", "application": "main.py"}


class MoreHaOptions(HaOptions):
    """Options with a further one."""

    restart_limit: int = option(
        7, "Upper bound of restarts.", shown={"group": "High availability", "holder": "ha"}, ge=1
    )


class MoreSpec(JobSpec):
    """A spec with a further option."""

    ha: MoreHaOptions = MoreHaOptions()


def test_a_new_option_is_in_a_parameter_of_the_operator() -> None:
    @takes(MoreSpec)
    def init(self: object, **kwargs: Any) -> None:
        del self, kwargs

    assert "ha" in inspect.signature(init).parameters
    assert spread(MoreSpec, {"ha": {"restart_limit": 3}}) == ({"restart_limit": 3}, [])


def test_a_new_option_is_checked_when_the_dag_is_parsed() -> None:
    found = wrong_options(MoreSpec, {**GIVEN, "ha": {"restart_limit": 0}})

    assert [(each.reason, each.next_step) for each in found] == [
        ("restart_limit=0 is out of range", "Use 1 or more"),
    ]


def test_a_new_option_is_described_in_the_docstring() -> None:
    assert "``restart_limit``" in parameter_texts(MoreSpec).partition(":param ha:")[2]


def test_a_new_option_is_an_option_of_the_command() -> None:
    told: list[Any] = []
    app = typer.Typer()

    @app.command()
    @takes_words(MoreSpec, application=Annotated[str, typer.Argument()], arguments=Annotated[list[str], typer.Option()])
    def submit(context: typer.Context, words: dict[str, Any]) -> None:
        del context
        told.append(words["restart_limit"])

    said = CliRunner().invoke(app, ["main.py", "--job-id", "orders", "--restart-limit", "3"])

    assert (said.exit_code, told) == (0, [3])


def test_a_new_option_is_in_the_json_schema_and_on_the_reference_page() -> None:
    assert "restart_limit" in MoreSpec.model_json_schema()["$defs"]["MoreHaOptions"]["properties"]
    assert "| `restart_limit` | `ha` | `7` | Upper bound of restarts. |" in page(MoreSpec, RestoreRequest)


def test_a_new_option_reaches_the_request() -> None:
    spec = read(MoreSpec, {**GIVEN, "restart_limit": "3"}, subject="the job", request_id="r")

    assert spec.ha.restart_limit == 3


def test_the_operator_templates_each_option() -> None:
    assert set(parameters_of(JobSpec)) <= set(SparkHaSubmitOperator.template_fields)


def test_each_option_has_a_description() -> None:
    assert [name for name, each in options_of(JobSpec).items() if not each.field.description] == []


def test_all_mistakes_of_a_task_are_named_together_with_their_next_steps() -> None:
    wrong: dict[str, Any] = {
        "ha": {"restart_atempts": 3},
        "target": {"engine": "yarn"},
        "wait_for": "ready",
        "conf": {"executor.cores": 1},
    }

    with pytest.raises(ConfigurationError) as told:
        SparkHaSubmitOperator(task_id="count", **GIVEN, **wrong)

    assert told.value.message.startswith("task 'count' cannot be used: ")
    for reason in ("'restart_atempts'", "engine 'yarn'", "wait_for='ready'", "'executor.cores'"):
        assert reason in told.value.message
    assert "Write 'restart_attempts'" in told.value.next_step


@pytest.mark.parametrize("env", [{"TOKEN": ["hunter2"]}, {"TOKEN=hunter2": "x"}])
def test_no_value_of_an_argument_or_a_variable_is_in_the_error(env: dict[str, Any]) -> None:
    wrong: dict[str, Any] = {"arguments": "hunter2", "env": env, "conf": {"key": "hunter2"}}

    with pytest.raises(ConfigurationError) as told:
        SparkHaSubmitOperator(task_id="count", **GIVEN, **wrong)

    assert "TOKEN" in str(told.value)
    assert "hunter2" not in str(told.value)


def test_an_option_that_a_restore_replaces_has_the_checks_of_the_submission() -> None:
    for model in (JobSpec, RestoreRequest):
        found = wrong_options(model, {"conf": {"executor.cores": 1}, "master": "local[two]"})

        assert len(found) == 2


@pytest.mark.parametrize("left_out", [None, "", "None"])
def test_nothing_means_the_default(left_out: Any) -> None:
    given = {**GIVEN, "restart_delay": left_out, "claim_mode": left_out}

    spec = read(JobSpec, given, subject="the job", request_id="r")

    assert spec == JobSpec(request_id="r", **GIVEN)


def test_a_duration_may_be_a_timedelta() -> None:
    given = {**GIVEN, "restart_delay": timedelta(minutes=1)}

    assert read(JobSpec, given, subject="the job", request_id="r").ha.restart_delay == 60


@pytest.mark.parametrize(
    ("written", "reason", "step"),
    [
        ({"restart_attempts": 3}, "restart_attempts is an option of ha", "Write ha={'restart_attempts': ...}"),
        ({"force": True}, "force is an option of start", "Write start={'force': ...}"),
        ({"ha": ["restart_attempts"]}, "ha is no mapping", "Write ha={option: value}"),
    ],
)
def test_an_option_beside_its_mapping_is_refused_with_its_place(
    written: dict[str, Any], reason: str, step: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        SparkHaSubmitOperator(task_id="count", **GIVEN, **written)

    assert reason in refused.value.message
    assert step in refused.value.next_step


def test_the_operator_has_at_most_26_parameters() -> None:
    shown = inspect.signature(SparkHaSubmitOperator.__init__).parameters.keys() - {"self", "kwargs"}

    assert len(shown | {"job_id", "spark_ha_conn_id", "wait_for"}) <= 26


@pytest.mark.parametrize("given", [HaOptions(restart_attempts=2), {"restart_attempts": 2}, '{"restart_attempts": 2}'])
def test_a_mapping_may_be_a_model_or_json_of_a_template(given: Any) -> None:
    task: Any = SparkHaSubmitOperator(task_id="count", **GIVEN, ha=given)

    assert given_options(task, JobSpec, "the job", ("job_id",))["restart_attempts"] == 2


PAGE = Path(__file__).parents[3] / "docs" / "reference" / "operators.md"
OF_AIRFLOW = {
    name for base in (BaseOperator, BaseSensorOperator) for name in inspect.signature(base.__init__).parameters
}


def classes() -> Iterator[type[Any]]:
    for package in (airflow_provider_ha.operators, airflow_provider_ha.sensors):
        for module in pkgutil.iter_modules(package.__path__):
            if module.name.startswith("_"):
                continue
            found = importlib.import_module(f"{package.__name__}.{module.name}")
            for value in vars(found).values():
                if inspect.isclass(value) and value.__module__ == found.__name__ and hasattr(value, "template_fields"):
                    yield value


def added(operator: type[Any]) -> set[str]:
    """Return the parameters of a class and of its bases of this package."""
    own = [base for base in operator.__mro__ if base.__module__.startswith("airflow_provider_ha")]
    return {
        name
        for base in own
        for name, parameter in inspect.signature(base).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    } - OF_AIRFLOW


def not_templated() -> set[str]:
    """Return the names that the page lists."""
    text = PAGE.read_text(encoding="utf-8")
    sentence = re.search(r"Not templated are\s(.*?)\.\s", text, re.DOTALL)
    assert sentence is not None
    return set(re.findall(r"`(\w+)`", sentence[1]))


@pytest.mark.parametrize("operator", list(classes()), ids=lambda operator: operator.__name__)
def test_a_parameter_is_templated_or_the_page_says_that_it_is_not(operator: type[Any]) -> None:
    missing = added(operator) - set(operator.template_fields)

    assert missing <= not_templated()


def test_the_page_lists_nothing_that_every_operator_templates() -> None:
    somewhere = {name for operator in classes() for name in added(operator) - set(operator.template_fields)}

    assert not_templated() == somewhere


def test_options_of_a_job_may_come_out_of_templates_as_text() -> None:
    given = {
        "restart_attempts": "10",
        "restart_in_place": "False",
        "checkpoint_interval": "2.5",
        "driver_log_mb": "None",
    }

    options = read(HaOptions, given, subject="the job")

    assert (options.restart_attempts, options.restart_in_place, options.checkpoint_interval) == (10, False, 2.5)
    assert options.driver_log_mb == 20


def test_text_that_is_no_number_is_an_error_with_the_parameter() -> None:
    with pytest.raises(ConfigurationError, match="restart_attempts"):
        read(HaOptions, {"restart_attempts": "many"}, subject="the job")


@pytest.mark.parametrize("operator", [SparkHaSubmitOperator, SparkHaRestoreOperator])
def test_options_of_the_task_come_out_of_a_mapping_that_is_a_template(operator: Any) -> None:
    start = {} if operator is SparkHaRestoreOperator else {"application": "main.py"}
    task = operator(task_id="count", job_id="orders", ha="{{ params.ha }}", start="{{ params.start }}", **start)

    task.render_template_fields(
        {"params": {"ha": '{"when_killed": "cancel", "repeatable": ["q"]}', "start": '{"force": true}'}}
    )

    assert (task.when_killed, task.force) == ("cancel", True)
    given = given_options(task, task.request_model, "the request")
    assert read(task.request_model, given, subject="the request", request_id="r", job_id="orders")


def test_options_of_a_task_are_no_options_of_the_command() -> None:
    assert [name for name, each in options_of(JobSpec).items() if each.of_task] == ["when_killed", "force"]
    assert "--when-killed" not in CliRunner().invoke(app, ["job", "submit", "--help"]).output
