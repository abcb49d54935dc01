"""What ``spark-ha job show`` and the leader of the cluster make of failed drivers: real ZooKeeper, no processes."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.submission.recovery import recover
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.errors import DecisionNeededError, JobStateError
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.failures import Failure, FailureKind
from airflow_provider_ha.jobs.model import JobState, OperationKind
from airflow_provider_ha.storage import keys
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.jobs_helpers import MISTAKE


AWAY = Failure(kind=FailureKind.OUTAGE, error_class="java.net.ConnectException", query="rows", batches={"rows": 4})


@pytest.fixture
def cluster(config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path) -> Cluster:
    return Cluster(config, coordinator, tmp_path)


def fail(cluster: Cluster, failure: Failure, times: int, *, ago: float = 0.0, **options: Any) -> None:
    """Let the first *times* submissions of a job end with *failure*; the last of them is not recovered."""
    job = cluster.submitted("flights", **options)
    for number in range(times):
        if number:
            recover(job, by="test", wait=False)
        at = SystemClock().now() - timedelta(seconds=ago * (times - 1 - number))
        cluster.exit("flights", failure, at=at)


def show(spark_ha: Any) -> dict[str, Any]:
    code, printed, _ = spark_ha("job", "show", "flights", "--json")
    assert code == 0
    document: dict[str, Any] = json.loads(printed)
    return document


def test_lost_job_is_shown_with_its_failure_its_attempts_and_the_next_one(cluster: Cluster, spark_ha: Any) -> None:
    fail(cluster, MISTAKE, 3, restart_delay=40.0, restart_delay_max=80.0)

    document = show(spark_ha)

    assert (document["state"], document["attempts"]) == ("LOST", 3)
    assert document["message"] == "APPLICATION KeyError: 'price' in query 'rows' after batch 4"
    failure = document["failure"]
    assert {name: failure[name] for name in ("kind", "error_class", "message", "query", "batches", "attempt")} == {
        "kind": "APPLICATION",
        "error_class": "KeyError",
        "message": "'price'",
        "query": "rows",
        "batches": {"rows": 4},
        "attempt": 3,
    }
    assert (failure["times"], failure["log"]) == (3, "/driver.log")
    wait = datetime.fromisoformat(document["next_attempt_at"]) - datetime.fromisoformat(failure["at"])
    assert timedelta(seconds=78) < wait < timedelta(seconds=82)


def test_lost_job_is_shown_to_people_with_its_failure_as_a_sentence(cluster: Cluster, spark_ha: Any) -> None:
    fail(cluster, MISTAKE, 2)

    shown = " ".join(spark_ha("job", "show", "flights")[1].split())

    assert "attempt 2: APPLICATION KeyError: 'price' in query 'rows' after batch 4, 2 times since 20" in shown
    assert "attempts 2" in shown
    assert "next_attempt_at 20" in shown


def test_job_that_runs_again_still_shows_how_it_failed_before(cluster: Cluster, spark_ha: Any) -> None:
    fail(cluster, AWAY, 1)
    recover(cluster.context("flights"), by="test", wait=False)
    leadership = cluster.led("flights", cluster.coordinator)

    document = show(spark_ha)

    assert (document["state"], document["attempts"]) == ("STARTING", 2)
    assert (document["failure"]["attempt"], document["failure"]["kind"]) == (1, "OUTAGE")
    assert document["next_attempt_at"] is None
    leadership.release()


def test_leader_that_vanished_is_shown_as_such(cluster: Cluster, spark_ha: Any) -> None:
    cluster.lost("flights")

    document = show(spark_ha)

    assert "without reporting a reason" in document["message"]
    assert document["failure"]["attempt"] == 1


def test_driver_that_was_killed_is_shown_with_what_its_supervisor_saw(cluster: Cluster, spark_ha: Any) -> None:
    cluster.exited("flights")

    document = show(spark_ha)

    assert document["message"] == "killed"
    assert (document["failure"]["kind"], document["failure"]["reason"]) == ("UNKNOWN", "killed")


def test_job_that_never_failed_shows_none(cluster: Cluster, spark_ha: Any) -> None:
    cluster.submitted("flights")

    document = show(spark_ha)

    assert (document["attempts"], document["failure"], document["next_attempt_at"]) == (1, None, None)


def test_failure_is_shown_while_storage_has_lost_the_graph(cluster: Cluster, spark_ha: Any) -> None:
    fail(cluster, MISTAKE, 1)
    view = cluster.context("flights").runs.latest()
    assert view is not None
    cluster.client.store.delete(keys.blob(view.run.graph.sha256))

    document = show(spark_ha)

    assert document["failure"]["error_class"] == "KeyError"
    assert document["next_attempt_at"] is None


def test_error_that_repeats_ends_the_run_whoever_recovers_it(cluster: Cluster, spark_ha: Any) -> None:
    fail(cluster, MISTAKE, 3, ago=301.0, application_failures=3)

    code, printed, _ = spark_ha("recover", "--json")

    assert code == 1
    assert json.loads(printed)["jobs"][0]["outcome"] == "given up"
    result = cluster.context("flights").snapshot().run.result  # type: ignore[union-attr]
    assert result is not None
    assert (result.state, result.failure) == (JobState.FAILED, MISTAKE)
    assert result.reason.startswith("KeyError: 'price', in query 'rows' after batch 4")
    assert cluster.coordinator.find(cluster.paths("flights").job_graph) is None
    document = show(spark_ha)
    assert (document["state"], document["failure"]["times"]) == ("FAILED", 3)
    assert document["result"]["failure"]["error_class"] == "KeyError"


def test_run_that_an_application_error_has_ended_is_never_submitted_again(cluster: Cluster) -> None:
    fail(cluster, MISTAKE, 3, ago=301.0, application_failures=3)
    job = cluster.context("flights")

    with pytest.raises(JobStateError, match="KeyError: 'price', in query 'rows'"):
        recover(job, by="one", wait=False)
    with pytest.raises(JobStateError, match="never run again"):
        recover(job, by="another", wait=False)

    assert cluster.attempts("flights") == [1, 2, 3]


def test_outage_that_repeats_for_longer_ends_no_run(cluster: Cluster) -> None:
    fail(cluster, AWAY, 12, ago=301.0, restart_attempts=2)

    made = recover(cluster.context("flights"), by="test", wait=False)

    assert (made.attempt, made.created) == (13, True)


DECISION = "run 1 of job 'flights' waits for a decision. `spark-ha checkpoint plan flights` shows the ways out."


def test_job_that_waits_for_a_decision_says_so_and_is_not_submitted_again(cluster: Cluster, spark_ha: Any) -> None:
    cluster.submitted("flights", restart_attempts=0)
    cluster.exit("flights", decision=DECISION)

    for _ in range(2):
        with pytest.raises(DecisionNeededError, match="checkpoint plan flights"):
            recover(cluster.context("flights"), by="test", wait=False)

    document = show(spark_ha)
    assert (document["state"], document["attempts"], document["decision"]) == ("LOST", 1, DECISION)
    assert document["next_attempt_at"] is None


def test_run_that_waits_for_a_decision_can_be_canceled(cluster: Cluster) -> None:
    cluster.submitted("flights")
    cluster.exit("flights", decision=DECISION)
    job = cluster.context("flights")
    operations.request(
        job.coordinator,
        job.paths,
        OperationKind.CANCEL,
        operation_id="enough",
        arguments={},
        requested_by="test",
        clock=SystemClock(),
    )

    with pytest.raises(JobStateError, match="CANCELED"):
        recover(job, by="test", wait=False)
