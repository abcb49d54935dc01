"""A job that gets no executors on a standalone cluster is STALLED, and says so; its driver lives on."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig, Timings
from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.control.job.requests import SubmitRequest
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.options.resources import Resources
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.standalone_cluster import StandaloneCluster
from tests.support.clusters.standalone_requests import JOB_CONF, MARKS, PATIENCE, refuse_end, submitted_to


pytestmark = [*MARKS, pytest.mark.timeout(1200)]
TICKING = Path(__file__).parents[2] / "apps" / "system" / "told.py"


def test_a_job_without_executors_is_stalled_and_says_so(
    config: HaConfig, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    """No worker has the memory that an executor of it asks for."""
    config = config.model_copy(update={"timings": Timings()})
    with HaClient.open(config) as client:
        job = client.job("starved")
        job.submit(
            SubmitRequest(
                job_id="starved",
                request_id="test",
                application=str(TICKING),
                arguments=[str(tmp_path / "told.json")],
                resources=Resources(executor_memory="1000g"),
                conf=JOB_CONF | {"spark.told.words": "none"},
                options=HaOptions(allow_remote_executors=True, stall_timeout=20),
                **submitted_to(cluster, config),
            )
        )

        def is_stalled() -> bool:
            refuse_end(job)
            return job.snapshot().state is JobState.STALLED

        wait_until(is_stalled, timeout=PATIENCE, what="the stall")
        status = job.snapshot().status

    assert status is not None
    assert status.stalled.startswith("query 'ticks' has been in one trigger before its first batch for ")
    assert status.stalled.endswith("; the application has no executors")
