"""Jobs on a standalone cluster: dependencies, and executors that do not come."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions, Resources
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.testing.waiting import wait_until
from tests.apps import carried_parts
from tests.support.clusters.standalone_cluster import StandaloneCluster
from tests.support.clusters.standalone_requests import JOB_CONF, MARKS, PATIENCE, refuse_end, submitted_to


pytestmark = [*MARKS, pytest.mark.timeout(1200)]
PYTHON = {"spark.pyspark.python": "./environment/bin/python"}


@pytest.mark.hours
def test_executors_find_all_that_travels_with_a_job(
    config: HaConfig, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    application = Path(shutil.copytree(carried_parts.APPLICATION, tmp_path / "checkout"))
    made = carried_parts.build(tmp_path / "parts")
    source, found = tmp_path / "in", tmp_path / "found.json"
    source.mkdir()
    (source / "a.txt").write_text("one\n")
    ivy = {
        "spark.jars.ivy": str(cluster.hosts[0].mount_point / "ivy"),
        "spark.jars.ivySettings": str(made.ivy_settings),
    }

    with HaClient.open(config) as client:
        job = client.job("carried")
        job.submit(
            JobSpec(
                job_id="carried",
                request_id="test",
                application=str(application / "app.py"),
                arguments=["--input", str(source), "--found", str(found)],
                py_files=made.py_files,
                files=[str(application / "words.txt")],
                jars=[str(made.jar)],
                packages=[carried_parts.PACKAGE],
                archives=[f"{made.environment}#environment", f"{made.texts}#texts"],
                resources=Resources(
                    repositories=made.repository.as_uri(), executor_memory="512m", total_executor_cores=1
                ),
                conf=JOB_CONF | ivy | PYTHON,
                ha=HaOptions(allow_remote_executors=True),
                **submitted_to(cluster, config),
            )
        )
        shutil.rmtree(application)
        for path in (*map(Path, made.py_files), made.jar, made.environment, made.texts):
            path.unlink()

        def seen() -> bool:
            refuse_end(job)
            return found.exists()

        wait_until(seen, timeout=PATIENCE, what="what the executors found")
        executors = [each.pid for host in cluster.hosts for each in host.executors()]

    told = json.loads(found.read_text())
    executor, driver = told["executor"], told["driver"]
    assert executors
    assert driver["directory"] != executor["directory"]
    assert "/app-" in executor["directory"], "that of an executor"
    assert executor["python"] == f"{executor['directory']}/environment"
    assert driver["python"] == f"{driver['directory']}/environment"
    assert {name: executor[name] for name in EXPECTED} == EXPECTED
    assert {name: driver[name] for name in ("environment", "archive", "data_file")} == {
        name: EXPECTED[name] for name in ("environment", "archive", "data_file")
    }


EXPECTED = {
    "beside": "module beside the script",
    "label": "package beside the script",
    "zip": "zip",
    "wheel": "wheel",
    "environment": "packed environment",
    "data_file": "data file",
    "archive": "archive",
    "jar": "jar",
    "package": "maven package",
}
TICKING = Path(__file__).parents[2] / "apps" / "system" / "told.py"
COUNTS_FIRST = """\
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print(spark.range(10).count())
ticks = spark.readStream.format("rate").load()
ticks.writeStream.queryName("ticks").format("noop").start().awaitTermination()
"""


def stall_of(job_id: str, config: HaConfig, cluster: StandaloneCluster, application: Path, *arguments: str) -> str:
    """Return what a job says of its stall: no worker has the memory that an executor of it asks for."""
    with HaClient.open(config) as client:
        job = client.job(job_id)
        job.submit(
            JobSpec(
                job_id=job_id,
                request_id="test",
                application=str(application),
                arguments=list(arguments),
                resources=Resources(executor_memory="1000g"),
                conf=JOB_CONF | {"spark.told.words": "none"},
                ha=HaOptions(allow_remote_executors=True, stall_timeout=20),
                **submitted_to(cluster, config),
            )
        )

        def is_stalled() -> bool:
            refuse_end(job)
            return job.snapshot().state is JobState.STALLED

        wait_until(is_stalled, timeout=PATIENCE, what="the stall")
        status = job.snapshot().status

    assert status is not None
    return status.stalled


@pytest.mark.hours
def test_a_job_without_executors_is_stalled_and_says_so(
    config: HaConfig, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    said = stall_of("starved", config, cluster, TICKING, str(tmp_path / "told.json"))

    assert said.startswith("query 'ticks' has been in one trigger before its first batch for ")
    assert said.endswith("; the application has no executors")


@pytest.mark.hours
def test_a_script_that_waits_for_executors_before_its_first_query_is_stalled_and_says_so(
    config: HaConfig, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    script = tmp_path / "counts_first.py"
    script.write_text(COUNTS_FIRST, encoding="utf-8")

    said = stall_of("counting", config, cluster, script)

    assert said.startswith("no commit or report for ")
    assert said.endswith(" s: the script has not started a query; the application has no executors")
