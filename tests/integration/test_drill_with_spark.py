"""The drill of a job with state: Spark loads it and starts the job's own application; a drill that is killed."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.submit.preparation import upload
from airflow_provider_ha.jobs.verification.job_drill import DrillRequest, drill
from airflow_provider_ha.jobs.verification.job_verification import PROOFS, ProofOptions
from airflow_provider_ha.jobs.verification.verification_records import DrillStore, DrillVerdict
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.clusters import submit_helpers as helpers
from tests.support.spark.recorded_job import QUERY, copy_live, recorded_job


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
BATCH = 9
ROOT = Path(__file__).resolve().parents[2]
KEYS, OPEN_WINDOWS = 3, 2  # after that batch
PARTITIONS = 2
OPTIONS = ProofOptions(heap="512m", deadline=600.0)


@contextmanager
def job_of(script: str, config: HaConfig, coordinator: Coordinator, tmp_path: Path, *more: str) -> Iterator[Job]:
    """Yield a job that runs a script of ``tests/apps``, with a savepoint of batch 9."""
    context = helpers.context(config, coordinator)
    application = JobSpec(
        job_id=context.job_id,
        request_id="made",
        application=str(ROOT / "tests" / "apps" / script),
        arguments=[str(recorded_job() / "input"), str(tmp_path / "out"), *more],
        conf={"spark.sql.session.timeZone": "UTC"},
    )
    graph = context.graphs.write_graph(upload(context, application))
    with led_job(config, coordinator) as led:
        request = dataclasses.replace(led.request("s1", BATCH), graph=graph.sha256)
        led.savepoints.create(led.leadership.commit, request, LocalTree(copy_live(tmp_path / "live")))
        yield led


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Iterator[Job]:
    """A job that runs ``tests/apps/stats.py``."""
    with job_of("stats.py", config, coordinator, tmp_path) as made:
        yield made


def ask() -> DrillRequest:
    return DrillRequest(drill_id="weekly", requested_by="test", options=OPTIONS)


@pytest.mark.hours
def test_spark_goes_on_from_the_savepoint_with_the_jobs_own_application_and_without_its_sink(
    job: Job, context: JobContext, tmp_path: Path
) -> None:
    told: list[str] = []

    done = drill(context, ask(), told.append)

    assert (done.verdict, done.reasons) == (DrillVerdict.PASSED, ())
    query = done.queries[QUERY]
    assert (query.batch, query.loaded, query.started) == (BATCH, "proven", "proven")
    assert query.state_rows == OPEN_WINDOWS * KEYS
    assert query.partitions == PARTITIONS
    assert list(done.seconds) == ["choose", "verify", "fetch", "copy", "spark", "load", "start"]
    assert list(dict.fromkeys(line.partition(":")[0] for line in told)) == list(done.seconds)
    assert f"load: query '{QUERY}', loading the state" in told
    assert min(done.seconds.values()) > 0
    assert done.total_seconds == pytest.approx(sum(done.seconds.values()), abs=0.01)
    assert not (tmp_path / "out").exists()
    assert list((job.config.work_path / PROOFS).iterdir()) == []
    assert context.runs.numbers() == []
    assert DrillStore(context.store, context.keys).list() == ([done], [])


@pytest.mark.hours
def test_a_drill_executes_nothing_of_the_jobs_script_behind_the_start_of_its_query(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    """Neither ``finally`` nor ``atexit``; and the script is told that it is a rehearsal."""
    trace = tmp_path / "trace"
    trace.mkdir()
    with job_of("held.py", config, coordinator, tmp_path, str(trace)) as led:
        done = drill(helpers.context(config, coordinator, job_id=led.paths.job_id), ask())

    assert (done.verdict, done.reasons) == (DrillVerdict.PASSED, ())
    assert list(trace.iterdir()) == []
    assert not (tmp_path / "out").exists()


@pytest.mark.hours
def test_a_drill_that_is_killed_leaves_no_process_and_the_next_one_collects_its_files(
    job: Job, context: JobContext, tmp_path: Path
) -> None:
    proofs = job.config.work_path / PROOFS
    spec = tmp_path / "config.json"
    spec.write_text(job.config.to_private_json())
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.spark.drill_process", str(spec)], cwd=ROOT, start_new_session=True
    )
    children: list[psutil.Process] = []

    def spark_is_up() -> bool:
        children[:] = psutil.Process(process.pid).children(recursive=True)
        return any(child.name() == "java" for child in children)

    wait_until(spark_is_up, timeout=600, what="Spark to be started by the drill")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not any(map(alive, children)), timeout=120, what="what it had started to be gone")
    (left,) = proofs.iterdir()
    os.utime(left, (1, 1))
    (job.savepoints.directory("s1") / QUERY / "metadata").unlink()  # the next drill need not ask Spark

    again = drill(context, ask())

    assert again.verdict is DrillVerdict.FAILED
    assert again.drill_id == "weekly", "the killed one has left no record"
    assert list(proofs.iterdir()) == []


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
