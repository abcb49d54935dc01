"""``spark-ha`` against the test's own cluster, and two jobs: one to restore from, one to restore into."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.working.pins import pin
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import Target
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.submission.prepare import upload
from airflow_provider_ha.coordination.coordinator import Coordinator
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.clusters import submit_helpers as helpers
from tests.support.spark.recorded_job import QUERY, recorded_job


RECORDED_BATCH = 9  # of checkpoint 1


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


@pytest.fixture
def copy(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobContext]:
    """The job that is restored into."""
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    context = helpers.context(config, coordinator, job_id="copy")
    yield context
    helpers.kill_all(context)


@pytest.fixture
def source(config: HaConfig, coordinator: Coordinator, copy: JobContext, tmp_path: Path) -> Iterator[Job]:
    """The job that is restored from: it has a leader, and it has checkpoint 1, whose sink no other job shares."""
    graph = copy.graphs.write_graph(upload(copy, helpers.request(helpers.script(tmp_path))))
    with led_job(config, coordinator) as led:
        pin(recorded_job() / "live", led.pin_path(1), {QUERY: RECORDED_BATCH})
        shown = led.checkpoint(1, RECORDED_BATCH, sink=QuerySink(kind=SinkKind.OTHER, format="console"))
        led.checkpoints.add(led.leadership, shown.model_copy(update={"graph": graph.sha256}))
        yield led
