"""Drivers that neither work nor die: frozen ones are replaced, and a stop that hangs can be canceled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil
import pytest

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.jobs.model import JobState, OperationState
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.submit_helpers import alive
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]
Gated = Callable[..., SupervisedJob]
QUIET = 3  # batches 0 to 2 read the three files; the last one is empty, and emits what their watermark closed


def nodes(coordinator: Coordinator, path: str) -> Iterator[tuple[str, bytes, int]]:
    """Yield every node below *path* with its data and version, but for the heartbeat of who leads."""
    for name in coordinator.children(path):
        child = f"{path}/{name}"
        node = coordinator.find(child)
        if node is not None and name != "heartbeat":
            yield child, node.data, node.version
        yield from nodes(coordinator, child)


def test_driver_frozen_beyond_its_session_writes_nothing_when_it_wakes_up(
    gated: Gated, coordinator: Coordinator
) -> None:
    job = gated()
    paths = job.job._job.paths
    job.stream.feed(3)
    job.close_gate("plan")
    job.submit()
    job.await_held("plan")
    frozen = [job.supervisor(), *job.driver()]
    for process in frozen:
        process.suspend()
    try:
        job.await_lost()
        job.open_gate("plan")
        job.recover()
        job.await_committed(2, QUIET)
        wait_until(lambda: _quiet(job), timeout=PATIENCE, what="a checkpoint of the last batch")
        before = set(nodes(coordinator, paths.base))
    finally:
        for process in frozen:
            # The first that wakes may end the others.
            with suppress(psutil.NoSuchProcess):
                process.resume()
    wait_until(lambda: not any(alive(process.pid) for process in frozen), timeout=PATIENCE, what="the zombie's end")

    exited = paths.submission_exit(1, 1)
    assert {node for node in nodes(coordinator, paths.base) if node[0] != exited} == before
    reported = coordinator.find(exited)
    assert reported is not None
    assert re.search(rb"the lease ran out|session .* has ended", reported.data), reported.data
    assert len(list(job.live.glob("e1-*.dead"))) == 1
    job.stream.feed(1)
    job.await_committed(2, QUIET + 1)
    stop = job.stop("terminate")
    assert job.await_result().state is JobState.FINISHED
    assert job.operation(stop).state is OperationState.COMPLETED
    assert job.stream.windows() == job.stream.expected_windows(4)


def _quiet(job: SupervisedJob) -> bool:
    """Whether the newest checkpoint holds the last batch, and the status names it."""
    newest = next(iter(job.job.checkpoints.list()), None)
    status = job.job.snapshot().status
    return bool(newest and newest.cut == {"windows": QUIET} and status and status.checkpoint == newest.number)


def test_stop_that_hangs_in_a_batch_is_overtaken_by_a_cancel(gated: Gated) -> None:
    job = gated("rows")
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 0)
    job.close_gate("batch")
    job.stream.feed(1)
    job.await_held("batch")
    stop = job.stop("suspend")
    wait_until(
        lambda: (status := job.job.snapshot().status) and status.state is JobState.STOPPING,
        timeout=PATIENCE,
        what="STOPPING",
    )
    driver: list[psutil.Process] = job.driver()

    cancel = job.job.request_cancel(operation_id="cancel", requested_by="test").operation_id

    assert job.await_result().state is JobState.CANCELED
    assert job.operation(cancel).state is OperationState.COMPLETED
    overtaken = job.operation(stop)
    assert overtaken.state is OperationState.FAILED
    assert f"cancelled (checkpoint {job.job.snapshot().latest_checkpoint}) by operation 'cancel'" in overtaken.error
    assert not any(alive(process.pid) for process in driver)
