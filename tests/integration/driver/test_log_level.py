"""Spark's level under a real spark-submit: WARN, unless the user has chosen another one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark import driver_helpers
from tests.support.spark.driver_helpers import APPS, CONF, PATIENCE, ManagedJob, Stream


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
BATCH = "MicroBatchExecution"  # Spark says at INFO what each batch did
JOB = "DAGScheduler"  # and what each job did
OWN = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = own
appender.own.type = Console
appender.own.name = own
appender.own.target = SYSTEM_ERR
appender.own.layout.type = PatternLayout
appender.own.layout.pattern = OWN %p %c{1}: %m%n
"""


def log_of_a_job(job: ManagedJob, conf: dict[str, str]) -> str:
    """Return what a driver has logged whose script had a job of Spark, which is much less work than a query."""
    run = job.submit(APPS / "one_job.py", [], conf=conf)
    job.start(run).wait(PATIENCE)
    return job.log(run)


@pytest.fixture(autouse=True)
def no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """The conf of the tests' drivers chooses none."""
    monkeypatch.setattr(driver_helpers, "CONF", {key: CONF[key] for key in CONF if key != "spark.log.level"})


@pytest.mark.hours
@pytest.mark.long
def test_nothing_is_logged_of_a_batch_that_works(managed: ManagedJob, stream: Stream) -> None:
    stream.feed(2)
    run = managed.submit(APPS / "counts.py", [*stream.arguments, "0.1"])
    process = managed.start(run)
    wait_until(lambda: managed.newest_checkpoint(), timeout=PATIENCE, what="the first checkpoint")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)

    log = managed.log(run)

    assert f"INFO {BATCH}" not in log
    assert f"INFO {JOB}" not in log


@pytest.mark.long
@pytest.mark.hours
def test_a_level_in_the_jobs_conf_wins(managed: ManagedJob) -> None:
    log = log_of_a_job(managed, {"spark.log.level": "INFO"})

    assert f"INFO {JOB}" in log


@pytest.mark.long
@pytest.mark.hours
def test_an_own_log4j_configuration_wins(managed: ManagedJob, tmp_path: Path) -> None:
    (tmp_path / "log4j2.properties").write_text(OWN)
    options = f"{CONF['spark.driver.extraJavaOptions']} -Dlog4j2.configurationFile={tmp_path}/log4j2.properties"

    log = log_of_a_job(managed, {"spark.driver.extraJavaOptions": options})

    assert f"OWN INFO {JOB}" in log
