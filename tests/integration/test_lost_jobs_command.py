"""``spark-ha`` and a job that has lost its driver: a stop, a restore and its plan. Real ZooKeeper."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.operations import operations, stop
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.cluster_helpers import Cluster, lead_newest
from tests.support.clusters.lost_jobs import NUMBER, lose


pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def cluster(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Cluster:
    return Cluster(config, coordinator, tmp_path)


def test_the_command_stops_a_lost_job_at_once(spark_ha: Any, cluster: Cluster) -> None:
    lose(cluster)

    code, out, _ = spark_ha("job", "stop", "flights", "--json")

    document = json.loads(out)
    assert (code, document["state"], document["result"]["checkpoint"]) == (0, "COMPLETED", NUMBER)


def test_a_job_that_is_lost_while_the_command_waits_ends_without_its_driver(
    spark_ha: Any, cluster: Cluster, coordinator: Coordinator, config: HaConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop, "LOST_AFTER", 0.5)
    job = cluster.submitted("flights")
    leadership = lead_newest(config, coordinator, job)
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(spark_ha, "job", "stop", "flights", "--wait", "30", "--json")
        wait_until(lambda: coordinator.children(job.paths.operations), timeout=20, what="the request")

        leadership.release()
        code, out, _ = stopping.result(timeout=60)

    assert (code, json.loads(out)["state"]) == (0, "COMPLETED")
    assert len(operations.list_operations(coordinator, job.paths)) == 1
    assert job.snapshot().state is JobState.FINISHED


def test_the_command_says_at_once_why_a_drain_waits(
    spark_ha: Any, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    lose(cluster)

    code, out, _ = spark_ha("job", "stop", "flights", "--mode", "terminate", "--wait", "0")

    assert code == 0
    assert "REQUESTED" in out
    assert "a drain needs a driver" in caplog.text


@pytest.mark.parametrize("words", [("checkpoint", "plan"), ("restore", "--dry-run"), ("restore",)], ids=" ".join)
def test_the_command_refuses_a_restore_and_its_plan_with_both_choices(
    spark_ha: Any, cluster: Cluster, words: tuple[str, ...]
) -> None:
    job = lose(cluster)

    code, _, said = spark_ha(*words, "flights")

    assert code == 1
    assert "--if-lost restart ends it and restores, --if-lost recover continues it instead" in " ".join(said.split())
    assert "if_lost" not in said
    assert "spark-ha job stop flights" in said
    assert job.runs.numbers() == [1]


@pytest.mark.parametrize("choice", ["restart", "recover"])
def test_a_plan_with_a_choice_exits_0_and_ends_nothing(spark_ha: Any, cluster: Cluster, choice: str) -> None:
    job = lose(cluster)

    code, _, _ = spark_ha("checkpoint", "plan", "flights", "--if-lost", choice)

    assert code == 0
    assert job.snapshot().state is JobState.LOST
