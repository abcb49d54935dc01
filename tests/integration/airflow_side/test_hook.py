"""The Test button really tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.hooks.spark_ha import SparkHaHook
from tests.support.clusters.airflow_helpers import connection_json


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
