"""What is removed of runs that are long over without a driver: by a person, and by the leader of the cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig, Retention
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.reconciler import ReconcileOutcome
from airflow_provider_ha.jobs.model import Run, StartPoint
from airflow_provider_ha.jobs.removal import cleanup
from tests.support.clusters.aged_job import JOB, AgedJob
from tests.support.clusters.jobs_helpers import BLOB, NOON, a_result


YES, UNKNOWN = 0, 2
RUNS, KEPT = 30, 10


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> AgedJob:
    """A job with all of its runs; the last one had a driver."""
    monkeypatch.setenv("SPARK_HA_RETAINED_RUNS", str(KEPT))
    aged = AgedJob(config, coordinator, led_every=RUNS, cleaning=False)
    aged.live(RUNS)
    return aged


def left(job: AgedJob) -> list[int]:
    return job.context.runs.numbers()


def test_a_dry_run_says_how_much_there_is_and_removes_nothing(spark_ha: Any, job: AgedJob) -> None:
    code, printed, _ = spark_ha("storage", "clean", "--dry-run", "--json")

    assert code == YES
    document = json.loads(printed)
    assert (document["retained_runs"], document["retained_days"], document["dry_run"]) == (KEPT, 7.0, True)
    (row,) = document["jobs"]
    assert (row["job_id"], row["runs"], row["expendable"], row["submissions"]) == (JOB, RUNS, RUNS - KEPT, RUNS - KEPT)
    # Each run was started by one task and followed by another, and has claimed an output; a reader came too late.
    assert (row["tasks"], row["outputs"], row["leases"]) == (2 * (RUNS - KEPT), RUNS, RUNS)
    assert row["removed"] == 0
    assert len(left(job)) == RUNS


def test_a_person_removes_it_at_once(spark_ha: Any, job: AgedJob) -> None:
    code, shown, said = spark_ha("storage", "clean", "--yes", JOB)

    assert code == YES
    assert str(RUNS - KEPT) in shown
    assert "the newest 10 runs of a job are kept, and each run for 7 days" in said
    assert left(job) == list(range(RUNS - KEPT + 1, RUNS + 1))
    assert len(job.coordinator.children(job.paths.watchers)) == 3 * KEPT
    assert job.coordinator.children(job.paths.cluster.outputs) == []


def test_why_an_old_run_stays_is_said(spark_ha: Any, job: AgedJob) -> None:
    job.coordinator.commit(Delete(job.paths.submission_exit(1, 1)))

    code, _, said = spark_ha("storage", "clean", "--yes")

    assert code == YES
    assert "run 1 stays: nothing proves the death of the processes of 1 of its submissions" in said
    assert left(job)[:2] == [1, RUNS - KEPT + 1]


def test_a_run_takes_its_graph_with_it(spark_ha: Any, job: AgedJob) -> None:
    """The job's clock is months behind: its graphs are old."""
    code, printed, _ = spark_ha("storage", "clean", "--yes", "--json")

    assert code == YES
    assert len(json.loads(printed)["blobs"]["deleted"]) == RUNS - KEPT
    assert job.measure().blobs == KEPT


def test_a_dry_run_removes_no_blob(spark_ha: Any, job: AgedJob) -> None:
    spark_ha("storage", "clean", "--dry-run")

    assert job.measure().blobs == RUNS


def test_a_record_that_cannot_be_read_keeps_every_blob(spark_ha: Any, job: AgedJob) -> None:
    job.context.store.write(job.keys.journal("submission", "garbage"), b"garbage")

    code, _, said = spark_ha("storage", "clean", "--yes")

    assert code == UNKNOWN
    assert "no blob is removed" in said
    assert job.measure().blobs == RUNS
    assert len(left(job)) == KEPT


def test_a_job_with_a_live_run_is_left_to_its_driver(spark_ha: Any, job: AgedJob) -> None:
    """To take its lock would look as if that run had been led, and lost."""
    graph = job.context.runs.get(RUNS).run.graph
    run = Run(number=RUNS + 1, graph=graph, start=StartPoint(), request_id="new", created_at=NOON)
    job.coordinator.commit(job.context.runs.create_op(run))
    epoch = job.coordinator.get(job.paths.epoch).version

    code, _, said = spark_ha("storage", "clean", "--yes")

    assert code == YES
    assert "left to the next driver of its live run" in said
    assert len(left(job)) == RUNS + 1
    assert job.coordinator.get(job.paths.epoch).version == epoch


def test_a_new_run_is_not_kept_waiting(config: HaConfig, job: AgedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver goes on with the removal."""
    monkeypatch.setattr(cleanup, "LOCKED_SECONDS", 0.0)
    kept = config.model_copy(update={"retention": Retention(runs=KEPT, days=7)})
    removal = cleanup.clear_past(replace(job.context, config=kept, clock=SystemClock()), RUNS)
    next(removal)
    run = Run(number=RUNS + 1, graph=BLOB, start=StartPoint(), request_id="new", created_at=NOON)
    result = a_result().model_copy(update={"cleanup": "CLEAN"})
    job.coordinator.commit(job.context.runs.create_op(run), job.context.runs.result_op(RUNS + 1, result))

    with pytest.raises(JobStateError, match=f"run {RUNS + 1} of job 'flights' has begun"):
        for _ in removal:
            pass

    assert left(job)[0] == 2
    assert job.coordinator.find(job.paths.leader) is None


def test_what_cannot_be_read_stops_the_removal(spark_ha: Any, job: AgedJob) -> None:
    job.coordinator.commit(Create(job.paths.savepoint("broken"), b"garbage"))

    code, _, said = spark_ha("storage", "clean", "--yes")

    assert code == UNKNOWN
    assert "may refer to any run" in said
    assert len(left(job)) == RUNS


def test_the_leader_of_the_cluster_removes_it_for_a_job_without_a_driver(
    config: HaConfig, rival: KazooCoordinator, job: AgedJob
) -> None:
    patient = config.model_copy(update={"retention": Retention(runs=KEPT, days=7)})
    with HaClient(patient, rival) as client, ClusterLeader(client, by="test") as leader:
        leader.lead(timeout=10)
        (cleaned,) = leader.settle(30)
        turns = iter(lambda: leader.attend(JOB).outcome, ReconcileOutcome.LEFT_ALONE)  # a second's worth at a time
        assert len(list(islice(turns, RUNS + 1))) <= RUNS  # each removes at least one run
        epoch = job.coordinator.get(job.paths.epoch).version
        again = leader.attend(JOB)

    assert cleaned.outcome is ReconcileOutcome.CLEANED_UP
    assert len(left(job)) == KEPT
    assert again.outcome is ReconcileOutcome.LEFT_ALONE
    assert job.coordinator.get(job.paths.epoch).version == epoch


def test_the_leader_of_the_cluster_recovers_the_others_beside_what_cannot_be_read(
    config: HaConfig, rival: KazooCoordinator, job: AgedJob
) -> None:
    job.coordinator.commit(Create(job.paths.savepoint("broken"), b"garbage"))
    patient = config.model_copy(update={"retention": Retention(runs=KEPT, days=7)})

    with HaClient(patient, rival) as client, ClusterLeader(client, by="test") as leader:
        leader.lead(timeout=10)
        (done,) = leader.settle(5)

    assert done.outcome is ReconcileOutcome.LEFT_ALONE
    assert len(left(job)) == RUNS
