"""What a connection keeps secret reaches neither the metadata database (triggers, XCom) nor the log of a task."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from tests.integration.airflow_side.task_runner import deferral, run_task
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.airflow_helpers import connection_json, context


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
