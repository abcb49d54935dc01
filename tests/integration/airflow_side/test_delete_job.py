"""``SparkHaDeleteJobOperator`` on a real cluster: what goes, is refused and is waited for, and what a retry finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import Delete, SetData
from airflow_provider_ha.coordination.reader_leases import hold
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.removal import job_deletion
from airflow_provider_ha.operators.delete_job import SparkHaDeleteJobOperator
from tests.integration.airflow_side.task_runner import deferral, resume_task
from tests.support.airflow_exceptions import AirflowException, AirflowFailException
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.airflow_helpers import context
from tests.support.clusters.jobs_helpers import lead
from tests.support.clusters.whole_jobs import SAVEPOINT, files_of, whole_job


pytestmark = [pytest.mark.usefixtures("airflow_connection"), pytest.mark.timeout(300)]
WHOLE = {
    "job_id": "copy",
    "state": "deleted",
    "runs": 1,
    "checkpoints": 2,
    "savepoints": [SAVEPOINT],
    "keep_savepoints": False,
    "waiting": [],
}


def deleting(**kwargs: Any) -> SparkHaDeleteJobOperator:
    return SparkHaDeleteJobOperator(**{"task_id": "task", "job_id": "copy", **kwargs})


def contents(job: JobContext) -> tuple[Any, ...]:
    return job.coordinator.children(job.paths.base), files_of(job), job.snapshot()


def test_a_job_is_deleted_and_a_retry_finds_that(over: JobContext) -> None:
    first = deleting().execute(context())
    again = deleting().execute(context(ti_id="try-2"))

    assert first == WHOLE
    assert again["state"] == "deleted"
    assert files_of(over) == []


def test_savepoints_stay_when_a_template_says_so(over: JobContext) -> None:
    done = deleting(keep_savepoints="True").execute(context())

    assert done == WHOLE | {"keep_savepoints": True}
    assert over.coordinator.children(over.paths.savepoints) == [SAVEPOINT]


def test_a_plan_only_lists_the_objects_to_delete(over: JobContext) -> None:
    before = contents(over)

    shown = deleting(plan_only="true").execute(context())

    assert shown == WHOLE | {"state": "planned"}
    assert contents(over) == before


def test_a_live_run_fails_the_task_for_good_and_stays(copy: JobContext, tmp_path: Path) -> None:
    live = whole_job(copy, helpers.script(tmp_path), over=False)
    before = contents(live)

    with pytest.raises(AirflowFailException, match="`spark-ha job stop copy`"):
        deleting(retries=3).execute(context())

    assert contents(live) == before


def test_the_job_of_another_dag_is_refused_unless_it_is_forced(over: JobContext) -> None:
    node = over.coordinator.get(over.paths.run(1))
    owned = over.runs.get(1).run.model_copy(update={"owner": "billing"})
    over.coordinator.commit(SetData(node.path, owned.to_bytes(), node.version))
    before = contents(over)

    with pytest.raises(AirflowFailException, match=r"a deletion of job 'copy' is refused.*'billing'.*force=True"):
        deleting().execute(context())

    assert contents(over) == before
    assert deleting(force="True").execute(context())["state"] == "deleted"


@contextmanager
def a_leader(job: JobContext, _: pytest.MonkeyPatch) -> Iterator[str]:
    """A driver whose run has its result, and that has not closed its session yet."""
    with lead(job.coordinator, job.paths, job.config) as leadership:
        yield f"led by epoch {leadership.epoch}"


@contextmanager
def a_reader(job: JobContext, _: pytest.MonkeyPatch) -> Iterator[str]:
    lease = hold(job.coordinator, job.paths, "checkpoint-2", holder="test", seconds=600, clock=SystemClock())
    yield "checkpoint-2"
    job.coordinator.commit(Delete(lease.path))


@contextmanager
def a_late_reader(job: JobContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """It comes between the last look at the leases and the transaction: the job is gone, and its files are read."""
    make_gone, leases = job_deletion._make_gone, list[Any]()

    def read_first(job: JobContext, *args: Any, **kwargs: Any) -> Any:
        if not leases:
            leases.append(hold(job.coordinator, job.paths, "checkpoint-2", holder="t", seconds=600, clock=job.clock))
        return make_gone(job, *args, **kwargs)

    monkeypatch.setattr(job_deletion, "_make_gone", read_first)
    yield "checkpoint-2"
    job.coordinator.commit(Delete(leases[0].path))


@pytest.mark.parametrize("user", [a_leader, a_reader, a_late_reader])
def test_what_ends_by_itself_is_waited_for_without_a_worker(
    user: Any, over: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = deleting()
    with user(over, monkeypatch):
        deferred = deferral(task, context())
        assert files_of(over)

    result, _ = resume_task(task, context(), deferred)

    assert result["state"] == "deleted"
    assert files_of(over) == []


@pytest.mark.parametrize(("retries", "kind"), [({}, AirflowFailException), ({"retries": 2}, AirflowException)])
def test_the_wait_ends_with_what_uses_the_job(
    retries: dict[str, int], kind: type[Exception], over: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = deleting(wait_timeout=timedelta(seconds=0.1), **retries)
    before = contents(over)

    with a_reader(over, monkeypatch) as what, pytest.raises(AirflowException, match=f"{what}.*Clear the task") as error:
        task.execute_complete(context(), waited=0.1)

    assert type(error.value) is kind
    assert contents(over)[1:] == before[1:]
