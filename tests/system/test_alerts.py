"""The shipped DAG ``alerts`` on a real Airflow: a driver is killed with its supervisor, as the loss of a host would.

A second job takes a checkpoint an hour, which is too old after a minute: the bound in the DAG is lowered. Its batch
hangs, its savepoint is damaged, and the storage of the first one fails. Mail goes out as the how-to says, by SMTP.
Airflow sends metrics to StatsD: the triggerer reports the job to it, which no task follows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.coordination.embedded import free_port
from airflow_provider_ha.jobs import metric_names
from airflow_provider_ha.jobs.metric_names import Metric
from airflow_provider_ha.jobs.model import Operation
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.verification.job_drill import DrillRequest, drill
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.airflow_stats import environment
from tests.support.mailbox import Mailbox, html_of, mail_server
from tests.support.receivers import LOOPBACK, Received, statsd
from tests.system.harness.servers import REPOSITORY
from tests.system.small_airflow import PATIENCE, CountedJob, SmallAirflow, lose_host, told


pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

JOB_ID = "alerted"
BEHIND = "behind"  # whose batches go on without a checkpoint
BOUNDS = "grace=30.0, recovers=False"
LOWERED = f"{BOUNDS}, max_checkpoint_age=60.0, checkpoint_grace=5.0, health_interval=5.0, drill_interval=5.0"
UNTOLD = "NOTIFIER: dict[str, Any] = {}"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Received]:
    with statsd() as received:
        yield received


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    with mail_server(free_port()) as received:
        yield received


def of_mail(mailbox: Mailbox) -> dict[str, str]:
    """Return the connection that the how-to's notifier uses."""
    extra = {"from_email": "airflow@example.com", "disable_ssl": True, "disable_tls": True}
    connection = {"conn_type": "smtp", "host": LOOPBACK, "port": mailbox.port, "extra": extra}
    return {"AIRFLOW_CONN_SMTP_DEFAULT": json.dumps(connection)}


@pytest.fixture(scope="module")
def airflow(receiver: Received, mailbox: Mailbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallAirflow]:
    """An Airflow with the DAG that we ship, for which a checkpoint of a minute is old; nothing in it recovers a job."""
    dags = tmp_path_factory.mktemp("dags")
    text = (REPOSITORY / "dags" / "alerts.py").read_text(encoding="utf-8")
    assert BOUNDS in text
    assert UNTOLD in text
    page = (REPOSITORY / "docs" / "how-to" / "alerts.md").read_text(encoding="utf-8")
    notifier = re.search(r"^NOTIFIER = \{.*?^\}$", page, re.MULTILINE | re.DOTALL)
    assert notifier is not None
    changed = text.replace(BOUNDS, LOWERED).replace(UNTOLD, notifier[0])
    (dags / "alerts.py").write_text(changed, encoding="utf-8")
    home = REPOSITORY / "build" / "test-airflow-alerts"
    servers = SmallAirflow(home, dags=dags, more={**environment("statsd", receiver), **of_mail(mailbox)})
    with servers.running("alerts"):
        yield servers


@pytest.fixture(scope="module")
def job(airflow: SmallAirflow, client: HaClient) -> Iterator[CountedJob]:
    """A job that no task follows, running."""
    with running(airflow, client, JOB_ID, "told.py", HaOptions(restart_in_place=False)) as counted:
        yield counted


@pytest.fixture(scope="module")
def behind(airflow: SmallAirflow, client: HaClient) -> Iterator[CountedJob]:
    """A job whose first checkpoint stays the newest one for an hour, while it commits a batch a second."""
    options = HaOptions(checkpoint_interval=3600.0, stall_timeout=20.0)
    with running(airflow, client, BEHIND, "held.py", options) as counted:
        yield counted


@contextmanager
def running(
    airflow: SmallAirflow, client: HaClient, job_id: str, script: str, options: HaOptions
) -> Iterator[CountedJob]:
    """Have a job that was submitted from outside of Airflow, running, for the time of the block."""
    client.job(job_id).submit(
        JobSpec(
            job_id=job_id,
            request_id="by-hand",
            application=str(REPOSITORY / "tests" / "apps" / "system" / script),
            arguments=[str(said_by(airflow, job_id))],
            conf={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.told.words": "none"},
            master="local[1]",
            driver_memory="512m",
            ha=options,
        )
    )
    counted = CountedJob.of(airflow, client.coordinator, job_id)
    counted.wait_until_running()
    yield counted
    client.job(job_id).request_cancel(operation_id="the-end", requested_by="test")
    wait_until(lambda: counted.result() and not counted.drivers(), timeout=PATIENCE, what="the job to be over")


def said_by(airflow: SmallAirflow, job_id: str) -> Path:
    """Return the file that the script of a job gets."""
    return airflow.home / f"{job_id}.json"


def await_mail(mailbox: Mailbox, text: str) -> str:
    """Wait for a mail with a text; return all of it."""
    found = wait_until(lambda: mailbox.with_text(text), timeout=PATIENCE, what=f"a mail that says {text!r}")
    return html_of(found[0])


def sent(receiver: Received, metric: Metric, *labels: str) -> list[float]:
    """Return the values of a metric of the job that have arrived, in their order."""
    return receiver.values(".".join((f"airflow.{metric.stats_name}.demo.{JOB_ID}", *labels)))


@pytest.mark.usefixtures("job")
def test_the_metrics_of_a_job_without_a_task_come_from_the_triggerer(receiver: Received) -> None:
    wait_until(lambda: 1.0 in sent(receiver, metric_names.JOB_STATE, "RUNNING"), timeout=PATIENCE, what="its state")

    assert sent(receiver, metric_names.JOB_STALLED)[-1] == 0.0


def test_a_driver_that_is_lost_with_its_host_is_told_and_so_is_its_recovery(
    airflow: SmallAirflow, client: HaClient, job: CountedJob
) -> None:
    assert told(airflow.api) == [], "nothing was lost yet"

    lose_host(job)
    wait_until(lambda: any("has no leader" in text for text in told(airflow.api)), timeout=PATIENCE, what="the alert")
    client.job(JOB_ID).recover(by="the person on call")
    job.wait_until_running(epoch=2)
    wait_until(lambda: any("is led again" in text for text in told(airflow.api)), timeout=PATIENCE, what="its end")

    lost = next(text for text in told(airflow.api) if "has no leader" in text)
    assert lost.startswith(f"Spark HA job {JOB_ID} has no leader\nWhy: run 1 has lost its driver, epoch 1")
    assert f"/spark-ha/jobs/{JOB_ID}" in lost
    assert "It had no leader for" in next(text for text in told(airflow.api) if "is led again" in text)


@pytest.mark.usefixtures("job")
def test_the_loss_was_mailed_as_the_how_to_says(mailbox: Mailbox) -> None:
    await_mail(mailbox, f"Spark HA job {JOB_ID} is led again")

    first, *_ = mailbox.with_text(f"Spark HA job {JOB_ID} has no leader")
    assert (first["to"], first["from"]) == ("oncall@example.com", "airflow@example.com")
    assert first["subject"] == f"Spark HA job {JOB_ID} has no leader"
    assert "Next step: Unpause the DAG recover_jobs, or run `spark-ha job recover " in html_of(first)


@pytest.mark.usefixtures("job")
def test_the_loss_and_its_end_are_in_the_metrics(receiver: Received) -> None:
    def alerts() -> list[float]:
        return sent(receiver, metric_names.JOB_ALERT, "no_leader")

    wait_until(lambda: alerts()[-1:] == [0.0], timeout=PATIENCE, what="the end of the alert")

    assert 1.0 in alerts()
    assert 1.0 in sent(receiver, metric_names.JOB_STATE, "LOST")


def test_a_checkpoint_that_gets_old_while_batches_are_committed_is_told(
    airflow: SmallAirflow, behind: CountedJob
) -> None:
    def old() -> list[str]:
        return [text for text in told(airflow.api) if text.startswith(f"Spark HA job {BEHIND} has an old checkpoint")]

    wait_until(old, timeout=PATIENCE, what="the alert")

    [message] = old()
    found = re.search(r"Why: checkpoint 1 is (\d+) s old, and batches were committed after it", message)
    assert found is not None, message
    assert int(found[1]) >= 60
    assert f"/spark-ha/jobs/{BEHIND}" in message
    assert (behind.snapshot().state.value, behind.counts().epoch) == ("RUNNING", 1), "it runs, so nothing else is wrong"


def test_a_batch_that_hangs_is_told(airflow: SmallAirflow, behind: CountedJob, mailbox: Mailbox) -> None:
    hold = said_by(airflow, BEHIND)
    hold.touch()
    try:
        message = await_mail(mailbox, f"Spark HA job {BEHIND} is stalled")
    finally:
        hold.unlink()

    assert "Why: query &#x27;ticks&#x27; has been in one trigger after batch " in message
    wait_until(lambda: behind.snapshot().state.value == "RUNNING", timeout=PATIENCE, what="the end of the stall")
    assert behind.counts().epoch == 1


def _final(operation: Operation | None) -> Operation | None:
    """Return an operation that is over."""
    return operation if operation is not None and operation.state.final else None


@pytest.mark.usefixtures("behind")
def test_a_drill_of_a_damaged_savepoint_is_told(client: HaClient, mailbox: Mailbox) -> None:
    job = client.job(BEHIND)
    asked = job.request_savepoint(operation_id=new_id(), requested_by="test")
    done = wait_until(lambda: _final(job.operation(asked.operation_id)), timeout=PATIENCE, what="the savepoint")
    savepoint = job.savepoints.directory(done.result["savepoint_id"])
    first = min((savepoint / "ticks" / "offsets").iterdir())
    first.write_text("v1\n{}\n{}")

    record = drill(job._job, DrillRequest(drill_id="weekly", requested_by="test"))

    message = await_mail(mailbox, f"Spark HA job {BEHIND} failed its restore drill")
    assert record.verdict.value == "FAILED"
    assert f"ticks/offsets/{first.name}" in message


def test_checkpoints_that_cannot_be_written_are_told(
    airflow: SmallAirflow, client: HaClient, job: CountedJob, mailbox: Mailbox
) -> None:
    payloads = Path(airflow.config.work_path) / client.job(JOB_ID)._job.keys.payloads
    away = payloads.with_name("away")
    payloads.rename(away)
    payloads.write_text("no directory: nothing can be written below it")
    try:
        message = await_mail(mailbox, f"Spark HA job {JOB_ID} takes no checkpoints")
    finally:
        with suppress(FileNotFoundError):
            payloads.unlink()
        away.rename(payloads)

    assert "could not be created: a file is in the way" in message
    before = job.snapshot().latest_checkpoint or 0
    wait_until(lambda: (job.snapshot().latest_checkpoint or 0) > before, timeout=PATIENCE, what="the next checkpoint")
    assert job.counts().epoch == 2
