"""Tasks that meet another stop, or a host that cannot run a driver."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.cli.app import app
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.jobs.model import JobState, RunEnd, RunResult
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.operators.cancel import SparkHaCancelOperator
from airflow_provider_ha.operators.stop import SparkHaStopOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from tests.integration.airflow_side.task_runner import deferral, resume_task
from tests.support.airflow_exceptions import AirflowFailException
from tests.support.clusters.airflow_helpers import context
from tests.support.clusters.cluster_helpers import Cluster, lead_newest
from tests.support.clusters.submit_helpers import script
from tests.support.clusters.variables import variables_of


pytestmark = pytest.mark.usefixtures("airflow_connection", "opened")


def test_each_task_that_the_stop_fulfils_succeeds_with_one_result_and_another_one_says_what_ended_the_run(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    job = Cluster(config, coordinator, tmp_path).submitted("flights")
    leadership = lead_newest(config, coordinator, job)
    task: dict[str, Any] = {"task_id": "task", "job_id": "flights"}
    tasks = [
        (each, context(run_id=f"manual__{number}"))
        for number, each in enumerate(
            [
                SparkHaStopOperator(**task, savepoint=True),
                SparkHaStopOperator(**task, savepoint=True),
                SparkHaStopOperator(**task),
                SparkHaStopOperator(**task, mode="terminate"),
                SparkHaCancelOperator(**task),
            ]
        )
    ]
    waiting = [(*each, deferral(*each)) for each in tasks]

    first = next(iter(operations.list_operations(coordinator, job.paths)))
    end = RunEnd.of(first, {"checkpoint": 7, "savepoint_id": "s1", "path": "savepoints/s1"})
    at = SystemClock().now()
    result = RunResult(state=JobState.FINISHED, epoch=leadership.epoch, checkpoint=7, end=end, at=at)
    leadership.commit(job.runs.result_op(1, result), *operations.ending_ops(coordinator, job.paths, 1, result))
    leadership.release()

    results = [resume_task(*each)[0] for each in waiting[:3]]
    assert [(each["checkpoint"], each["savepoint_id"]) for each in results] == [(7, "s1")] * 3
    for refused, missing in zip(waiting[3:], ("not drained", "not cancelled"), strict=True):
        with pytest.raises(AirflowFailException, match=f"was suspended .checkpoint 7. by operation .*{missing}"):
            resume_task(*refused)


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
    done = CliRunner().invoke(app, ["job", "submit", "flights", application, *words], env=environment)
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
