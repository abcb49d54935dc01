"""Arguments that look like secrets, in Airflow: masked before the rendered templates are shown, and warned of."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_ha.operators import _parameters
from airflow_provider_ha.operators.restore import SparkHaRestoreOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator


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
