"""A host that no driver could work on: command and task say so in one sentence, and nothing is made anywhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.cli.app import app
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from tests.support.airflow_exceptions import AirflowFailException
from tests.support.clusters.airflow_helpers import context
from tests.support.clusters.submit_helpers import script
from tests.support.clusters.variables import variables_of


pytestmark = pytest.mark.usefixtures("airflow_connection", "opened")
WRONG_CALL = 64
Host = Callable[[pytest.MonkeyPatch, Path], dict[str, Any]]


def without_java(host: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    host.delenv("JAVA_HOME", raising=False)
    host.setenv("PATH", str(folder))
    return {}


def with_old_java(host: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    host.setenv("JAVA_HOME", str(folder))
    return {}


def with_a_master_that_spark_does_not_know(host: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    return {"master": "local[two]"}


def without_spark(host: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    host.setenv("SPARK_HOME", str(folder))
    return {}


HOSTS = [
    pytest.param(without_java, "no Java was found by PATH. Install Java 17 and set JAVA_HOME to it.", id="no Java"),
    pytest.param(with_old_java, "bin/java is Java 8, at least 17 is needed. Install Java 17", id="old Java"),
    pytest.param(
        with_a_master_that_spark_does_not_know,
        "Spark knows no master 'local[two]'. Use local[N] or local[*]",
        id="impossible master",
    ),
    pytest.param(without_spark, "there is no bin/spark-submit in ", id="no Spark"),
]


def submitted_by_command(application: str, options: dict[str, Any], config: HaConfig) -> str:
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    environment = os.environ | variables_of(config)
    done = CliRunner().invoke(app, ["job", "submit", application, "--job-id", "flights", *words], env=environment)
    assert done.exit_code == WRONG_CALL
    return done.stderr


def submitted_by_task(application: str, options: dict[str, Any], config: HaConfig) -> str:
    task = SparkHaSubmitOperator(task_id="submit", job_id="flights", application=application, wait_for="running")
    task.target = options  # as a template renders it: a plain value is refused when the DAG is parsed
    with pytest.raises(AirflowFailException) as refused:  # it burns no retry
        task.execute(context())
    return str(refused.value)


@pytest.mark.parametrize("submitted", [submitted_by_command, submitted_by_task], ids=["command", "task"])
@pytest.mark.parametrize(("unfit", "sentence"), HOSTS)
def test_a_submission_is_refused_in_one_sentence_and_makes_nothing(
    *,
    submitted: Callable[[str, dict[str, Any], HaConfig], str],
    unfit: Host,
    sentence: str,
    config: HaConfig,
    coordinator: Coordinator,
    cluster_paths: ClusterPaths,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    application, folder = str(script(tmp_path)), tmp_path / "host"
    folder.mkdir()
    options = unfit(monkeypatch, folder)

    said = " ".join(submitted(application, options, config).split())

    assert sentence in said
    assert "Traceback" not in said
    assert coordinator.find(cluster_paths.base) is None
    assert not config.work_path.parent.exists()
