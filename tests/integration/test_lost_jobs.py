"""Lost jobs: recovered by a new request, replaced, or stopped by a command. Real ZooKeeper."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete
from airflow_provider_ha.errors import CheckpointMissingError, JobStateError
from airflow_provider_ha.jobs import observe
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState, StartKind
from airflow_provider_ha.jobs.operations import operations, stop
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.recovery.lost_runs import end_lost, lost_run, result_of
from airflow_provider_ha.jobs.recovery.transactions import take_lock
from airflow_provider_ha.jobs.runs.watchers import followed
from airflow_provider_ha.jobs.submit import run_submission
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.cluster_helpers import Cluster, lead_newest
from tests.support.clusters.lost_jobs import NUMBER, again, lose, other_graph
from tests.support.specs import changed


pytestmark = pytest.mark.timeout(300)


def everything(job: JobContext) -> list[str]:
    """Return every node of the job and every file of its cluster's storage."""
    nodes, waiting = [], [job.paths.base]
    while waiting:
        path = waiting.pop()
        nodes.append(path)
        waiting += [f"{path}/{name}" for name in job.coordinator.children(path)]
    return sorted(nodes) + sorted(map(str, job.config.work_path.rglob("*")))


# A new request of the same graph


def test_the_same_graph_recovers_the_lost_run_and_follows_it(cluster: Cluster) -> None:
    job = lose(cluster)

    submitted = cluster.client.job("flights").submit(again(cluster))

    assert (submitted.run, submitted.attempt, submitted.created) == (1, 2, False)
    assert job.runs.numbers() == [1]
    assert cluster.attempts("flights") == [1, 2]
    assert followed(job.coordinator, job.paths, "request-2") == 1


def test_a_retry_finds_the_run_again_that_its_request_follows(cluster: Cluster) -> None:
    job = lose(cluster)
    client = cluster.client.job("flights")
    client.submit(again(cluster))

    with cluster.led("flights", job.coordinator):
        retried = client.submit(again(cluster))

    assert (retried.run, retried.attempt, retried.created) == (1, 2, False)
    assert cluster.attempts("flights") == [1, 2]


def test_a_retry_after_a_crash_before_the_recovery_recovers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    job = lose(cluster)
    with monkeypatch.context() as crash:
        crash.setattr("airflow_provider_ha.jobs.submit.run_submission.recover", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cluster.client.job("flights").submit(again(cluster))

    submitted = cluster.client.job("flights").submit(other_graph(cluster))

    assert followed(job.coordinator, job.paths, "request-2") == 1
    assert (submitted.run, submitted.attempt) == (1, 2), "what a request follows does not change with the DAG file"


def test_a_request_whose_followed_run_failed_makes_a_run_of_its_own(cluster: Cluster) -> None:
    job = lose(cluster)
    client = cluster.client.job("flights")
    client.submit(again(cluster))
    client.fail("the test says so", by="test")

    repeated = client.submit(again(cluster))
    found = client.submit(again(cluster))

    assert (repeated.run, repeated.created) == (2, True)
    assert (found.run, found.created) == (2, False)
    assert job.runs.get(2).run.request_id == "request-2"


def test_a_lost_run_without_attempts_left_fails_and_the_request_makes_the_next_one(cluster: Cluster) -> None:
    job = lose(cluster, checkpoint=False, worked=False)
    spent = again(cluster, ha=HaOptions(restart_delay=0.0, restart_attempts=0))
    cluster.client.job("flights").submit(changed(spent, if_lost=LostRunPolicy.RESTART))
    cluster.exit("flights")

    submitted = cluster.client.job("flights").submit(changed(spent, request_id="request-3"))

    result = job.runs.result(2)
    assert result is not None
    assert result.state is JobState.FAILED
    assert (submitted.run, submitted.created) == (3, True)


@pytest.mark.parametrize("start_from", ["fresh", "latest"])
def test_a_start_where_the_lost_run_has_begun_asks_for_the_same(cluster: Cluster, start_from: str) -> None:
    lose(cluster)

    submitted = cluster.client.job("flights").submit(again(cluster, start_from=start_from))

    assert (submitted.run, submitted.attempt) == (1, 2)


def test_another_start_is_not_the_same_and_says_so(cluster: Cluster) -> None:
    lose(cluster)

    with pytest.raises(JobStateError, match="differs from it in start_from") as caught:
        cluster.client.job("flights").submit(again(cluster, start_from="checkpoint-1"))

    assert "starts a new run of this from 'checkpoint-1'" in caught.value.next_step


def test_two_requests_that_recover_one_lost_run_at_one_time_start_one_driver(
    cluster: Cluster, another: Callable[[], HaClient]
) -> None:
    job = lose(cluster)
    asking = {f"request-{number}": another() for number in (2, 3, 4)}
    ready = threading.Barrier(len(asking))
    request = again(cluster)

    def ask(request_id: str) -> str:
        ready.wait()
        try:
            found = asking[request_id].job("flights").submit(changed(request, request_id=request_id))
        except JobStateError as error:  # it came when the others had recovered the run
            return error.message[:55]
        assert (found.run, found.attempt) == (1, 2)
        assert followed(job.coordinator, job.paths, request_id) == 1
        return "follows"

    with ThreadPoolExecutor(len(asking)) as pool:
        outcomes = list(pool.map(ask, asking))

    assert "follows" in outcomes
    assert set(outcomes) <= {"follows", "job 'flights' already has a live run, number 1; it has no leader"[:55]}
    assert [launch for launch in cluster.engine.launches() if launch[1] == 2] == [("flights", 2)]
    assert cluster.attempts("flights") == [1, 2]


# Another graph


def test_another_graph_is_refused_with_both_choices_and_changes_nothing(cluster: Cluster) -> None:
    job = lose(cluster)
    request = other_graph(cluster, env={"TOKEN": "a-secret"})
    before = everything(job)

    with pytest.raises(JobStateError, match=r"differs from it in arguments, env\.TOKEN") as caught:
        cluster.client.job("flights").submit(request)

    text = str(caught.value)
    for named in ('if_lost="recover"', 'if_lost="restart"', "from checkpoint 1", "spark-ha job recover flights"):
        assert named in text
    assert "spark-ha job stop flights" in text
    assert "SparkHaStopOperator" in text
    assert "a-secret" not in text
    assert everything(job) == before
    assert job.snapshot().state is JobState.LOST


def test_recover_goes_on_with_the_old_graph(cluster: Cluster) -> None:
    job = lose(cluster)

    submitted = cluster.client.job("flights").submit(other_graph(cluster, if_lost=LostRunPolicy.RECOVER))

    assert (submitted.run, submitted.attempt) == (1, 2)
    assert job.graph(job.runs.get(1).run.graph).arguments == ()


def test_restart_ends_the_lost_run_and_starts_the_new_graph_from_the_latest_checkpoint(cluster: Cluster) -> None:
    job = lose(cluster)

    submitted = cluster.client.job("flights").submit(other_graph(cluster, if_lost=LostRunPolicy.RESTART))

    old, new = job.runs.get(1), job.runs.get(2)
    assert (submitted.run, submitted.attempt, submitted.created) == (2, 1, True)
    assert old.result is not None
    assert (old.result.state, old.result.checkpoint, old.result.epoch) == (JobState.FINISHED, NUMBER, 2)
    assert "its driver was lost, and run 2 takes its place" in old.result.reason
    assert (new.run.start.kind, new.run.start.source_id) == (StartKind.CHECKPOINT, str(NUMBER))
    assert job.graph(new.run.graph).arguments == ("--other",)
    assert len(old.submissions) == 1
    pointer = job.graphs.pointer()
    assert pointer is not None
    assert (pointer.run, pointer.graph) == (2, new.run.graph)


def test_a_lost_run_stays_when_the_checkpoint_that_the_new_one_begins_from_is_removed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = lose(cluster)
    create_job = observe.create_job

    def removed_before(*args: Any) -> None:
        job.coordinator.commit(Delete(job.paths.checkpoint(NUMBER)))
        create_job(*args)

    monkeypatch.setattr(run_submission, "create_job", removed_before)

    with pytest.raises(CheckpointMissingError, match=f"checkpoint {NUMBER} of job 'flights' was removed before run 2"):
        cluster.client.job("flights").submit(other_graph(cluster, if_lost=LostRunPolicy.RESTART))

    assert job.runs.numbers() == [1]
    assert job.runs.result(1) is None


def test_restart_is_refused_while_the_lost_run_has_worked_and_has_no_checkpoint(cluster: Cluster) -> None:
    job = lose(cluster, checkpoint=False)
    request = other_graph(cluster, if_lost=LostRunPolicy.RESTART)
    before = everything(job)

    with pytest.raises(JobStateError, match="no checkpoint yet: a new one would repeat its committed batches") as told:
        cluster.client.job("flights").submit(request)

    assert 'start_from="fresh"' in told.value.next_step
    assert everything(job) == before


def test_restart_makes_no_run_when_a_driver_has_led_since_the_plan_was_made(
    cluster: Cluster, another: Callable[[], HaClient]
) -> None:
    job = lose(cluster)
    seen = lost_run(job.snapshot())
    assert seen is not None
    take_lock(another().context("flights"), 1).release()

    with pytest.raises(JobStateError, match="has been led again since"):
        end_lost(job, seen, result_of(job, seen, JobState.FINISHED, reason="test", by="test"), also=())

    assert job.runs.result(1) is None


def test_a_run_that_is_led_is_refused_with_the_commands_that_help(cluster: Cluster) -> None:
    job = cluster.submitted("flights")
    with lead_newest(cluster.config, cluster.coordinator, job), pytest.raises(JobStateError) as caught:
        cluster.client.job("flights").submit(other_graph(cluster, if_lost=LostRunPolicy.RESTART))

    assert "already has a live run, number 1; epoch 1 on host (pid 1) leads it" in caught.value.message
    for named in ("spark-ha job stop flights", "spark-ha job cancel flights", "SparkHaFollowOperator"):
        assert named in caught.value.next_step


# A restore


def test_a_restore_into_a_lost_job_is_refused_with_both_choices(cluster: Cluster) -> None:
    job = lose(cluster)

    with pytest.raises(JobStateError, match="has lost the driver of run 1, which a restore would leave") as caught:
        cluster.client.job("flights").restore(RestoreRequest(job_id="flights", request_id="r"))

    for named in ('if_lost="restart"', 'if_lost="recover"', "spark-ha job stop flights"):
        assert named in caught.value.next_step
    assert job.runs.numbers() == [1]


@pytest.mark.parametrize(("choice", "run"), [(LostRunPolicy.RESTART, 2), (LostRunPolicy.RECOVER, 1)])
def test_a_restore_may_end_the_lost_run_or_go_on_with_it(cluster: Cluster, choice: LostRunPolicy, run: int) -> None:
    job = lose(cluster)

    made = cluster.client.job("flights").restore(
        RestoreRequest(job_id="flights", request_id="r", start_from="checkpoint-1", if_lost=choice)
    )

    assert made.run == run
    assert (job.runs.result(1) is not None) == (choice is LostRunPolicy.RESTART)


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


@pytest.mark.parametrize("words", [("--dry-run",), ()], ids=["plan", "restore"])
def test_the_command_refuses_a_restore_and_its_plan_with_both_choices(
    spark_ha: Any, cluster: Cluster, words: tuple[str, ...]
) -> None:
    job = lose(cluster)

    code, _, said = spark_ha("job", "restore", *words, "flights")

    assert code == 1
    told = " ".join(said.split())
    assert '--if-lost="restart" ends it and restores, --if-lost="recover" continues it instead' in told
    assert "if_lost" not in said
    assert "spark-ha job stop flights" in said
    assert job.runs.numbers() == [1]


@pytest.mark.parametrize("choice", ["restart", "recover"])
def test_a_plan_with_a_choice_exits_0_and_ends_nothing(spark_ha: Any, cluster: Cluster, choice: str) -> None:
    job = lose(cluster)

    code, _, _ = spark_ha("job", "restore", "--dry-run", "flights", "--if-lost", choice)

    assert code == 0
    assert job.snapshot().state is JobState.LOST
