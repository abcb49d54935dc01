"""A supervisor finds that storage lacks what the run is made of: it says what, counts no attempt, and the run goes on.

Supervisor, ZooKeeper and storage are real; Spark is the stand-in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.errors import HaError, ObjectMissingError, RecordCorruptError
from airflow_provider_ha.host.engines.local import LocalEngine
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState, OperationState
from airflow_provider_ha.jobs.operations.stop import cancel
from airflow_provider_ha.jobs.recovery.lost_runs import recover
from airflow_provider_ha.jobs.runs.submissions import SubmissionExit
from airflow_provider_ha.storage import keys
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import rebuild_helpers
from tests.support.clusters import submit_helpers as helpers


JOB = "flights"
Damage = Callable[[Path], None]


def removed(path: Path) -> None:
    path.unlink()


def damaged(path: Path) -> None:
    data = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(data[:-1] + b"?")


@pytest.fixture
def job(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobContext]:
    """A job that is submitted, and whose driver is still to be started."""
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    context = rebuild_helpers.job(config, coordinator, JOB)
    helpers.submit(context, helpers.script(tmp_path))
    yield context
    helpers.kill_all(context)


def blob(job: JobContext, what: str) -> Path:
    """Return the file of an object of the run."""
    graph = job.runs.get(1).run.graph
    sha256 = graph.sha256 if what == "job graph" else job.graph(graph).application.blob.sha256
    return job.config.work_path / keys.blob(sha256)


def supervise(job: JobContext) -> SubmissionExit:
    """Start the supervisor of the first attempt and wait for its report."""
    engine = job.engines.get("local")
    assert isinstance(engine, rebuild_helpers.NoEngine)
    LocalEngine(job.config).launch(engine.launched[0], None)
    return wait_until(lambda: job.runs.get(1).submissions[0].exit, timeout=20, what="the exit")


@pytest.mark.parametrize("what", ["job graph", "application"])
@pytest.mark.parametrize(("damage", "word"), [(removed, "missing"), (damaged, "damaged")])
def test_the_exit_says_what_is_missing_and_what_to_do_and_counts_as_no_attempt(
    job: JobContext, what: str, damage: Damage, word: str
) -> None:
    path = blob(job, what)
    damage(path)

    found = supervise(job)

    assert f"the {what} of run 1 is {word}" in found.reason
    assert path.name in found.reason
    assert "Put the object back" in found.reason
    assert f"spark-ha job cancel {JOB}" in found.reason
    assert (found.outage, found.unfit, found.refused, found.counts) == (True, False, "", False)


def test_the_run_goes_on_once_the_object_is_back(job: JobContext) -> None:
    path = blob(job, "job graph")
    data = path.read_bytes()
    removed(path)
    supervise(job)

    path.write_bytes(data)
    made = recover(replace(job, engines=Engines.only(LocalEngine(job.config))), by="test")

    assert made.attempt == 2
    assert job.runs.get(1).result is None


@pytest.mark.parametrize(("damage", "error"), [(removed, ObjectMissingError), (damaged, RecordCorruptError)])
def test_a_recovery_without_the_graph_says_what_to_do_and_changes_nothing(
    job: JobContext, damage: Damage, error: type[HaError]
) -> None:
    damage(blob(job, "job graph"))
    supervise(job)

    with pytest.raises(error, match="the job graph of run 1 is") as caught:
        recover(job, by="test", wait=False)

    assert "Put the object back" in caught.value.next_step
    assert len(job.runs.get(1).submissions) == 1


def test_a_run_without_its_graph_can_be_canceled(job: JobContext) -> None:
    removed(blob(job, "job graph"))
    supervise(job)

    operation = cancel(job, operation_id="c1", requested_by="test")

    assert operation.state is OperationState.COMPLETED
    assert job.snapshot().state is JobState.CANCELED
