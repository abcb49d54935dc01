"""Connection: form, test button, secrets, and errors in the log of a task."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_2_PLUS
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.get_provider_info import get_provider_info
from airflow_provider_ha.hooks.spark_ha import SparkHaHook
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from tests.integration.airflow_side.task_runner import deferral, run_task
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.airflow_helpers import connection_json, context


@pytest.fixture(scope="module")
def form() -> Any:
    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

    return next(meta for meta in HookMetaService.hook_meta_data() if meta.connection_type == "spark_ha")


@pytest.mark.airflow
def test_the_standard_fields_show_both_that_are_required_and_no_port(form: Any) -> None:
    fields = form.standard_fields

    assert fields.host.title == "ZooKeeper hosts (required)"
    assert fields.url_schema.title == "Storage root (required)"
    assert not fields.host.hidden
    assert not fields.url_schema.hidden
    assert fields.port.hidden


@pytest.mark.airflow
def test_the_fields_below_are_those_of_the_metadata_in_their_order(form: Any) -> None:
    """Before Airflow 3.2 methods of the hook make them, from the same table."""
    table = get_provider_info()["connection-types"][0]["conn-fields"]

    shown = {name: field["schema"] for name, field in form.extra_fields.items()}

    assert list(shown) == list(table)
    assert {name: field["value"] for name, field in form.extra_fields.items()} == {
        name: field["schema"].get("default") for name, field in table.items()
    }
    assert [name for name, schema in shown.items() if schema.get("format") == "password"] == [
        "s3_secret_key",
        "digest_auth_also",
        "tls_key_password",
    ]
    assert shown["auth_scheme"]["enum"] == ["digest", "sasl"]
    assert all(
        schema.get("title", field["label"]) == field["label"]
        for schema, field in zip(shown.values(), table.values(), strict=True)
    )


@pytest.mark.airflow
@pytest.mark.skipif(not AIRFLOW_V_3_2_PLUS, reason="Airflow shows sections from 3.2 on")
def test_the_sections_below_begin_with_the_cluster_and_have_every_s3_setting(form: Any) -> None:
    sections = {name: field["schema"]["section"] for name, field in form.extra_fields.items()}

    assert list(sections)[:3] == ["work_root", "cluster_id", "root"]
    assert {name for name, section in sections.items() if section == "S3"} == {
        "s3_endpoint_url",
        "s3_region",
        "s3_path_style",
        "s3_access_key",
        "s3_secret_key",
    }
    assert form.extra_fields["s3_path_style"]["value"] is True


def test_the_test_button_connects_and_writes(airflow_connection: str) -> None:
    works, message = SparkHaHook(airflow_connection).test_connection()

    assert works, message
    assert "answers" in message


def test_the_test_button_says_that_storage_cannot_be_written(
    config: HaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a directory")
    broken = config.model_copy(update={"storage_root": f"file://{tmp_path}/file"})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HA_DEFAULT", connection_json(broken))

    works, message = SparkHaHook().test_connection()

    assert not works
    assert str(tmp_path / "file") in message


@pytest.mark.long  # 15 s: the time after which a connection is given up
def test_the_test_button_says_which_servers_do_not_answer(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_HA_DEFAULT", connection_json(config.model_copy(update={"zookeeper": "127.0.0.1:1"}))
    )

    works, message = SparkHaHook().test_connection()

    assert not works
    assert "127.0.0.1:1" in message


PASSWORD = "connection-secret"


@pytest.fixture
def secured(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[HaConfig]:
    """The default connection has credentials; what was started with them is gone afterwards."""
    described = json.loads(connection_json(config)) | {"login": "user", "password": PASSWORD}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HA_DEFAULT", json.dumps(described))
    owned = HaConfig.build(**config.model_dump(exclude={"digest_auth"}), digest_auth=f"user:{PASSWORD}")
    yield owned
    session = KazooCoordinator.connect(owned)
    helpers.kill_all(helpers.context(owned, session))
    session.close()


@pytest.mark.usefixtures("opened")
def test_a_trigger_an_xcom_and_a_log_hold_nothing_of_it(
    secured: HaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    operator = SparkHaSubmitOperator(
        task_id="task",
        job_id="flights",
        application=str(helpers.script(tmp_path)),
        env={"STAND_IN": "die"},
        ha={"restart_attempts": 0},
        start_from="fresh",
    )

    deferred = deferral(operator, context())
    with pytest.raises(Exception, match="FAILED") as failed:
        run_task(operator, context())

    stored = json.dumps(deferred.trigger.serialize(), default=str) + json.dumps(deferred.kwargs, default=str)
    assert "spark_ha_default" in stored
    assert not [text for text in (stored, caplog.text, str(failed.value)) if PASSWORD in text]
    assert secured.digest_auth is not None


CASES = ("submit", "recover", "sensor", "broken", "inside")
Logs = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def logs() -> Logs:
    """The log of each case; its last line says how the task ended. One import of Airflow serves all of them."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_VERSION"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.airflow_side.refused_task", *CASES],
        cwd=Path(__file__).parents[3],
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    ends = [number for number, line in enumerate(lines, 1) if line.keys() == {"state", "message"}]
    assert len(ends) == len(CASES), done.stderr
    return {case: lines[begin:end] for case, begin, end in zip(CASES, [0, *ends], ends, strict=False)}


def errors(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the error lines of a task's log."""
    return [line for line in log if line.get("level") == "error"]


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("submit", "wait_for='nonsense' is unknown. Choose from running, finished."),
        ("recover", "has no storage root"),
        ("sensor", "has no storage root"),
    ],
)
def test_a_refusal_is_one_sentence_and_no_frame(logs: Logs, case: str, sentence: str) -> None:
    found = errors(logs[case])

    assert [sentence in line["event"] for line in found] == [True]
    assert not {"exception", "error_detail", "exc_info"} & found[0].keys()


def test_a_refusal_is_not_retried_although_the_task_has_retries(logs: Logs) -> None:
    assert logs["submit"][-1] == {"state": "failed", "message": "TaskState"}


@pytest.mark.parametrize("case", ["broken", "inside"])
def test_what_nobody_expected_keeps_its_frames(logs: Logs, case: str) -> None:
    assert errors(logs[case])[0]["exception"][0]["frames"]
    assert logs[case][-1] == {"state": "up_for_retry", "message": "RetryTask"}
