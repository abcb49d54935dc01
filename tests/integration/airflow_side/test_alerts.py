"""Events about the health of jobs, of a real ZooKeeper and a real storage, and the DAG that tells of them."""

from __future__ import annotations

import asyncio
import inspect
import json
from datetime import timedelta
from smtplib import SMTPDataError
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.coordination.embedded import free_port
from airflow_provider_ha.errors import JobError, StorageUnavailableError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState, Status
from airflow_provider_ha.jobs.runs.submissions import Failure
from airflow_provider_ha.jobs.verification.verification_records import DrillStore, DrillVerdict
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger
from airflow_provider_ha.triggers.job import SparkHaJobTrigger
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.trigger_helpers import drilled, told_by
from tests.support.mailbox import mail_server
from tests.support.receivers import LOOPBACK
from tests.support.shipped_dags import dag_of
from tests.support.specs import changed


pytestmark = pytest.mark.usefixtures("airflow_connection", "opened")
MAIL = {
    "to": "airflow.providers.smtp.notifications.smtp.SmtpNotifier",
    "arguments": {"to": "oncall@example.com", "subject": "{title}", "html_content": "{html}"},
}


def used_up(cluster: Cluster, job_id: str) -> None:
    cluster.exited(job_id, restart_attempts=0)
    with pytest.raises(JobError):
        cluster.client.job(job_id).recover(by="test")


def says(cluster: Cluster, job: JobContext, message: str = "", *, stalled: str = "") -> None:
    now = SystemClock().now()
    status = Status(state=JobState.RUNNING, run=1, epoch=1, message=message, stalled=stalled, at=now)
    cluster.coordinator.commit(Create(job.paths.status, status.to_bytes()))


def test_a_run_whose_restarts_are_used_up_is_told(cluster: Cluster) -> None:
    used_up(cluster, "flights")

    [event] = told_by(1, emit=["restart_budget_exhausted"])

    assert (event["job_id"], event["run"]) == ("flights", 1)
    assert "was lost 1 times" in event["reason"]


def test_a_run_that_failed_for_another_reason_is_told(cluster: Cluster) -> None:
    cluster.exited("flights", restart_attempts=5)
    cluster.client.job("flights").fail("its table is gone", by="test")

    [event] = told_by(1, emit=["run_failed", "restart_budget_exhausted"])

    assert (event["event"], event["job_id"], event["run"]) == ("run_failed", "flights", 1)
    assert "its table is gone" in event["reason"]


def test_a_run_that_failed_is_told_also_when_it_is_submitted_again_at_once(cluster: Cluster) -> None:
    used_up(cluster, "flights")
    cluster.client.job("flights").submit(changed(cluster.request("flights"), request_id="again"))

    [event] = told_by(1, emit=["restart_budget_exhausted"], health_interval=60.0)

    assert (event["job_id"], event["run"]) == ("flights", 1)
    assert event["reason"].endswith("; run 2 was submitted after it")


def test_checkpoints_that_fail_and_drills_that_fail_are_told(cluster: Cluster) -> None:
    cluster.led("flights", cluster.coordinator)
    job = cluster.context("flights")
    says(cluster, job, "no checkpoint: the disk is full")
    drilled(job)

    events = told_by(2, emit=["checkpoint_failing", "drill_failed"])

    assert {event["event"]: event["reason"] for event in events} == {
        "checkpoint_failing": "the disk is full",
        "drill_failed": "a file is gone",
    }


def test_a_job_that_hangs_is_told_with_what_its_leader_says(cluster: Cluster) -> None:
    cluster.led("flights", cluster.coordinator)
    says(cluster, cluster.context("flights"), stalled="query 'counts' has been in one trigger")

    [event] = told_by(1, emit=["stalled"])

    assert (event["job_id"], event["run"], event["epoch"]) == ("flights", 1, 1)
    assert event["reason"] == "query 'counts' has been in one trigger"


def test_a_job_that_fails_again_and_again_is_told_with_its_last_failure_while_it_starts(cluster: Cluster) -> None:
    mistake = Failure(error_class="SystemExit", message="2", query="counts", batches={"counts": 5})
    cluster.submitted("flights")
    for _ in range(2):
        cluster.exit("flights", mistake)
        cluster.client.job("flights").recover(by="test")

    [event] = told_by(1, emit=["failing"])
    [without_leader] = told_by(1, emit=["no_leader"], start_timeout=0.1)

    assert (event["job_id"], event["run"], event["attempt"]) == ("flights", 1, 2)
    told = "attempt 2: UNKNOWN SystemExit: 2 in query 'counts' after batch 5"
    assert event["reason"].startswith(told)
    assert event["reason"].endswith("; 2 attempts in a row have failed")
    assert without_leader["reason"] == f"attempt 3 of run 1 was submitted and has no leader yet; {told}"


def test_a_job_whose_supervisor_refuses_a_driver_is_told_with_the_refusal(cluster: Cluster) -> None:
    cluster.submitted("flights")
    cluster.refuse("flights", "/data is no mount")

    [event] = told_by(1, emit=["no_leader"], start_timeout=0.1)

    assert event["reason"] == "attempt 1 of run 1 has started no driver: /data is no mount"


def test_the_task_of_a_job_logs_the_refusal_of_its_supervisor_once(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.submitted("flights")
    cluster.refuse("flights", "/data is no mount")
    trigger = SparkHaJobTrigger(job_id="flights", run=1)

    events = [trigger.look(cluster.client), trigger.look(cluster.client)]

    assert events == [None, None]
    assert capsys.readouterr().out.count("Attempt 1 has started no driver: /data is no mount") == 1


@pytest.mark.parametrize("submitted_again", [False, True])
def test_a_job_that_its_restarts_do_not_bring_back_is_told_as_stalled(cluster: Cluster, submitted_again: bool) -> None:
    stall = Failure(error_class="STALLED", message="query 'counts' hangs", query="counts", batches={"counts": 5})
    cluster.submitted("flights", restart_stalled=True)
    cluster.exit("flights", stall)
    cluster.client.job("flights").recover(by="test")
    cluster.exit("flights", stall)
    if submitted_again:
        cluster.client.job("flights").recover(by="test")

    [event] = told_by(1, emit=["stalled"])

    assert (event["job_id"], event["run"]) == ("flights", 1)
    assert event["reason"].endswith("at the same batch; the last time: query 'counts' hangs")


def test_a_job_that_hung_when_it_lost_its_leader_is_told_as_lost_alone(cluster: Cluster) -> None:
    cluster.lost("flights")
    says(cluster, cluster.context("flights"), stalled="query 'counts' has been in one trigger")

    events = told_by(3, emit=["stalled", "no_leader"], repeat_after=0.5, remind_after=0.1)

    assert {event["event"] for event in events} == {"no_leader"}


def test_a_drill_beyond_its_bounds_is_told(cluster: Cluster) -> None:
    cluster.led("flights", cluster.coordinator)
    drilled(cluster.context("flights"), DrillVerdict.PASSED)
    emit = ["recovery_point_exceeded", "recovery_time_exceeded", "drill_failed"]

    events = told_by(2, emit=emit, max_recovery_point=3600.0, max_recovery_time=60.0)

    assert sorted(event["event"] for event in events) == ["recovery_point_exceeded", "recovery_time_exceeded"]


def test_storage_that_cannot_be_read_hides_no_lost_leader(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.lost("flights")

    def away(*_: Any) -> Any:
        raise StorageUnavailableError("the bucket does not answer")

    monkeypatch.setattr(DrillStore, "newest", away)

    assert told_by(1)[0]["event"] == "no_leader"


def test_a_watcher_of_leaders_alone_reads_nothing_else(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.lost("flights")
    used_up(cluster, "other")
    losses = SparkHaClusterTrigger(emit=["no_leader"])
    health = SparkHaClusterTrigger(emit=["no_leader", "checkpoint_old"])

    assert losses.shared_stream_key() == SparkHaClusterTrigger(emit=["leadership_granted"]).shared_stream_key()
    assert losses.shared_stream_key() != health.shared_stream_key()
    assert losses._health() is None


def test_the_stream_that_watchers_share_has_what_each_of_them_wants(cluster: Cluster) -> None:
    used_up(cluster, "flights")
    one = SparkHaClusterTrigger(emit=["checkpoint_failing"], poll_interval=0.1)

    async def first() -> Any:
        stream = SparkHaClusterTrigger.open_shared_stream(one.serialize()[1])
        event = await asyncio.wait_for(anext(stream), 30)
        await stream.aclose()  # type: ignore[attr-defined]  # a generator
        return event

    assert asyncio.run(first())["event"] == "restart_budget_exhausted"


@pytest.fixture
def telling(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The task of the DAG *alerts*, with an event of a trigger: a job has really lost its leader."""
    cluster.lost("flights")
    events = [SimpleNamespace(extra={"payload": each}, timestamp=None) for each in told_by(1, emit=["no_leader"])]
    dag = dag_of("alerts")
    task = dag.get_task("tell")
    context = {"triggering_asset_events": {"spark_ha_alerts": events}, "dag": dag}
    monkeypatch.setitem(inspect.unwrap(task.python_callable).__globals__, "get_current_context", lambda: context)
    return task


def test_the_dag_alerts_tells_of_what_started_it(telling: Any) -> None:
    [text] = telling.python_callable()

    assert text.startswith("Spark HA job flights has no leader\nWhy: run 1 has lost its driver, epoch 1")
    assert "spark-ha job show flights" in text


def test_a_message_that_is_refused_is_sent_by_the_next_try(telling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with mail_server(free_port()) as mailbox:
        extra = {"from_email": "airflow@example.com", "disable_ssl": True, "disable_tls": True}
        connection = {"conn_type": "smtp", "host": LOOPBACK, "port": mailbox.port, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
        monkeypatch.setitem(inspect.unwrap(telling.python_callable).__globals__, "NOTIFIER", MAIL)

        mailbox.refuses = True
        with pytest.raises(SMTPDataError, match="not now"):
            telling.python_callable()
        mailbox.refuses = False
        telling.python_callable()

    [mail] = mailbox.mails
    assert mail["subject"] == "Spark HA job flights has no leader"


def test_the_task_that_tells_tries_for_half_an_hour_and_no_try_hangs(telling: Any) -> None:
    """A recovery is told once: there is no other event that would bring a lost message."""
    assert telling.retries * telling.retry_delay >= timedelta(minutes=30)
    assert telling.retry_delay <= timedelta(minutes=1), "a person waits for it"
    assert telling.execution_timeout == timedelta(minutes=2)
