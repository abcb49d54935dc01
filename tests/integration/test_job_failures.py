"""What ``spark-ha job show`` and the leader of the cluster make of failed drivers: real ZooKeeper, no processes."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_provider_ha.api.documents.overview import overview_row
from airflow_provider_ha.cli.job_requests import run_phase, with_failure
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.errors import DecisionNeededError, JobStateError
from airflow_provider_ha.fleet.fleet_overview import read_details, read_states
from airflow_provider_ha.fleet.notify.health import HealthView
from airflow_provider_ha.fleet.notify.health_rules import HealthLimits
from airflow_provider_ha.jobs.condition import decide
from airflow_provider_ha.jobs.model import JobState, OperationKind
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.recovery.lost_runs import recover
from airflow_provider_ha.jobs.runs.submissions import Failure, FailureKind
from airflow_provider_ha.storage import keys
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.jobs_helpers import MISTAKE, a_result, a_status
from tests.support.specs import changed


AWAY = Failure(kind=FailureKind.OUTAGE, error_class="java.net.ConnectException", query="rows", batches={"rows": 4})


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

    code, printed, _ = spark_ha("cluster", "recover", "--json")

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


DECISION = "run 1 of job 'flights' waits for a decision. `spark-ha job restore flights --dry-run` shows the ways out."


def test_job_that_waits_for_a_decision_says_so_and_is_not_submitted_again(cluster: Cluster, spark_ha: Any) -> None:
    cluster.submitted("flights", restart_attempts=0)
    cluster.exit("flights", decision=DECISION)

    for _ in range(2):
        with pytest.raises(DecisionNeededError, match="job restore flights --dry-run"):
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


LOOP = "run 2, attempt 1: APPLICATION KeyError: 'price' in query 'rows' after batch 4; 2 attempts in a row have failed"


def fail_run(cluster: Cluster) -> None:
    """Submit the job, and end that run at its first failure, as where the DAG's next run makes the next one."""
    number = len(cluster.context("flights").runs.numbers()) + 1
    request = changed(cluster.request("flights"), request_id=f"dag-run-{number}")
    cluster.client.job("flights").submit(request)
    cluster.exit("flights", MISTAKE)
    result = a_result(JobState.FAILED).model_copy(update={"at": SystemClock().now()})
    cluster.coordinator.commit(cluster.context("flights").runs.result_op(number, result))


def begin_run(cluster: Cluster, state: JobState) -> None:
    """Submit the job once more, and leave that run in a state."""
    cluster.client.job("flights").submit(changed(cluster.request("flights"), request_id="the-next"))
    job = cluster.context("flights")
    if state is JobState.RUNNING:
        leadership = cluster.led("flights", cluster.coordinator)
        status = a_status(run=3, epoch=leadership.epoch)
        leadership.commit(Create(job.paths.status, status.to_bytes()))
    assert job.snapshot().state is state


@pytest.mark.parametrize("state", [JobState.STARTING, JobState.RUNNING])
def test_a_crash_loop_over_runs_is_one_in_list_row_command_wait_and_alert(
    cluster: Cluster, spark_ha: Any, state: JobState
) -> None:
    """Each run FAILED at its first attempt, and the next one has not failed yet."""
    fail_run(cluster)
    fail_run(cluster)
    begin_run(cluster, state)
    client, now = cluster.client, SystemClock().now()

    (listed,) = read_states(client.coordinator, client.paths, ["flights"], now=now)
    (detail,) = read_details(client.coordinator, client.paths, ["flights"])
    row, shown = overview_row(detail, now=now), show(spark_ha)["failure"]
    bounds = HealthLimits(
        checkpoint_grace=60, checkpoint_age=900, stall_grace=60, recovery_point=None, recovery_time=None
    )
    health = HealthView(bounds, interval=60, drills=False, drill_interval=60)
    health.read(client, ["flights"])
    told = health.known(["flights"])["flights", "failing"]

    assert (listed.state, decide(listed, None, now).needs_person) == (state, True)
    assert (row.state, row.needs_attention, row.problem) == (state.value, True, LOOP)
    assert (shown["run"], shown["attempt"], shown["in_a_row"]) == (2, 1, 2)
    assert with_failure("waits", client.job("flights").snapshot(), now) == f"waits (last failure: {LOOP})"
    assert (told.kind, told.facts) == ("failing", {"run": 2, "attempt": 1, "reason": LOOP})


def test_a_refusal_by_a_supervisor_is_one_in_list_row_command_wait_and_decision(
    cluster: Cluster, spark_ha: Any
) -> None:
    cluster.submitted("flights")
    cluster.refuse("flights", "/data is no mount")
    client, now = cluster.client, SystemClock().now()
    refusal = "attempt 1 of run 1 has started no driver: /data is no mount"

    (detail,) = read_details(client.coordinator, client.paths, ["flights"])
    snapshot = client.job("flights").snapshot()

    assert overview_row(detail, now=now).problem == refusal
    assert show(spark_ha)["message"] == "/data is no mount"
    assert run_phase(snapshot) == "STARTING: attempt 1 has no leader yet, /data is no mount"
    assert decide(snapshot, None, now).reason == refusal


def test_the_failures_of_a_run_count_on_over_its_own(cluster: Cluster) -> None:
    fail_run(cluster)
    begin_run(cluster, JobState.STARTING)
    cluster.exit("flights", MISTAKE)

    (detail,) = read_details(cluster.client.coordinator, cluster.client.paths, ["flights"])
    row = overview_row(detail, now=SystemClock().now())

    assert row.problem == (
        "attempt 1: APPLICATION KeyError: 'price' in query 'rows' after batch 4; 2 attempts in a row have failed"
    )


def test_a_run_that_ends_well_ends_a_loop_over_runs(cluster: Cluster) -> None:
    fail_run(cluster)
    fail_run(cluster)
    begin_run(cluster, JobState.STARTING)
    cluster.coordinator.commit(cluster.context("flights").runs.result_op(3, a_result(JobState.FINISHED)))

    (detail,) = read_details(cluster.client.coordinator, cluster.client.paths, ["flights"])
    finished = overview_row(detail, now=SystemClock().now())
    cluster.client.job("flights").submit(changed(cluster.request("flights"), request_id="after-it"))
    (listed,) = read_states(cluster.client.coordinator, cluster.client.paths, ["flights"], now=SystemClock().now())

    assert (finished.needs_attention, finished.problem) == (False, "")
    assert not decide(listed, None, SystemClock().now()).needs_person
