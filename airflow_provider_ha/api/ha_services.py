"""Facade over a cluster's client: leader election, leader retrieval, graphs, checkpoints, and close.

Airflow and the command use :class:`~airflow_provider_ha.api.ha_client.HaClient`, whose subject is jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.leader_information import LeaderRetrieval, OnChange
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import Lock
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.cluster_removal import erase
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_stores import checkpoint_store


_ERASING = "the removal of all HA data"


class HaServices:
    """Services of one cluster. Open them with :meth:`zookeeper` or :meth:`embedded`, in a ``with`` statement.

    :param client: Client of the cluster; closed with the services.
    :param server: Embedded server; stopped with the services.
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
        """Start a ZooKeeper server whose data and storage are in *directory*, and connect. For tests and demos.

        Data from an earlier start is found again. One server is no ensemble: it survives its own death, not its host's.

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
    def cluster_lock(self) -> Lock:
        """The lock of the process that recovers the cluster's jobs."""
        return self.client.paths.lock

    def job_lock(self, job_id: str) -> Lock:
        """Return the lock of a job's driver."""
        return self.client.paths.job(job_id)

    def elect(
        self,
        lock: Lock,
        *,
        describe: Callable[[int], bytes],
        timeout: float | None,
        stop: threading.Event | None = None,
    ) -> Leadership:
        """Contend for a lock (``coordination.election.acquire``)."""
        client = self.client
        return acquire(
            client.coordinator,
            lock,
            timings=client.config.timings,
            clock=client.clock,
            describe=describe,
            timeout=timeout,
            stop=stop,
        )

    def retrieve(self, lock: Lock, on_change: OnChange) -> LeaderRetrieval:
        """Follow the leader of a lock until the services are closed (``coordination.retrieval``)."""
        tolerant = self.client.config.timings.tolerate_suspended
        retrieval = LeaderRetrieval(self.client.coordinator, lock, on_change, tolerate_suspended=tolerant)
        self._retrievals.append(retrieval)
        retrieval.start()
        return retrieval

    def graphs(self, job_id: str) -> JobGraphStore:
        """Return the graphs of a job."""
        return self.client.context(job_id).graphs

    def checkpoints(self, job_id: str) -> CheckpointStore:
        """Return the completed checkpoints of a job."""
        return checkpoint_store(self.client.context(job_id))

    def close(self) -> None:
        """Stop the retrievals and end the session, and with it every leadership. All data of the cluster stays."""
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
        """Remove the HA data of all jobs (``control.erase``), then close; closes also when the removal fails.

        :raises LeadershipUnavailableError: Another process leads the cluster.
        :raises JobStateError: A job is led, has a live run or a reader.
        :raises HaError: Some data could not be removed. A pointer that could not be removed keeps every blob.
        """
        try:
            leader = ClusterLeader(self.client, by=_ERASING, address=_ERASING)
            leader.lead(timeout=0)
            with leader:
                erase(self.client, leader.leadership)
        finally:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
