"""A job of a cluster: its nodes, its blobs, and the fence of the process that writes them."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Op
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.jobs.application.artifacts import fetch_graph
from airflow_provider_ha.jobs.cluster_roots import RootsOfCluster
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import Blob, JobGraph
from airflow_provider_ha.jobs.model import Run
from airflow_provider_ha.jobs.observe import read_status
from airflow_provider_ha.jobs.runs.journal import JobJournal
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecords:
    """A job of a cluster, and the stores that hold it. Owns nothing.

    :param cluster: Leadership of the cluster, for a process that acts as its leader: runs and submissions are created
        under its epoch, and fail after its loss.
    """

    job_id: str
    config: HaConfig
    coordinator: Coordinator
    store: ObjectStore
    clock: Clock
    cluster: Leadership | None = None

    @property
    def paths(self) -> JobPaths:
        """Nodes of the job in ZooKeeper."""
        return ClusterPaths(self.config.root, self.config.cluster_id).job(self.job_id)

    @property
    def roots(self) -> RootsOfCluster:
        """The roots of the cluster."""
        return RootsOfCluster(self.config, self.coordinator)

    @property
    def keys(self) -> JobKeys:
        """Keys of the job in storage."""
        return JobKeys(self.job_id)

    @property
    def runs(self) -> RunStore:
        """The job's runs."""
        return RunStore(self.coordinator, self.paths)

    @property
    def graphs(self) -> JobGraphStore:
        """The job's graphs."""
        return JobGraphStore(self.coordinator, self.store, self.paths)

    @property
    def journal(self) -> JobJournal:
        """The journal of the job's runs in storage."""
        return JobJournal(self.store, self.keys)

    def commit(self, *ops: Op) -> list[int]:
        """Apply *ops* in one transaction. They create nodes whose names only one process can take.

        They may also complete a record, by compare-and-set in the process that it describes.

        :raises LeadershipError: A process that acts as the cluster's leader no longer leads it; the writes were
            rejected.
        :raises CoordinationError: As :meth:`Coordinator.commit`.
        """
        # guard: submission-fenced
        return self.coordinator.commit(*ops) if self.cluster is None else self.cluster.commit(*ops)

    def snapshot(self) -> JobStatus:
        """Read the job.

        :raises UnknownJobError: The job does not exist.
        """
        return read_status(self.coordinator, self.paths)

    def graph(self, blob: Blob) -> JobGraph:
        """Read a job graph from storage and check its digest.

        :raises ObjectMissingError: The graph is missing.
        """
        return self.graphs.read_graph(blob)

    def graph_of(self, run: Run) -> JobGraph:
        """Read the job graph of a run. The error for a missing or damaged graph names the remedy.

        :raises ObjectMissingError: The graph is missing in storage.
        :raises RecordCorruptError: The graph is damaged.
        :raises StorageUnavailableError: Storage could not be read.
        """
        return fetch_graph(self.store, run.graph, self.job_id, run.number)


def who(by: str) -> str:
    """Return *by* with host and process, for the operator on call."""
    return f"{by} on {socket.gethostname()} (pid {os.getpid()})"
