"""Cluster with jobs in every state, without any Spark, for tests of ``spark-ha cluster tree`` and ``rebuild``.

Runs, submissions, results, checkpoints and savepoints are written by the package's own code through a real ZooKeeper,
into the work area of the cluster's configuration; only the driver's processes are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, CheckpointKind, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointRequest, SavepointStore
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.members.run_writer import JobWriter
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState, LeaderInfo, StartPoint
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.runs.submissions import DriverHandle
from airflow_provider_ha.jobs.submit.preparation import upload
from airflow_provider_ha.jobs.submit.run_submission import PreparedSubmission, submit_run
from airflow_provider_ha.storage.open_storage import open_store
from tests.engine_helpers import NothingToSee, handle
from tests.support.clusters.submit_helpers import script


AT = datetime(2026, 1, 1, tzinfo=timezone.utc)


class NoEngine(NothingToSee):
    """An engine whose drivers never come up, and of whose processes nothing is known."""

    name = "local"

    def __init__(self) -> None:
        self.launched: list[Ticket] = []

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        self.launched.append(ticket)
        return handle(host="gone")


def job(config: HaConfig, coordinator: Coordinator, job_id: str) -> JobContext:
    """Return the context of a job whose drivers never come up."""
    return JobContext(
        job_id=job_id,
        config=config,
        coordinator=coordinator,
        store=open_store(config),
        engines=Engines.only(NoEngine()),
        clock=SystemClock(),
        sleep=lambda seconds: None,
    )


def submit(context: JobContext, directory: Path, request_id: str = "dag.task.run") -> int:
    """Submit a script as a new run and return its number."""
    wanted = JobSpec(job_id=context.job_id, request_id=request_id, application=str(script(directory)))

    def prepare() -> PreparedSubmission:
        return PreparedSubmission(graph=context.graphs.write_graph(upload(context, wanted)), start=StartPoint())

    return submit_run(context, request_id, prepare).run


@dataclass
class Driver:
    """What a driver writes for its run, by the driver's own parts."""

    context: JobContext
    run: int
    leadership: Leadership
    checkpoints: CheckpointStore
    savepoints: SavepointStore
    writer: JobWriter
    key: str

    def checkpoint(self, batch: int) -> int:
        """Publish a checkpoint at *batch* and return its number."""
        number, area = self.checkpoints.next_number(), self.context.area
        pin = self.context.keys.pin(number, self.leadership.epoch) if isinstance(area, LinkedWorkArea) else None
        if pin is not None:
            area.create(pin)
        else:
            self.commit(batch)
        self.checkpoints.add(self.leadership, self.payload(number, batch, pin))
        return number

    def commit(self, batch: int) -> None:
        """Plan and commit *batch*, and the one before it, as Spark names them."""
        query = self.context.area.tree(self.key) / "counts"
        for log, entry in (("offsets", max(batch - 1, 0)), ("offsets", batch), ("commits", batch)):
            query.write(f"{log}/{entry}", b"v1")

    def payload(self, number: int, batch: int, pin: str | None) -> Checkpoint:
        """Return the payload of a checkpoint."""
        cut = QueryCut(
            batch=batch,
            sink=QuerySink(kind=SinkKind.FOREACH_BATCH),
            entries=(BatchEntry(batch=batch, offsets=f"entry {batch}"),),
        )
        return Checkpoint(
            job_id=self.context.job_id,
            number=number,
            run=self.run,
            epoch=self.leadership.epoch,
            reason=CheckpointKind.PERIODIC,
            created_at=AT,
            queries={"counts": cut},
            directory=self.key,
            pin=pin,
            graph=self.context.runs.get(self.run).run.graph.sha256,
            spark_version="4.2.0",
        )

    def savepoint(self, savepoint_id: str) -> None:
        """Make a savepoint of no query: a manifest and its pointer."""
        request = SavepointRequest(
            savepoint_id=savepoint_id,
            run=self.run,
            epoch=self.leadership.epoch,
            cut={},
            graph=self.context.runs.get(self.run).run.graph.sha256,
            spark_version="4.2.0",
            schedule="hourly",
            label="before the upgrade",
        )
        self.savepoints.create(self.leadership.commit, request, self.context.area.tree(self.key))

    def end(self, state: Any = JobState.FINISHED) -> None:
        """Write the run's result and give the lock back."""
        self.writer.end(state, reason="test", checkpoint=self.checkpoints.latest_number())
        self.leadership.release()


def drive(context: JobContext, run: int, unique: str = "0" * 12) -> Driver:
    """Take the lock as the driver of *run* and make a working directory current.

    :param unique: What tells its directory from another one of this epoch.
    """
    leadership = acquire(
        context.coordinator,
        context.paths,
        timings=context.config.timings,
        clock=context.clock,
        describe=lambda epoch: LeaderInfo(
            epoch=epoch, run=run, attempt=1, host="host", pid=1, since=context.clock.now()
        ).to_bytes(),
        timeout=10,
    )
    leadership.start_heartbeats(lambda reason: None)
    key, area = context.keys.working_directory(leadership.epoch, unique), context.area
    area.create(key)
    writer = JobWriter(
        coordinator=context.coordinator,
        paths=context.paths,
        graphs=context.graphs,
        journal=context.journal,
        leadership=leadership,
        registry=QueryRegistry(context.clock),
        run=run,
        clock=context.clock,
    )
    writer.begin(Origin(OriginKind.FRESH, key, area.tree(key)))
    return Driver(
        context,
        run,
        leadership,
        CheckpointStore(context.coordinator, context.store, context.paths, context.keys, area),
        SavepointStore(context.coordinator, context.paths, context.keys, area),
        writer,
        key,
    )
