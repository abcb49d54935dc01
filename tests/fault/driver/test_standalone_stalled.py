"""A job that gets no executors on a standalone cluster is STALLED, and says so; its driver lives on."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions, Resources
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.timings import Timings
from tests.support.clusters.standalone_cluster import StandaloneCluster
from tests.support.clusters.standalone_requests import JOB_CONF, MARKS, PATIENCE, refuse_end, submitted_to


pytestmark = [*MARKS, pytest.mark.timeout(1200)]
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
    config = config.model_copy(update={"timings": Timings()})
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


def test_a_script_that_waits_for_executors_before_its_first_query_is_stalled_and_says_so(
    config: HaConfig, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    script = tmp_path / "counts_first.py"
    script.write_text(COUNTS_FIRST, encoding="utf-8")

    said = stall_of("counting", config, cluster, script)

    assert said.startswith("no commit or report for ")
    assert said.endswith(" s: the script has not started a query; the application has no executors")
