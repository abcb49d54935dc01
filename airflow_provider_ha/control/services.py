"""The one object that a user of the coordination layer opens: a cluster, its locks and its stores.

Airflow and the command line open :class:`~airflow_provider_ha.control.client.HaClient`, which is about jobs. This is
about what jobs are made of: elections and retrievals, stores of checkpoints, graphs and runs, and the life of it all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from airflow_provider_ha.checkpoints.retention.store import CheckpointStore
from airflow_provider_ha.checkpoints.savepoints.store import SavepointStore
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.control.erase import erase
from airflow_provider_ha.control.job.stores import checkpoint_store, savepoint_store
from airflow_provider_ha.control.reconcile.cluster_leader import ClusterLeader
from airflow_provider_ha.control.reconcile.reconciler import ReconcileTimings
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.election import Leadership, acquire
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.paths import ClusterPaths, Lock
from airflow_provider_ha.coordination.retrieval import LeaderRetrieval, OnChange
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.runs import RunStore
from airflow_provider_ha.storage.store import ObjectStore


_ERASING = "the removal of all HA data"


class HaServices:
    """High availability of one cluster. Open it with :meth:`zookeeper` or :meth:`embedded`, in a ``with`` statement.

    :param client: The cluster; closed with the services.
    :param server: An embedded server that is stopped with them.
    """

    def __init__(self, client: HaClient, *, server: EmbeddedZooKeeper | None = None) -> None:
        self.client = client
        self._server = server
        self._retrievals: list[LeaderRetrieval] = []
        self._closed = False

    @classmethod
    def zookeeper(cls, config: HaConfig) -> HaServices:
        """Connect to a cluster.

        :raises NotConnectedError: No ZooKeeper server answers.
        """
        return cls(HaClient.open(config))

    @classmethod
    def embedded(cls, directory: Path, *, cluster_id: str = "default") -> HaServices:
        """Start a ZooKeeper of one's own, with its data and the storage in *directory*. For tests and demos.

        What was there is found again. One server is no ensemble: it survives its own death, not its host's.

        :raises ConfigurationError: The server cannot be started here.
        """
        server = EmbeddedZooKeeper(directory / "zookeeper").start()
        try:
            config = HaConfig.build(
                zookeeper=server.hosts, storage_root=f"file://{directory}/storage", cluster_id=cluster_id
            )
            return cls(HaClient.open(config), server=server)
        except BaseException:
            server.stop()
            raise

    @property
    def config(self) -> HaConfig:
        """How the cluster is reached."""
        return self.client.config

    @property
    def coordinator(self) -> Coordinator:
        """The session."""
        return self.client.coordinator

    @property
    def paths(self) -> ClusterPaths:
        """Where the cluster lies in ZooKeeper."""
        return self.client.paths

    @property
    def blobs(self) -> ObjectStore:
        """The cluster's storage."""
        return self.client.store

    @property
    def cluster_lock(self) -> Lock:
        """The lock of the process that recovers the cluster's jobs."""
        return self.paths.lock

    def job_lock(self, job_id: str) -> Lock:
        """Return the lock of a job's driver."""
        return self.paths.job(job_id)

    def elect(
        self,
        lock: Lock,
        *,
        describe: Callable[[int], bytes],
        timeout: float | None,
        stop: threading.Event | None = None,
        admit: Callable[[], None] | None = None,
    ) -> Leadership:
        """Contend for a lock (``coordination.election.acquire``)."""
        return acquire(
            self.coordinator,
            lock,
            timings=self.config.timings,
            clock=self.client.clock,
            describe=describe,
            timeout=timeout,
            stop=stop,
            admit=admit,
        )

    def retrieve(self, lock: Lock, on_change: OnChange) -> LeaderRetrieval:
        """Follow the leader, until the services are closed (``coordination.retrieval``)."""
        tolerant = self.config.timings.tolerate_suspended
        retrieval = LeaderRetrieval(self.coordinator, lock, on_change, tolerate_suspended=tolerant)
        self._retrievals.append(retrieval)
        retrieval.start()
        return retrieval

    def cluster_leader(self, *, by: str, address: str = "", patience: ReconcileTimings | None = None) -> ClusterLeader:
        """Return a contender for the cluster that recovers its jobs."""
        return ClusterLeader(self.client, by=by, address=address, patience=patience)

    def checkpoints(self, job_id: str) -> CheckpointStore:
        """Return the completed checkpoints of a job."""
        return checkpoint_store(self.client.context(job_id))

    def savepoints(self, job_id: str) -> SavepointStore:
        """Return the savepoints of a job."""
        return savepoint_store(self.client.context(job_id))

    def graphs(self, job_id: str) -> JobGraphStore:
        """Return the graphs of a job."""
        return self.client.context(job_id).graphs

    def runs(self, job_id: str) -> RunStore:
        """Return the runs of a job and their results."""
        return self.client.context(job_id).runs

    def running_jobs(self) -> list[str]:
        """Return the jobs whose newest run has no result: they run, or they have to be recovered."""
        found = {job_id: self.runs(job_id).latest() for job_id in self.client.list_jobs()}
        return [job_id for job_id, view in found.items() if view is not None and view.result is None]

    def close(self) -> None:
        """Stop the retrievals and end the session, and with it every leadership. Everything in the cluster stays."""
        if self._closed:
            return
        self._closed = True
        with ExitStack() as stack:  # each of them is closed although another one fails; the last first
            if self._server is not None:
                stack.callback(self._server.stop)
            stack.callback(self.client.close)  # guard: close-keeps-data
            for retrieval in self._retrievals:
                stack.callback(retrieval.stop)

    def close_and_cleanup_all_data(self) -> None:
        """Remove the HA data of all jobs (``control.erase``), then close; closes also when that fails.

        :raises LeadershipUnavailableError: Another process leads the cluster.
        :raises JobStateError: A job is led, has a live run or a reader.
        :raises HaError: Something could not be removed. A pointer that could not be removed keeps every blob.
        """
        try:
            leader = self.cluster_leader(by=_ERASING, address=_ERASING)
            leader.lead(timeout=0)
            with leader:
                erase(self.client, leader.leadership)
        finally:
            self.close()  # guard: close-after-failed-clean-up

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
