"""One cluster on a real ensemble, and the processes that fight for its jobs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.timings import Timings
from tests.support.ensemble.servers import EmbeddedEnsemble, Member
from tests.support.leadership.checker import check
from tests.support.leadership.history import read
from tests.support.leadership.job_processes import JobProcess, resubmit, submit_job


JOB = "flights"


class Stage:
    """The ensemble, one cluster on it, and the processes that fight for its jobs."""

    def __init__(self, ensemble: EmbeddedEnsemble, folder: Path, timings: Timings) -> None:
        self.ensemble = ensemble
        self.config = HaConfig.build(
            zookeeper=ensemble.hosts,
            storage_root=f"file://{folder}/storage",
            cluster_id=f"c-{new_id()[:12]}",
            timings=timings,
        )
        self.coordinator = KazooCoordinator.connect(self.config)
        self.histories = folder / "histories"
        self.histories.mkdir()
        self.processes: list[JobProcess] = []

    def paths(self, job_id: str = JOB) -> JobPaths:
        return ClusterPaths(self.config.root, self.config.cluster_id).job(job_id)

    def submit(self, job_id: str = JOB) -> None:
        submit_job(self.config, self.coordinator, self.paths(job_id))

    def start(
        self, actor: str, *, attempt: int, job_id: str = JOB, hosts: str | None = None, **options: Any
    ) -> JobProcess:
        """Start the driver of a submission; a later one than the first is made here, as a recovery would."""
        if attempt > 1:
            resubmit(self.coordinator, self.paths(job_id), attempt=attempt)
        config = self.config if hosts is None else self.config.model_copy(update={"zookeeper": hosts})
        process = JobProcess(config, self.histories, actor, job_id=job_id, attempt=attempt, **options)
        self.processes.append(process)
        return process

    def leading(self, actor: str, *, attempt: int, **options: Any) -> JobProcess:
        """Start a driver, and wait until it has written some checkpoints."""
        process = self.start(actor, attempt=attempt, **options)
        process.await_events("committed", 3)
        return process

    def epoch(self, job_id: str = JOB) -> int:
        return self.coordinator.get(self.paths(job_id).epoch).version

    def pointer(self, job_id: str = JOB) -> GraphPointer | None:
        return JobGraphStore(self.coordinator, open_store(self.config), self.paths(job_id)).pointer()

    def result(self, job_id: str = JOB) -> tuple[JobState, int] | None:
        found = RunStore(self.coordinator, self.paths(job_id)).result(1)
        return (found.state, found.epoch) if found else None

    def led(self, job_id: str = JOB) -> bool:
        return self.coordinator.find(self.paths(job_id).leader) is not None

    def newest(self, job_id: str = JOB) -> int:
        """Number of the newest checkpoint; it is complete, and has its digest."""
        keys, store = JobKeys(job_id), open_store(self.config)
        checkpoints = CheckpointStore(
            self.coordinator, store, self.paths(job_id), keys, LinkedWorkArea(self.config.work_path)
        )
        pointers = checkpoints.list().pointers
        return checkpoints.load(pointers[0]).number

    def assert_nothing_is_wrong(self) -> None:
        assert check(read(self.histories)) == []

    def close(self) -> None:
        self.ensemble.heal()
        for process in self.processes:
            process.kill()
        self.coordinator.close()


class Place:
    """One process' way to the ensemble: straight to one member, by a proxy to each of the others."""

    def __init__(self, stack: ExitStack, ensemble: EmbeddedEnsemble, member: Member) -> None:
        others = [other for other in ensemble.members if other is not member]
        self.member = member
        self.direct = stack.enter_context(FaultProxy(member.hosts))
        self.detours = [stack.enter_context(FaultProxy(other.hosts)) for other in others]
        self.hosts = ",".join(proxy.hosts for proxy in (self.direct, *self.detours))

    def only_direct(self) -> None:
        for proxy in self.detours:
            proxy.cut()

    def all_ways(self) -> None:
        for proxy in self.detours:
            proxy.heal()
