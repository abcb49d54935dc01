"""What the tests of the command share: ``spark-ha`` against the test's own cluster."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import Target
from airflow_provider_ha.config import HaConfig


@pytest.fixture
def environment(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell the command by its environment which cluster it is about."""
    monkeypatch.setenv("SPARK_HA_ZOOKEEPER", config.zookeeper)
    monkeypatch.setenv("SPARK_HA_STORAGE_ROOT", config.storage_root)
    monkeypatch.setenv("SPARK_HA_CLUSTER_ID", config.cluster_id)


@pytest.fixture
def spark_ha(environment: None) -> Any:
    """Call the command; returns (exit code, stdout, stderr)."""
    del environment

    def call(*words: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(app, list(words), obj=Target())
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    return call
