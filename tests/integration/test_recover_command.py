"""``spark-ha cluster recover`` and ``spark-ha job release`` as a program sees them; ``--watch`` is a real process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.runs.watchers import read_cluster_leader
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.cluster_helpers import Cluster


YES, NO, UNKNOWN = 0, 1, 2
MAIN = "from airflow_provider_ha.cli.app import main; main()"


@pytest.fixture
def spark_ha(spark_ha: Any) -> Any:
    """Call the command; returns the exit code and the JSON document."""

    def call(*words: str) -> tuple[int, dict[str, Any]]:
        code, stdout, _ = spark_ha(*words, "--json")
        return code, json.loads(stdout)

    return call


def test_a_cluster_in_order_needs_nothing(cluster: Cluster, spark_ha: Any) -> None:
    cluster.led("running", cluster.coordinator)
    cluster.ended("over")

    code, printed = spark_ha("cluster", "recover")

    assert code == YES
    assert {job["job_id"]: job["outcome"] for job in printed["jobs"]} == {
        "over": "cleaned up",
        "running": "left alone",
    }
    assert printed["epoch"] == 1


def test_a_job_that_needs_a_person_is_a_no(cluster: Cluster, spark_ha: Any) -> None:
    job = cluster.exited("used-up", restart_attempts=0)

    code, printed = spark_ha("cluster", "recover")

    assert code == NO
    assert printed["jobs"][0]["outcome"] == "given up"
    assert job.snapshot().state is JobState.FAILED


def test_a_broken_job_stays_in_quarantine_until_it_is_released(cluster: Cluster, spark_ha: Any) -> None:
    job = cluster.lost("broken")
    cluster.coordinator.commit(SetData(job.paths.job_graph, b"garbage"))

    first, second = spark_ha("cluster", "recover"), spark_ha("cluster", "recover")
    released, again = spark_ha("job", "release", "broken"), spark_ha("job", "release", "broken")

    assert [code for code, _ in (first, second, released, again)] == [NO, NO, YES, NO]
    assert first[1]["jobs"][0]["outcome"] == "put into quarantine"
    assert second[1]["jobs"][0]["outcome"] == "in quarantine"
    assert "persisted_job_graph" in released[1]["reason"]
    assert "is not in quarantine" in again[1]["error"]["message"]


def test_what_is_not_finished_in_time_is_unknown(cluster: Cluster, spark_ha: Any) -> None:
    cluster.submitted("on-its-way")

    code, printed = spark_ha("cluster", "recover", "--wait", "0")

    assert code == UNKNOWN
    assert printed["jobs"][0]["outcome"] == "pending"


def test_a_cluster_that_somebody_else_leads_is_a_no_that_names_it(cluster: Cluster, spark_ha: Any) -> None:
    leader = ClusterLeader(cluster.client, by="test", address="host-a")
    leader.lead(timeout=5)

    code, printed = spark_ha("cluster", "recover")

    assert code == NO
    assert "is led by host-a" in printed["error"]["message"]
    leader.close()


def test_watching_goes_on_until_it_is_stopped_and_then_gives_the_cluster_up_at_once(
    cluster: Cluster, environment: None
) -> None:
    del environment
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "cluster", "recover", "--watch", "--address", "host-a", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        leading = json.loads(process.stdout.readline())
        job = cluster.exited("used-up", restart_attempts=0)
        given_up = json.loads(process.stdout.readline())
        info = read_cluster_leader(cluster.coordinator, cluster.client.paths)

        process.send_signal(signal.SIGTERM)

        assert process.wait(30) == YES
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert leading == {"outcome": "leading", "epoch": 1}
    assert (given_up["job_id"], given_up["outcome"]) == ("used-up", "given up")
    assert job.snapshot().state is JobState.FAILED
    assert info is not None
    assert info.address == "host-a"
    wait_until(
        lambda: read_cluster_leader(cluster.coordinator, cluster.client.paths) is None, timeout=1, what="a free cluster"
    )


def test_one_job_is_recovered_alone_and_at_once(cluster: Cluster, spark_ha: Any) -> None:
    for job_id in ("flights", "trains"):
        cluster.exited(job_id, restart_delay=3600.0)

    code, printed = spark_ha("job", "recover", "flights")
    again, told = spark_ha("job", "recover", "flights")

    assert (code, printed["epoch"]) == (again, told["epoch"]) == (YES, 0)
    assert [(job["job_id"], job["outcome"]) for job in printed["jobs"]] == [("flights", "recovered")]
    assert [(job["job_id"], job["outcome"]) for job in told["jobs"]] == [("flights", "on its way")]
    attempts = {name: cluster.client.job(name).snapshot().run for name in ("flights", "trains")}
    assert {name: len(run.submissions) for name, run in attempts.items() if run} == {"flights": 2, "trains": 1}


def test_one_job_that_needs_no_recovery_or_a_person_is_told_so(cluster: Cluster, spark_ha: Any) -> None:
    cluster.led("led", cluster.coordinator)
    cluster.ended("over")

    assert spark_ha("job", "recover", "led")[1]["jobs"][0]["outcome"] == "left alone"
    assert spark_ha("job", "recover", "over")[0] == NO
    assert spark_ha("job", "recover", "nowhere")[0] == NO
