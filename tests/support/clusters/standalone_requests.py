"""What tests with jobs of real Spark on a standalone cluster share: when they run, how they submit, how they wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.runs.submissions import Submission
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.standalone_cluster import StandaloneCluster, can_make_hosts
from tests.support.spark.driver_helpers import APPS, CONF, Stream
from tests.support.spark.layered_job import s3a_class_path


MARKS = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.skipif(not can_make_hosts(), reason="this host does not let a test make namespaces"),
]
PATIENCE = 800.0  # seconds: four JVMs and three Pythons start one after the other, twice
JOB_CONF = {key: value for key, value in CONF.items() if key not in ("spark.master", "spark.driver.memory")}
SMALL_EXECUTOR = {"spark.cores.max": "1", "spark.executor.memory": "512m"}


def submitted_to(cluster: StandaloneCluster, config: HaConfig) -> dict[str, Any]:
    """Return the fields of a ``JobSpec`` that say where its driver runs."""
    target = cluster.target(config)
    return {
        "master": target.master,
        "engine": target.engine,
        "engine_options": target.engine_options,
        "driver_memory": "1g",
    }


def submit_counts(
    job: JobClient, cluster: StandaloneCluster, stream: Stream, conf: Mapping[str, str], options: HaOptions
) -> None:
    """Submit ``counts.py`` with three files to read, its executors in separate processes."""
    stream.feed(3)
    job.submit(
        JobSpec(
            job_id=job.job_id,
            request_id=new_id(),
            application=str(APPS / "counts.py"),
            arguments=[*stream.arguments, "0"],
            conf={**JOB_CONF, **conf, **(s3a_class_path() if job.config.s3 is not None else {})},
            ha=options,
            **submitted_to(cluster, job.config),
        )
    )


def newest(job: JobClient) -> Submission:
    """Return the newest submission of a job."""
    run = job.snapshot().run
    assert run is not None
    assert run.newest is not None
    return run.newest.submission


def await_output(stream: Stream) -> None:
    """Wait until every row is in sqlite, and each window that is over in the output, once."""

    def complete() -> bool:
        try:
            rows, windows = stream.seen(), stream.windows()
        except FileNotFoundError:  # nothing was written yet
            return False
        over = stream.expected_windows(stream.files - 1)
        return rows == stream.expected_rows(stream.files) and windows == over

    wait_until(complete, timeout=PATIENCE, what="the whole output")


def recover_once_lost(job: JobClient, stream: Stream) -> None:
    """Give the job more to read, and recover it when its loss is known."""
    stream.feed(2)
    wait_until(lambda: job.snapshot().state is JobState.LOST, timeout=PATIENCE, what="the loss")
    job.recover(by="test")
    await_output(stream)


def refuse_end(job: JobClient) -> None:
    """Fail the test when the newest driver has ended for another reason than an outage.

    A busy machine may take a lease away: the supervisor starts the driver again.
    """
    run = job.snapshot().run
    ended = run.newest.exit if run is not None and run.newest is not None else None
    assert ended is None or ended.met_outage, f"{ended.reason}\n{ended.last_lines}"
