"""Arguments that look like secrets, in Airflow: masked before the rendered templates are shown, and warned of."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_ha.operators import _argument_secrets
from airflow_provider_ha.operators.restore import SparkHaRestoreOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator


ARGUMENTS = ["--password={{ secret }}", "--since", "now"]


@pytest.fixture
def masked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(_argument_secrets.ArgumentSecrets, "log", logging.getLogger("task"), raising=False)
    monkeypatch.setattr(_argument_secrets, "mask_secret", found.append)
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
    operator.render_template_fields({"secret": "hunter2"})
    with caplog.at_level(logging.WARNING):
        operator.warn_of_argument_secrets()

    assert masked == ["hunter2"]
    assert "--password" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_restore_that_names_no_arguments_has_none(masked: list[str]) -> None:
    operator = SparkHaRestoreOperator(task_id="t", job_id="j")

    operator.render_template_fields({})

    assert masked == []
    assert operator.restore_request("r").arguments is None
