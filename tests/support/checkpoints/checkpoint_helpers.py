"""What tests of the checkpoint and savepoint stores share: a job with a leader, and checkpoints made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, CheckpointKind, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointRequest, SavepointStore
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.jobs.runs.run_store import start_of_run
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.clusters.coordination_helpers import JOB, job_paths, lead
from tests.support.clusters.jobs_helpers import a_leader
from tests.support.spark.recorded_job import QUERY


AT = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Job:
    """A job that this process leads."""

    config: HaConfig
    coordinator: Coordinator
    leadership: Leadership
    objects: ObjectStore
    paths: JobPaths
    keys: JobKeys
    checkpoints: CheckpointStore
    savepoints: SavepointStore

    def checkpoint(
        self,
        number: int,
        batch: int,
        *entries: int,
        pin: bool = True,
        sink: QuerySink = QuerySink(kind=SinkKind.FOREACH_BATCH),  # noqa: B008  # it is frozen
    ) -> Checkpoint:
        """Return checkpoint *number* at *batch* of the one query, with the record of batches *entries*."""
        cut = QueryCut(
            batch=batch,
            sink=sink,
            entries=tuple(BatchEntry(batch=entry, offsets=f"entry {entry}") for entry in entries),
        )
        return Checkpoint(
            job_id=JOB,
            number=number,
            run=1,
            epoch=self.leadership.epoch,
            reason=CheckpointKind.PERIODIC,
            created_at=AT,
            queries={QUERY: cut},
            directory=self.keys.working_directory(1, "x"),
            pin=self.keys.pin(number, self.leadership.epoch) if pin else None,
            graph="g",
            spark_version="4.2.0",
        )

    def pin_path(self, number: int) -> Path:
        """Return the directory of a checkpoint's pin."""
        return self.config.work_path / self.keys.pin(number, self.leadership.epoch)

    def add(self, number: int, batch: int, *entries: int) -> None:
        """Add a checkpoint with an empty pin."""
        self.pin_path(number).mkdir(parents=True)
        self.checkpoints.add(self.leadership, self.checkpoint(number, batch, *entries))

    def request(self, savepoint_id: str, batch: int, *, schedule: str | None = None) -> SavepointRequest:
        """Return a request for a savepoint of the one query."""
        return SavepointRequest(
            savepoint_id=savepoint_id,
            run=1,
            epoch=self.leadership.epoch,
            cut={QUERY: batch},
            graph="g",
            spark_version="4.2.0",
            schedule=schedule,
        )


@contextmanager
def led_job(config: HaConfig, coordinator: Coordinator) -> Iterator[Job]:
    """Yield a new job that this process leads."""
    paths, keys, objects = job_paths(config), JobKeys(JOB), open_store(config)
    coordinator.ensure(*paths.skeleton)
    with lead(config, coordinator, describe=lambda epoch: a_leader(epoch).to_bytes()) as leadership:
        leadership.start_heartbeats(lambda reason: None)
        yield Job(
            config,
            coordinator,
            leadership,
            objects,
            paths,
            keys,
            CheckpointStore(coordinator, objects, paths, keys, LinkedWorkArea(config.work_path)),
            SavepointStore(
                coordinator,
                paths,
                keys,
                LinkedWorkArea(config.work_path),
                start=partial(start_of_run, coordinator, paths),
            ),
        )


QUERY_ID = "0b5c4d2e-7f5b-4f3a-9a51-3c1f0d9c2b10"


def elsewhere(root: Path) -> AdoptedCheckpoint:
    """Make a directory as a plain query leaves it, with batches 0 to 2."""
    directory = root / "elsewhere"
    for log in ("offsets", "commits"):
        (directory / log).mkdir(parents=True)
        for batch in range(3):
            (directory / log / str(batch)).write_text("v1\n{}")
    (directory / "state" / "0" / "0").mkdir(parents=True)
    (directory / "state" / "0" / "0" / "1.delta").write_bytes(b"state")
    (directory / "metadata").write_text(f'{{"id":"{QUERY_ID}"}}')
    return AdoptedCheckpoint(path=str(directory), query_id=QUERY_ID, planned=2, committed=2)
