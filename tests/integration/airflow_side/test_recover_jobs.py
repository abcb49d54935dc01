"""The cluster's event trigger and the task that acts on it, against a real ZooKeeper."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_3_PLUS
from airflow_provider_ha.airflow_side.notifications import compose
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import Create, SetData
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.observations import Quarantine, quarantine_op
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.runs.watchers import ClusterLeaderInfo, read_cluster_leader
from airflow_provider_ha.operators.recover_jobs import SparkHaRecoverJobsOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger
from tests.support.airflow_exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred
from tests.support.clusters.airflow_helpers import context
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.jobs_helpers import MISTAKE, a_result
from tests.support.specs import changed


pytestmark = pytest.mark.usefixtures("airflow_connection", "engine_remembers")

NEVER = 600.0


def trigger(**kwargs: Any) -> SparkHaClusterTrigger:
    return SparkHaClusterTrigger(**({"grace": 0.2, "poll_interval": NEVER} | kwargs))


async def until(predicate: Any, what: str) -> None:
    await asyncio.to_thread(wait_until, predicate, timeout=20, what=what)


async def take(stream: Any, into: list[dict[str, Any]]) -> None:
    async for event in stream:
        into.append(event.payload)  # noqa: PERF401  # the list is read while it grows


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_the_task_of_a_job_whose_runs_fail_one_after_the_other_says_so_in_its_log(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    job = cluster.context("flights")
    for number in (1, 2):
        request = changed(cluster.request("flights"), request_id=f"dag-run-{number}")
        cluster.client.job("flights").submit(request)
        cluster.exit("flights", MISTAKE)
        cluster.coordinator.commit(job.runs.result_op(number, a_result(JobState.FAILED)))
    task = SparkHaSubmitOperator(task_id="task", job_id="flights", application=request.application)

    with pytest.raises(TaskDeferred):
        task.execute(context())

    said = capsys.readouterr().out
    assert "Job flights fails repeatedly: run 2, attempt 1: APPLICATION KeyError" in said
    assert "2 attempts in a row have failed" in said


def test_a_job_that_loses_its_leader_and_gets_another_one_is_told(cluster: Cluster, opened: list[Any]) -> None:
    """The poll would come in ten minutes: what is told was noticed by a watch."""
    leadership = cluster.led("flights", cluster.coordinator)
    told: list[dict[str, Any]] = []

    async def watch() -> None:
        watching = asyncio.ensure_future(take(trigger().run(), told))
        await until(lambda: opened, "a session")
        await asyncio.sleep(1)  # the baseline: this leader is nothing new
        await asyncio.to_thread(leadership.release)
        await until(lambda: told, "the loss")
        await asyncio.to_thread(cluster.led, "flights", cluster.coordinator)
        await until(lambda: len(told) == 3, "the grant, which is a recovery")
        await stop(watching)

    asyncio.run(watch())

    lost, granted, recovered = told
    assert (lost["event"], lost["job_id"], lost["run"], lost["attempt"], lost["epoch"]) == (
        "no_leader",
        "flights",
        1,
        1,
        1,
    )
    assert (granted["event"], granted["epoch"], granted["host"]) == ("leadership_granted", 2, "host")
    assert (recovered["event"], recovered["epoch"], recovered["took"] > 0) == ("recovered", 2, True)
    assert lost["lasted"] >= 0.2
    assert json.loads(json.dumps(told)) == told
    assert read_cluster_leader(cluster.coordinator, cluster.client.paths) is None, "it never holds the lock"


def test_a_leader_of_the_cluster_that_inspects_no_job_for_five_minutes_is_told_to_each_watcher(
    cluster: Cluster, opened: list[Any]
) -> None:
    cluster.led("flights", cluster.coordinator)
    at, lock = SystemClock().now(), cluster.client.paths.lock
    leads = ClusterLeaderInfo(epoch=7, host="host-a", pid=9, address="recoverer@host-a", since=at - timedelta(hours=1))
    cluster.coordinator.ensure(lock.leader.rpartition("/")[0])
    cluster.coordinator.commit(Create(lock.leader, leads.to_bytes()))
    told: list[dict[str, Any]] = []

    async def watch() -> None:
        watching = asyncio.ensure_future(take(trigger(poll_interval=0.2, job_ids=["another"]).run(), told))
        await until(lambda: told, "the hanging leader")
        inspected = leads.model_copy(update={"inspected_at": SystemClock().now()})
        cluster.coordinator.commit(SetData(lock.leader, inspected.to_bytes()))
        await asyncio.sleep(1)
        await stop(watching)

    asyncio.run(watch())

    [event] = told
    assert (event["event"], event["job_id"], event["epoch"], event["host"]) == ("not_inspected", "", 7, "host-a")
    assert "recoverer@host-a leads the cluster, and has inspected no job for 36" in event["reason"]
    assert compose(event).title == f"Spark HA cluster {cluster.config.cluster_id} has a leader that recovers no job"
    assert len(opened) == 1


def test_only_what_a_leader_of_the_cluster_would_act_on_is_told(cluster: Cluster, opened: list[Any]) -> None:
    cluster.lost("lost")
    cluster.ended("over", keep_pointer=True)
    earlier = cluster.ended("over-earlier", keep_pointer=True)  # its pointer as older releases wrote it
    pointer = earlier.snapshot().graph
    assert pointer is not None
    cluster.coordinator.commit(SetData(earlier.paths.job_graph, pointer.model_copy(update={"attempt": 0}).to_bytes()))
    cluster.lost("held")
    held = Quarantine(job_id="held", reason="garbage", by="test", cluster_epoch=1, at=SystemClock().now())
    cluster.coordinator.ensure(cluster.client.paths.quarantine)
    cluster.coordinator.commit(quarantine_op(cluster.client.paths, held))
    cluster.submitted("starting")
    cluster.led("running", cluster.coordinator)
    cluster.coordinator.commit(SetData(cluster.lost("broken").paths.job_graph, b"garbage"))
    told: list[dict[str, Any]] = []

    async def watch() -> None:
        watching = asyncio.ensure_future(take(trigger(poll_interval=0.2).run(), told))
        await until(lambda: len(told) >= 3, "three jobs")
        await asyncio.sleep(1)
        await stop(watching)

    asyncio.run(watch())

    assert {event["job_id"]: event["event"] for event in told} == {
        "broken": "no_leader",
        "held": "quarantined",
        "lost": "no_leader",
    }
    assert len(told) == 3
    assert len(opened) == 1


@pytest.mark.skipif(not AIRFLOW_V_3_3_PLUS, reason="Airflow shares streams from 3.3 on")
def test_watchers_of_one_cluster_share_one_stream_and_take_what_they_want(cluster: Cluster, opened: list[Any]) -> None:
    from airflow.triggers.shared_stream import SharedStreamManager

    cluster.lost("flights")
    cluster.lost("other")
    losses = trigger(poll_interval=0.2, emit=["no_leader"], job_ids=["flights"])
    grants = trigger(poll_interval=0.2, emit=["leadership_granted"])
    everything = trigger(poll_interval=0.2, emit=["no_leader", "leadership_granted", "recovered"])
    told: dict[str, list[dict[str, Any]]] = {"losses": [], "grants": [], "everything": []}

    async def watch() -> None:
        manager = SharedStreamManager()
        watching = []
        for number, (name, each) in enumerate([("losses", losses), ("grants", grants), ("everything", everything)]):
            shared = manager.subscribe(trigger_id=number, trigger=each, key=each.shared_stream_key())
            stream = each.filter_shared_stream(shared)
            watching.append(asyncio.ensure_future(take(stream, told[name])))
        await until(lambda: len(told["everything"]) == 2, "both losses")
        await until(lambda: told["losses"], "the one loss")
        await stop(*watching)

    asyncio.run(watch())

    assert losses.shared_stream_key() == grants.shared_stream_key() == everything.shared_stream_key()
    assert trigger(grace=7).shared_stream_key() != losses.shared_stream_key()
    assert [event["job_id"] for event in told["losses"]] == ["flights"]
    assert told["grants"] == []
    assert sorted(event["job_id"] for event in told["everything"]) == ["flights", "other"]
    assert len(opened) == 1


def test_watchers_that_share_no_stream_use_one_session(cluster: Cluster, opened: list[Any]) -> None:
    """Before Airflow 3.3 each watcher of an asset looks by itself."""
    cluster.lost("flights")
    cluster.lost("other")
    told: dict[str, list[dict[str, Any]]] = {"one": [], "all": []}

    async def watch() -> None:
        watching = [
            asyncio.ensure_future(take(trigger(poll_interval=0.2, job_ids=["flights"]).run(), told["one"])),
            asyncio.ensure_future(take(trigger(poll_interval=0.2).run(), told["all"])),
        ]
        await until(lambda: told["one"] and len(told["all"]) == 2, "what each wants")
        await stop(*watching)

    asyncio.run(watch())

    assert [event["job_id"] for event in told["one"]] == ["flights"]
    assert sorted(event["job_id"] for event in told["all"]) == ["flights", "other"]
    assert len(opened) == 1


def recover(**more: Any) -> Any:
    task = SparkHaRecoverJobsOperator(task_id="recover_jobs", leader_timeout=0.5)
    method = task.execute_complete if "waiting" in more else task.execute
    return method(context(), **more)


def test_one_task_does_for_every_job(cluster: Cluster) -> None:
    cluster.lost("first")
    cluster.lost("second")
    cluster.ended("over")
    cluster.led("running", cluster.coordinator)

    found = recover()

    assert found == {"recovered": ["first", "second"], "cleaned up": ["over"], "left alone": ["running"]}
    assert sorted(cluster.engine.launches()[-2:]) == [("first", 2), ("second", 2)]
    assert read_cluster_leader(cluster.coordinator, cluster.client.paths) is None, "the lock is given back"


def test_a_task_removes_blobs_that_nothing_names(cluster: Cluster) -> None:
    cluster.ended("over")
    store = cluster.client.store
    blob = put_blob(store, b"an old graph")
    file = cluster.client.config.work_path / keys.blob(blob.sha256)
    two_days_ago = file.stat().st_mtime - timedelta(days=2).total_seconds()
    os.utime(file, (two_days_ago, two_days_ago))

    recover()

    assert store.info(keys.blob(blob.sha256)) is None


def test_a_task_is_skipped_when_another_process_recovers(cluster: Cluster) -> None:
    cluster.lost("flights")
    leader = ClusterLeader(cluster.client, by="test", address="another Airflow")
    leader.lead(timeout=5)

    with pytest.raises(AirflowSkipException, match="is led by another Airflow"):
        recover()

    assert cluster.attempts("flights") == [1]
    leader.close()


def test_a_task_waits_for_another_leader_without_a_worker(cluster: Cluster) -> None:
    cluster.exited("flights")
    another = ClusterLeader(cluster.client, by="another", address="host-b")
    another.lead(timeout=5)
    task = SparkHaRecoverJobsOperator(task_id="recover_jobs", leader_timeout=6.0)

    with pytest.raises(TaskDeferred) as deferred:
        task.execute(context())
    another.close()
    done = task.execute_complete(context(), **(deferred.value.kwargs or {}))

    assert deferred.value.kwargs == {"waiting": {}, "waited": 6.0}
    assert done == {"recovered": ["flights"]}


def test_a_job_whose_restart_is_delayed_is_waited_for_without_the_lock(cluster: Cluster) -> None:
    cluster.lost("eager")
    cluster.lost("patient", restart_delay=7.0)

    with pytest.raises(TaskDeferred) as deferred:
        recover()

    kwargs = json.loads(json.dumps(deferred.value.kwargs))
    assert cluster.attempts("eager") == [1, 2]
    assert cluster.attempts("patient") == [1]
    assert read_cluster_leader(cluster.coordinator, cluster.client.paths) is None
    assert set(kwargs["waiting"]) == {"patient"}
    with pytest.raises(TaskDeferred):  # the one that was recovered is on its way
        recover(**kwargs)
    assert cluster.attempts("patient") == [1, 2]


def test_a_task_fails_for_a_job_that_needs_a_person_and_recovers_the_others(cluster: Cluster) -> None:
    cluster.exited("used-up", restart_attempts=0)
    cluster.lost("sound")
    cluster.coordinator.commit(SetData(cluster.lost("broken").paths.job_graph, b"garbage"))

    with pytest.raises(AirflowFailException, match="broken was put into quarantine") as failed:
        recover()

    assert "used-up was given up" in str(failed.value)
    assert cluster.attempts("sound") == [1, 2]


def test_a_job_that_is_named_is_recovered_alone_at_once_and_once(cluster: Cluster) -> None:
    cluster.lost("flights", restart_delay=600.0)
    cluster.lost("other")
    leader = ClusterLeader(cluster.client, by="test", address="another Airflow")
    leader.lead(timeout=5)
    task = SparkHaRecoverJobsOperator(task_id="recover_jobs", job_id="flights")

    first, second = task.execute(context()), task.execute(context())

    leader.close()
    assert (first, second) == ({"recovered": ["flights"]}, {"on its way": ["flights"]})
    assert (cluster.attempts("flights"), cluster.attempts("other")) == ([1, 2], [1])


def test_a_job_that_is_named_and_led_is_left_alone(cluster: Cluster) -> None:
    leadership = cluster.led("flights", cluster.coordinator)

    found = SparkHaRecoverJobsOperator(task_id="recover_jobs", job_id="flights").execute(context())

    leadership.release()
    assert found == {"left alone": ["flights"]}
    assert cluster.attempts("flights") == [1]


def test_a_job_that_is_named_and_in_quarantine_fails_the_task(cluster: Cluster) -> None:
    cluster.lost("flights")
    held = Quarantine(job_id="flights", reason="garbage", by="test", cluster_epoch=1, at=SystemClock().now())
    cluster.coordinator.ensure(cluster.client.paths.quarantine)
    cluster.coordinator.commit(quarantine_op(cluster.client.paths, held))

    with pytest.raises(AirflowFailException, match=r"is in quarantine: garbage.*spark-ha job release flights"):
        SparkHaRecoverJobsOperator(task_id="recover_jobs", job_id="flights").execute(context())

    assert cluster.attempts("flights") == [1]


@pytest.mark.parametrize("nothing", ["", "None", None])
def test_a_template_that_renders_to_nothing_names_every_job(cluster: Cluster, nothing: str | None) -> None:
    cluster.lost("first")
    cluster.lost("second")

    found = SparkHaRecoverJobsOperator(task_id="recover_jobs", job_id=nothing).execute(context())

    assert found == {"recovered": ["first", "second"]}


def test_a_task_is_tried_again_when_a_job_could_not_be_looked_at(cluster: Cluster) -> None:
    cluster.lost("flights")
    root = Path(cluster.client.store.uri.removeprefix("file://"))
    away = root.with_name("away")
    root.rename(away)
    root.write_text("no directory")

    with pytest.raises(AirflowException, match="These jobs have an unknown state: flights") as failed:
        recover()

    root.unlink()
    away.rename(root)
    assert not isinstance(failed.value, AirflowFailException)
