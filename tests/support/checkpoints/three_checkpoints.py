"""A job without a driver that has a live run and three good checkpoints: what tests of their deletion share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.reader_leases import ReaderLease, hold
from airflow_provider_ha.driver.checkpointing.savepoint_job import DisposalJob, SavepointJob
from airflow_provider_ha.driver.operations_loop import OperationHandlers, OperationsLoop
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.jobs.model import OperationState, StartKind, StartPoint
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.runs.run_store import RunStore
from tests.conformance.stores.stage import job_of
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.clusters.jobs_helpers import a_result, a_run, lead, submit
from tests.support.spark.recorded_job import QUERY, recorded_job


RECORDED_BATCH = 9


def three_checkpoints(config: HaConfig, coordinator: Coordinator) -> Job:
    """Return the job, which no process leads."""
    with led_job(config, coordinator) as led:
        submit(coordinator, led.paths)
        for number in (1, 2, 3):
            pin(recorded_job() / "live", led.pin_path(number), {QUERY: RECORDED_BATCH})
            led.checkpoints.add(led.leadership, led.checkpoint(number, RECORDED_BATCH))
    return led


@contextmanager
def leading(job: Job) -> Iterator[Job]:
    """The next process that leads the job."""
    with lead(job.coordinator, job.paths, job.config) as leadership:
        leadership.start_heartbeats(lambda reason: None)
        yield job_of(job.config, job.coordinator, leadership)


def ignore(*_: object) -> None:
    """Do nothing."""


@contextmanager
def driver(job: Job, *, older: bool = False) -> Iterator[None]:
    """A driver that answers operations, as this release does or as one before it."""
    nothing: Any = None
    with leading(job) as led:
        savepoint = SavepointJob(led.savepoints, led.leadership, nothing, nothing, nothing, nothing).dispose
        dispose = savepoint if older else DisposalJob(led.checkpoints, led.leadership, savepoint).dispose
        lifecycle = Lifecycle()
        OperationsLoop(
            coordinator=led.coordinator,
            paths=led.paths,
            leadership=led.leadership,
            lifecycle=lifecycle,
            handlers=OperationHandlers(
                bool, lambda _: {}, dispose, ignore, ignore, ignore, lambda _: {}, ignore, ignore, bool
            ),
            run=1,
            clock=SystemClock(),
            failed=ignore,
        ).start()
        yield
        lifecycle.leaving.set()


def damage(job: Job, number: int) -> None:
    """Cut a file of a checkpoint short, and of no other: they are links to one file."""
    file = next(path for path in sorted(job.pin_path(number).rglob(f"offsets/{RECORDED_BATCH}")))
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data[: len(data) // 2])


def reader(job: Job, number: int) -> ReaderLease:
    """Take a lease on a checkpoint."""
    what = f"checkpoint-{number}"
    return hold(job.coordinator, job.paths, what, holder="a drill", seconds=600, clock=SystemClock())


def answers(job: Job) -> list[OperationState]:
    """Return how the operations of the job were answered."""
    return [each.state for each in operations.list_operations(job.coordinator, job.paths)]


def begin_from(job: Job, number: int) -> None:
    """Make a second run that begins from a checkpoint, and has no driver yet."""
    runs = RunStore(job.coordinator, job.paths)
    start = StartPoint(kind=StartKind.CHECKPOINT, source_job="flights", source_id=str(number))
    run = a_run(2, request_id="request-2").model_copy(update={"start": start})
    job.coordinator.commit(runs.result_op(1, a_result()), runs.create_op(run))
