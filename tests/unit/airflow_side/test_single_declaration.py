"""An option of a job is declared once: each place that shows it derives it from the spec."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner


pytest.importorskip("airflow")

from airflow_provider_ha.cli.option_group import takes as takes_words
from airflow_provider_ha.control.job.spec import JobSpec, RestoreRequest
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.declared import option, options_of, parameter_texts, read
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.operators._options import split_options, takes, wrong_options
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from tests.docs.options_page import page


GIVEN: dict[str, Any] = {"job_id": "orders", "application": "main.py"}


class MoreHaOptions(HaOptions):
    """Options with a further one."""

    restart_limit: int = option(7, "Upper bound of restarts.", shown={"group": "High availability"}, ge=1)


class MoreSpec(JobSpec):
    """A spec with a further option."""

    ha: MoreHaOptions = MoreHaOptions()


def test_a_new_option_is_a_parameter_of_the_operator_with_its_default() -> None:
    @takes(MoreSpec)
    def init(self: object, **kwargs: Any) -> None:
        del self, kwargs

    assert inspect.signature(init).parameters["restart_limit"].default == 7
    assert split_options(MoreSpec, {"task_id": "t"})[0]["restart_limit"] == 7


def test_a_new_option_is_checked_when_the_dag_is_parsed() -> None:
    found = wrong_options(MoreSpec, {**GIVEN, "restart_limit": 0})

    assert [(each.reason, each.next_step) for each in found] == [
        ("restart_limit=0 is out of range", "Use 1 or more"),
    ]


def test_a_new_option_is_described_in_the_docstring() -> None:
    assert ":param restart_limit: Upper bound of restarts." in parameter_texts(MoreSpec)


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
    assert "| `restart_limit` | `7` | Upper bound of restarts. |" in page(MoreSpec, RestoreRequest)


def test_a_new_option_reaches_the_request() -> None:
    spec = read(MoreSpec, {**GIVEN, "restart_limit": "3"}, subject="the job", request_id="r")

    assert spec.ha.restart_limit == 3


def test_the_operator_templates_each_option() -> None:
    assert options_of(JobSpec).keys() <= set(SparkHaSubmitOperator.template_fields)


def test_each_option_has_a_description() -> None:
    assert [name for name, each in options_of(JobSpec).items() if not each.field.description] == []


def test_all_mistakes_of_a_task_are_named_together_with_their_next_steps() -> None:
    wrong: dict[str, Any] = {"restart_atempts": 3, "engine": "yarn", "poll_interval": 0, "conf": {"executor.cores": 1}}

    with pytest.raises(ConfigurationError) as told:
        SparkHaSubmitOperator(task_id="count", **GIVEN, **wrong)

    assert told.value.message.startswith("task 'count' cannot be used: ")
    for reason in ("'restart_atempts'", "engine 'yarn'", "poll_interval=0", "'executor.cores'"):
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
