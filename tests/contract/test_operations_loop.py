"""What the driver makes of operations that nobody's client would have asked for, on the fake ensemble.

The node of an operation is there to be written by any process that may write for the job, by hand as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.driver.checkpointing.publisher import Provenance
from airflow_provider_ha.driver.checkpointing.savepoint_job import SavepointJob
from airflow_provider_ha.driver.operations_loop import OperationHandlers, OperationsLoop
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.testing.waiting import wait_until
from tests.conformance.stores.stage import job_of, savepoints
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint
from tests.support.clusters.jobs_helpers import submit
from tests.support.clusters.pointer_helpers import leading
from tests.support.fake import FakeEnsemble


BACKENDS = ("fake",)


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, ensemble: FakeEnsemble) -> Iterator[Job]:
    """A job with a run, that this process leads."""
    with leading(config, coordinator, clock=ensemble.clock) as leadership:
        led = job_of(config, coordinator, leadership)
        submit(coordinator, led.paths)
        yield led


@pytest.fixture
def died(job: Job, tmp_path: Path) -> Iterator[list[BaseException]]:
    """Have the operations of the job done; the errors that ended one of the loop's threads."""
    registry = QueryRegistry(SystemClock())
    directory = checkpoint(tmp_path / "live" / QUERY)
    registry.add(StartedQuery(QUERY, None, SinkSpec(SinkKind.OTHER, "noop"), LocalTree(directory)))
    registry.script_waits()
    maker = SavepointJob(
        job.savepoints,
        job.leadership,
        registry,
        Provenance(job.paths.job_id, 1, "g", "4.2.0"),
        LocalTree(directory.parent),
        job.savepoints.tree,
    )
    errors: list[BaseException] = []

    def unexpected(*_: object) -> None:
        raise AssertionError("it was not requested")

    loop = OperationsLoop(
        coordinator=job.coordinator,
        paths=job.paths,
        leadership=job.leadership,
        lifecycle=Lifecycle(),
        handlers=OperationHandlers(
            bool,
            maker.create,
            maker.dispose,
            unexpected,
            unexpected,
            unexpected,
            maker.create,
            unexpected,
            unexpected,
            bool,
        ),
        run=1,
        clock=SystemClock(),
        failed=errors.append,
    )
    loop.start()
    yield errors
    loop.lifecycle.leaving.set()


def answer(job: Job, operation_id: str, died: list[BaseException], **arguments: Any) -> Operation:
    """Ask for a savepoint, and wait until the driver has answered or a thread of it has died."""
    asked = {"schedule": "nightly", "label": "", "retain": None} | arguments
    operations.request(
        job.coordinator,
        job.paths,
        OperationKind.SAVEPOINT,
        operation_id=operation_id,
        arguments=asked,
        requested_by="somebody's hand",
        clock=SystemClock(),
    )

    def read() -> Operation | None:
        found = operations.read(job.coordinator, job.paths, operation_id)
        return found if found is not None and (died or found.state.final) else None

    found: Operation = wait_until(read, timeout=30, what=f"the answer to {operation_id}")
    return found


@pytest.mark.parametrize(
    "limits",
    [
        {"retain": "three"},
        {"retain": 2.5},
        {"retain": [3]},
        {"retain": True},
        {"retain": -1},
        {"retain_days": "a week"},
        {"retain_days": {"days": 7}},
        {"retain_days": -7},
        {"schedule": 7, "retain": 1},
    ],
    ids=["word", "fraction", "list", "truth", "below-none", "text", "object", "the-future", "nameless"],
)
def test_words_that_cannot_be_used_fail_their_operation_and_the_next_one_is_done(
    job: Job, died: list[BaseException], limits: dict[str, Any]
) -> None:
    failed = answer(job, "op-1", died, **limits)

    assert died == []
    assert failed.state is OperationState.FAILED
    assert str(next(iter(limits.values()))) in failed.error
    assert savepoints(job) == []  # refused before anything was made

    assert answer(job, "op-2", died, retain=1, retain_days=7).state is OperationState.COMPLETED
    assert savepoints(job) == ["op-2"]
