"""What the ported cases stand on: a job led on the fake ensemble or on a real one, and looks at nodes and files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST, pointer_to, write_manifest
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.clock import Clock, SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.reader_leases import ReaderLease, hold
from airflow_provider_ha.jobs.runs.run_store import start_of_run
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.checkpoints.checkpoint_helpers import AT, Job
from tests.support.clusters.coordination_helpers import JOB, job_paths, lead
from tests.support.clusters.jobs_helpers import a_leader
from tests.support.clusters.pointer_helpers import Wall
from tests.support.fake import FakeCoordinator, FakeEnsemble


flink = pytest.mark.flink


@dataclass
class Stage:
    """A job on the fake ensemble, whose leaders come and go.

    :ivar wall: The clock of readers' leases; the ensemble's own clock is that of sessions.
    """

    config: HaConfig
    ensemble: FakeEnsemble = field(default_factory=lambda: FakeEnsemble(tick=0.2))
    wall: Wall = field(default_factory=Wall)

    def session(self, name: str) -> FakeCoordinator:
        return self.ensemble.connect(self.config, name=name)

    def leader(self, name: str) -> Job:
        """Let another process lead the job; the leader before must have lost its session."""
        session = self.session(name)
        session.ensure(*job_paths(self.config).skeleton)
        leadership = lead(
            self.config,
            session,
            clock=self.ensemble.clock,
            describe=lambda epoch: a_leader(epoch).to_bytes(),
            timeout=0,
        )
        return job_of(self.config, session, leadership, clock=self.wall)

    def depose(self, job: Job) -> None:
        """End the session of a leader that lives on, and that has another session at once."""
        assert isinstance(job.coordinator, FakeCoordinator)
        self.ensemble.expire(job.coordinator)
        self.ensemble.advance(0.2)
        assert job.coordinator.session is not None


def job_of(config: HaConfig, session: Coordinator, leadership: Leadership, *, clock: Clock | None = None) -> Job:
    """Return the job with stores of this session's own."""
    paths, keys, objects = job_paths(config), JobKeys(JOB), open_store(config)
    return Job(
        config,
        session,
        leadership,
        objects,
        paths,
        keys,
        CheckpointStore(session, objects, paths, keys, LinkedWorkArea(config.work_path), clock=clock),
        SavepointStore(
            session,
            paths,
            keys,
            LinkedWorkArea(config.work_path),
            clock=clock,
            start=partial(start_of_run, session, paths),
        ),
    )


@contextmanager
def reading(job: Job, session: Coordinator, number: int, *, clock: Clock | None = None) -> Iterator[ReaderLease]:
    """Hold a lease on a checkpoint in a session of the reader's own."""
    clock = clock or SystemClock()
    held = hold(session, job.paths, f"checkpoint-{number}", holder="a restore", seconds=60, clock=clock)
    yield held
    held.release()


def nodes(coordinator: Coordinator, base: str) -> dict[str, bytes]:
    """Return every node below *base* with its data: what ZooKeeper holds, not what a process remembers."""
    found = {}
    for name in coordinator.children(base):
        path = f"{base}/{name}"
        node = coordinator.find(path)
        if node is not None:
            found[path] = node.data
        found |= nodes(coordinator, path)
    return found


def pointers(job: Job) -> list[int]:
    """Return the numbers of the checkpoints that have a node."""
    return [int(name) for name in job.coordinator.children(job.paths.checkpoints)]


def payloads(job: Job) -> list[int]:
    """Return the numbers of the checkpoints that have a payload in storage."""
    names = (info.key.removeprefix(job.keys.payloads) for info in job.objects.list(job.keys.payloads))
    return sorted(int(name.partition("-")[0]) for name in names)


def pins(job: Job) -> list[int]:
    """Return the numbers of the checkpoints that have a pin on the file system, half removed ones included."""
    parent = job.pin_path(0).parent
    names = (path.name.lstrip(".") for path in parent.iterdir()) if parent.is_dir() else ()
    return sorted(int(name.partition("-")[0]) for name in names)


def add_savepoint(
    job: Job, savepoint_id: str, batch: int, *, schedule: str | None = None, created_at: datetime = AT
) -> None:
    """Add a savepoint of the one query at *batch*, without any files but its manifest."""
    directory = job.savepoints.directory(savepoint_id)
    directory.mkdir(parents=True)
    made = Savepoint(
        savepoint_id=savepoint_id,
        job_id=JOB,
        run=1,
        epoch=job.leadership.epoch,
        created_at=created_at,
        schedule=schedule,
        queries=job.checkpoint(1, batch).queries,
        files={},
        graph="g",
        spark_version="4.2.0",
    )
    write_manifest(directory, made)
    pointer = pointer_to(job.keys.savepoint(savepoint_id), made, made.to_bytes())
    job.leadership.commit(Create(job.paths.savepoint(savepoint_id), pointer.to_bytes()))


def savepoints(job: Job) -> list[str]:
    """Return the savepoints that have a node and, on the file system, a manifest."""
    names = job.coordinator.children(job.paths.savepoints)
    return [name for name in names if (job.savepoints.directory(name) / MANIFEST).is_file()]
