"""What tests with jobs of real Spark on a standalone cluster share: when they run, how they submit, how they wait."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.config import HaConfig
from tests.support.clusters.standalone_cluster import StandaloneCluster, can_make_hosts
from tests.support.spark.driver_helpers import CONF


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


def refuse_end(job: JobClient) -> None:
    """Fail the test when the newest driver has ended for another reason than an outage.

    A busy machine may take a lease away: the supervisor starts the driver again.
    """
    run = job.snapshot().run
    ended = run.newest.exit if run is not None and run.newest is not None else None
    assert ended is None or ended.met_outage, f"{ended.reason}\n{ended.last_lines}"
