"""Client of a cluster, for Airflow and the command line."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from typing_extensions import Self

from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea, costs
from airflow_provider_ha.clock import Clock, SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.coordination.raw_socket import check_tick
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.cluster_roots import RootsOfCluster
from airflow_provider_ha.jobs.job_context import CallerIdentity, JobContext
from airflow_provider_ha.jobs.move.move_records import Move, MoveRequest
from airflow_provider_ha.jobs.move.move_steps import abandon_move, move_job, plan_move
from airflow_provider_ha.jobs.observe import list_jobs
from airflow_provider_ha.names import check_job_id
from airflow_provider_ha.storage.open_storage import open_store


CONNECT_SECONDS = 15.0


class HaClient:
    """A cluster of highly available jobs. Open it with :meth:`open`, in a ``with`` statement.

    :param config: How the cluster is reached.
    :param coordinator: The session with ZooKeeper.
    :param owned: Whether :meth:`close` ends the session.
    :param engines: What runs drivers, by name.
    :param clock: For records and deadlines.
    """

    def __init__(
        self,
        config: HaConfig,
        coordinator: Coordinator,
        *,
        owned: bool = False,
        engines: Engines | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self.coordinator = coordinator
        self.store = open_store(config, RootsOfCluster(config, coordinator))
        self.engines = engines or Engines.of(config)
        self.clock: Clock = clock or SystemClock()
        self._owned = owned

    @property
    def roots(self) -> RootsOfCluster:
        """Where it keeps its files, as a look can find out."""
        return RootsOfCluster(self.config, self.coordinator)

    @property
    def area(self) -> WorkArea:
        """Where the jobs of the cluster work."""
        return open_work_area(self.config, self.roots)

    @property
    def paths(self) -> ClusterPaths:
        """Where the cluster lies in ZooKeeper."""
        return ClusterPaths(self.config.root, self.config.cluster_id)

    @classmethod
    def open(
        cls, config: HaConfig, *, coordinator: Coordinator | None = None, timeout: float = CONNECT_SECONDS
    ) -> HaClient:
        """Connect to a cluster.

        :param coordinator: A session to use; it stays its owner's to close.
        :param timeout: Seconds to wait for a server.
        :raises NotConnectedError: No ZooKeeper server answers.
        """
        return cls(config, coordinator or KazooCoordinator.connect(config, timeout=timeout), owned=coordinator is None)

    def check(self) -> tuple[str, ...]:
        """Do what a connection's Test button does: ZooKeeper answers, storage and work root are writable.

        :returns: What works but is slow: one sentence each.
        :raises CoordinationError: ZooKeeper does not answer, or refuses.
        :raises ConfigurationError: The servers report a tick that is too long for the heartbeats, or the cluster has
            other roots.
        :raises StorageError: Storage cannot be written, with the reason, or a root of the cluster is not mounted.
        """
        self.list_jobs()
        check_tick(self.config)
        self.roots.require()
        open_store(self.config).check_writable()  # makes no cluster: a wrong root would stay with it
        return costs(self.area)

    def list_jobs(self, *, watch: Callable[[], None] | None = None) -> list[str]:
        """Return the ids of the cluster's jobs, sorted.

        :param watch: Called once, from the event thread, when there may be more or fewer.
        """
        return list_jobs(self.coordinator, self.paths, watch=watch)

    def job(self, job_id: str, *, acting: CallerIdentity | None = None) -> JobClient:
        """Return a job, whether it exists or not. Reads nothing.

        :param acting: Identity of the caller; without it only a job without an owner can be changed.
        :raises ConfigurationError: The id is not a valid one.
        """
        return JobClient(self.context(job_id), acting=acting)

    def move_job(
        self, job_id: str, to: HaClient, request: MoveRequest, *, acting: CallerIdentity | None = None
    ) -> Move:
        """Move a job to another cluster, and with it to the store where that one works (``control.move``)."""
        return move_job(self.context(job_id), to.context(job_id), request, acting or CallerIdentity())

    def plan_move(
        self, job_id: str, to: HaClient, request: MoveRequest, *, acting: CallerIdentity | None = None
    ) -> Move:
        """Return what :meth:`move_job` would do."""
        return plan_move(self.context(job_id), to.context(job_id), request, acting or CallerIdentity())

    def abandon_move(self, job_id: str, to: HaClient, *, acting: CallerIdentity | None = None) -> Move:
        """Give up a move that has not made its run yet: the job may be started here again."""
        return abandon_move(self.context(job_id), to.context(job_id), acting or CallerIdentity())

    def context(self, job_id: str, *, cluster: Leadership | None = None) -> JobContext:
        """Return what actions on one job need; reads nothing.

        :param cluster: Leadership of the cluster that the actions belong to.
        :raises ConfigurationError: The id is not a valid one.
        """
        return JobContext(
            job_id=check_job_id(job_id),
            config=self.config,
            coordinator=self.coordinator,
            store=self.store,
            engines=self.engines,
            clock=self.clock,
            cluster=cluster,
        )

    def close(self) -> None:
        """End the session when it is this client's own. Idempotent."""
        if self._owned:
            self.coordinator.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
