"""A cut from ZooKeeper, and a loss while the script waits on its first query."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.model import CheckpointKind
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState, OperationState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.timings import Timings
from tests.support.clusters import submit_helpers
from tests.support.clusters.submit_helpers import alive
from tests.support.spark.driver_helpers import APPS, PATIENCE, Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]
DEFAULTS = Timings()


@pytest.fixture
def proxy(zookeeper: str) -> Iterator[FaultProxy]:
    """What lies between the driver and ZooKeeper."""
    with FaultProxy(zookeeper) as opened:
        yield opened


@pytest.fixture
def job(proxy: FaultProxy, tmp_path: Path) -> Iterator[SupervisedJob]:
    """A job with the default timings; its driver, its supervisor and this client see ZooKeeper through the proxy."""
    config = HaConfig.build(
        zookeeper=proxy.hosts,
        storage_root=f"file://{tmp_path}/storage",
        cluster_id=f"c-{new_id()[:12]}",
        timings=DEFAULTS,
    )
    with HaClient.open(config) as client:
        yield SupervisedJob(client, Stream(tmp_path), ("windows", "rows"))
        proxy.heal()
        for job_id in client.list_jobs():
            submit_helpers.kill_all(client.job(job_id)._job)


def terminate_and_compare(job: SupervisedJob, files: int) -> None:
    job.stop("terminate")
    result = job.await_result()
    assert result.state is JobState.FINISHED, result.reason
    assert job.stream.windows() == job.stream.expected_windows(files)
    assert job.stream.seen() == job.stream.expected_rows(files)


@pytest.mark.hours
def test_a_cut_of_85_percent_of_what_is_promised_stops_no_query(job: SupervisedJob, proxy: FaultProxy) -> None:
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)
    jvm = job.driver()[0].pid

    proxy.cut()
    job.stream.feed(1)
    threading.Event().wait(0.85 * DEFAULTS.tolerated_cut(hosts=1))
    proxy.heal()

    job.stream.feed(1)
    job.await_read(1)
    assert job.job.snapshot().epoch == 1
    assert alive(jvm), "the same driver goes on"
    terminate_and_compare(job, 4)


@pytest.mark.hours
def test_a_cancel_that_was_asked_for_during_a_cut_ends_the_run_and_no_other_driver_is_started(
    job: SupervisedJob, proxy: FaultProxy, zookeeper: str
) -> None:
    """The supervisor would restart the driver in place, which ended because of the cut."""
    job.options = HaOptions(checkpoint_interval=0, restart_delay=0)
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)
    driver, working = [process.pid for process in job.driver()], job.working(1)
    assert working is not None

    with HaClient.open(job.client.config.model_copy(update={"zookeeper": zookeeper})) as outside:
        seen = replace(job, client=outside)
        proxy.cut()
        cancel = seen.job.request_cancel(operation_id="cancel", requested_by="test").operation_id
        wait_until(lambda: not any(map(alive, driver)), timeout=PATIENCE, what="the driver to end by itself")
        job.stream.feed(1)
        proxy.heal()

        result = seen.await_result()
        run = seen.job.snapshot().run
        assert run is not None
        assert (result.state, len(run.submissions)) == (JobState.CANCELED, 1)
        assert seen.operation(cancel).state is OperationState.COMPLETED
        commits = [path.stat().st_mtime for path in working.glob("*/commits/[0-9]*")]
        assert max(commits) < result.at.timestamp()


Gated = Callable[..., SupervisedJob]
QUERIES = {"windows", "rows"}

# The second one writes with foreachBatch, or has a file sink.
ORDERS = pytest.mark.parametrize(
    "order",
    [("windows", "rows"), pytest.param(("rows", "windows"), marks=pytest.mark.hours)],
    ids=["foreachBatch", "files"],
)


def lost_while_waiting(job: SupervisedJob) -> int:
    """Run both queries, lose the driver, and recover it up to the wait; returns the batch that the second stands at."""
    job.stream.feed(3)
    job.submit_script(APPS / "warmup.py", [*job.stream.arguments, str(job.gates), ",".join(job.queries)])
    job.await_committed(1, 2)
    job.await_alive(lambda: bool(cuts(job)) and cuts(job)[0].keys() == QUERIES, "a checkpoint of both queries")
    job.close_gate("warm")
    job.kill()
    job.recover()
    return lead_on(job, 2)


def lead_on(job: SupervisedJob, epoch: int) -> int:
    """Have the first query commit more than as many batches as checkpoints are retained; returns as above."""
    first, second = job.queries
    job.await_alive(lambda: job.progress(epoch, second).committed >= 2, f"the directory of epoch {epoch}")
    stands = job.progress(epoch, second).committed
    for _ in range(4):
        newest = cuts(job)[0].get(first, -1)
        job.stream.feed(1)
        job.await_alive(partial(goes_beyond, job, first, newest), "a newer checkpoint")
    assert job.progress(epoch, second).committed == stands, "the second query was started"
    return stands


def goes_beyond(job: SupervisedJob, query: str, batch: int) -> bool:
    return cuts(job)[0].get(query, -1) > batch


def cuts(job: SupervisedJob) -> list[dict[str, int]]:
    """The cut of every retained checkpoint, newest first."""
    return [pointer.cut for pointer in job.job.checkpoints.list()]


def batches(job: SupervisedJob) -> dict[tuple[str, int], int]:
    """Row -> batch that wrote it into sqlite."""
    with sqlite3.connect(job.stream.database) as connection:
        return {(key, value): batch for key, value, batch in connection.execute("select key, value, batch from seen")}


@pytest.mark.hours
@ORDERS
def test_every_checkpoint_and_savepoint_during_the_wait_holds_both_queries(
    gated: Gated, order: tuple[str, str]
) -> None:
    job = gated(*order)
    stands = lost_while_waiting(job)

    asked = job.job.request_savepoint(operation_id=new_id(), requested_by="test").operation_id
    job.await_alive(lambda: job.operation(asked).state.final, "the savepoint")

    assert [cut[order[1]] for cut in cuts(job)] == [stands] * 3
    answer = job.operation(asked)
    assert answer.state is OperationState.COMPLETED, answer.error
    assert job.job.savepoints.pointer(answer.result["savepoint_id"]).cut[order[1]] == stands
    status = job.job.snapshot().status
    assert status is not None
    assert status.not_started[order[1]].committed == stands
    assert f"has not started {order[1]!r}" in status.message


@ORDERS
def test_a_stop_during_the_wait_of_a_third_epoch_loses_and_repeats_no_row(gated: Gated, order: tuple[str, str]) -> None:
    job = gated(*order)
    first, second = order
    stands = lost_while_waiting(job)
    job.kill()
    job.recover()
    assert lead_on(job, 3) == stands
    written = batches(job)

    stop = job.stop("suspend")
    result = job.await_result()

    assert result.state is JobState.FINISHED, result.reason
    assert job.operation(stop).state is OperationState.COMPLETED
    newest = next(iter(job.job.checkpoints.list()))
    assert (newest.number, newest.reason) == (result.checkpoint, CheckpointKind.STOP)
    assert newest.cut == {first: job.progress(3, first).committed, second: stands}

    job.open_gate("warm")
    job.job.restore(RestoreRequest(job_id=job.job_id, request_id="again"))
    job.await_read(4)
    stop = job.stop("terminate")
    assert job.await_result().state is JobState.FINISHED
    assert job.operation(stop).state is OperationState.COMPLETED
    assert job.stream.windows() == job.stream.expected_windows(job.stream.files)
    assert job.stream.seen() == job.stream.expected_rows(job.stream.files)
    after = batches(job)
    assert {row: after[row] for row in written} == written
