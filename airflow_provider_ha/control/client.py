"""The one object that Airflow and the command line open: a cluster, and its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType

from typing_extensions import Self

from airflow_provider_ha.checkpoints.model import RestorePlan
from airflow_provider_ha.checkpoints.restore.select import Selection
from airflow_provider_ha.checkpoints.retention.policy import max_age_of
from airflow_provider_ha.checkpoints.retention.store import CheckpointStore
from airflow_provider_ha.checkpoints.savepoints.store import SavepointStore
from airflow_provider_ha.checkpoints.verify.verify import Depth
from airflow_provider_ha.checkpoints.working.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.working.work_area import WorkArea, costs
from airflow_provider_ha.clock import Clock, SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.administration import disposal, intervene, stop
from airflow_provider_ha.control.job import stores
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.job_owner import Acting, refuse_others
from airflow_provider_ha.control.job.requests import LATEST, RestoreRequest, SubmitRequest, SubmittedRun
from airflow_provider_ha.control.restore import restore
from airflow_provider_ha.control.restore.dry_run import DryRun, dry_run
from airflow_provider_ha.control.submission import recovery
from airflow_provider_ha.control.submit import submit_job
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.coordination.tick import check_tick
from airflow_provider_ha.engines.registry import Engines
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.jobs import list_jobs
from airflow_provider_ha.jobs.model import Blob, JobGraph, Operation, OperationKind
from airflow_provider_ha.jobs.snapshot import JobSnapshot
from airflow_provider_ha.names import check_job_id
from airflow_provider_ha.storage.open import open_store


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
        self.store = open_store(config)
        self.engines = engines or Engines.of(config)
        self.clock: Clock = clock or SystemClock()
        self._owned = owned

    @property
    def area(self) -> WorkArea:
        """Where the jobs of the cluster work."""
        return open_work_area(self.config)

    @property
    def paths(self) -> ClusterPaths:
        """Where the cluster lies in ZooKeeper."""
        return ClusterPaths(self.config.root, self.config.cluster_id)

    @classmethod
    def open(cls, config: HaConfig, *, coordinator: Coordinator | None = None) -> HaClient:
        """Connect to a cluster.

        :param coordinator: A session to use; it stays its owner's to close.
        :raises NotConnectedError: No ZooKeeper server answers.
        """
        return cls(config, coordinator or KazooCoordinator.connect(config), owned=coordinator is None)

    def check(self) -> tuple[str, ...]:
        """Do what a connection's Test button does: ZooKeeper answers, storage and work root are writable.

        :returns: What works at a cost: one sentence each.
        :raises CoordinationError: ZooKeeper does not answer, or refuses.
        :raises ConfigurationError: The servers report a tick that is too long for the heartbeats.
        :raises StorageError: Storage cannot be written, with the reason.
        """
        self.list_jobs()
        check_tick(self.config)
        self.store.check_writable()
        return costs(self.area)

    def list_jobs(self, *, watch: Callable[[], None] | None = None) -> list[str]:
        """Return the ids of the cluster's jobs, sorted.

        :param watch: Called once, from the event thread, when there may be more or fewer.
        """
        return list_jobs(self.coordinator, self.paths, watch=watch)

    def job(self, job_id: str, *, acting: Acting | None = None) -> JobClient:
        """Return a job, whether it exists or not. Reads nothing.

        :param acting: Identity of the caller; without it only a job without an owner can be changed.
        :raises ConfigurationError: The id is not a valid one.
        """
        return JobClient(self.context(job_id), acting=acting)

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


class JobClient:
    """What can be done with one job from outside its driver. Safe to use from several threads.

    :param acting: Identity of the caller: submit, restore, savepoints, stop and cancel are refused when it
        has another owner (``job_owner.refuse_others``).
    """

    def __init__(self, context: JobContext, *, acting: Acting | None = None) -> None:
        self._job = context
        self._acting = acting or Acting()

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._job.job_id

    @property
    def config(self) -> HaConfig:
        """How the job's cluster is reached."""
        return self._job.config

    @property
    def checkpoints(self) -> CheckpointStore:
        """The job's checkpoints."""
        return stores.checkpoint_store(self._job)

    @property
    def savepoints(self) -> SavepointStore:
        """The job's savepoints."""
        return stores.savepoint_store(self._job)

    def snapshot(self) -> JobSnapshot:
        """Read the job.

        :raises UnknownJobError: The cluster has no such job.
        """
        return self._job.snapshot()

    def graph(self, blob: Blob) -> JobGraph:
        """Read a job graph, for example that of a run."""
        return self._job.graph(blob)

    def submit(self, request: SubmitRequest) -> SubmittedRun:
        """Run a script as a new run of the job, or find the request's run again (``control.submit``)."""
        self._check_job(request.job_id)
        named = replace(self._acting, owner=self._acting.owner or request.owner)
        refuse_others(self._job, named, "a new run")
        return submit_job(self._job, request)

    def restore(self, request: RestoreRequest) -> SubmittedRun:
        """Run the job from a checkpoint or savepoint (``restore.restore_job``)."""
        self._check_job(request.job_id)
        refuse_others(self._job, self._acting, "a restore")
        return restore.restore_job(self._job, request)

    def plan_restore(self, request: RestoreRequest) -> RestorePlan:
        """Return what :meth:`restore` would do.

        :raises CheckpointMissingError: There is nothing that can be restored.
        """
        self._check_job(request.job_id)
        return restore.plan_for(self._job, request)[1]

    def dry_run(self, request: RestoreRequest) -> DryRun:
        """Return what :meth:`restore` would do, and what it would be refused for (``dry_run.dry_run``)."""
        self._check_job(request.job_id)
        return dry_run(self._job, request, self._acting)

    def select(self, *, start_from: str = LATEST, fallback: bool = True, depth: Depth = "full") -> Selection:
        """Verify the job's checkpoints and savepoints, newest first, until one can be restored."""
        return stores.select_checkpoint(self._job, start_from=start_from, fallback=fallback, depth=depth)

    def recover(self, *, by: str, wait: bool = True) -> SubmittedRun:
        """Submit the newest run again when its driver is lost (``recovery.recover``)."""
        return recovery.recover(self._job, by=by, wait=wait)

    def delay_left(self, snapshot: JobSnapshot) -> float:
        """Return the seconds until the newest run may be submitted again (``recovery.delay_left``)."""
        return recovery.delay_left(self._job, snapshot)

    def fail(self, reason: str, *, by: str) -> None:
        """End a run without a driver as FAILED (``intervene.fail``)."""
        intervene.fail(self._job, reason, by=by)

    def request_savepoint(
        self,
        *,
        operation_id: str,
        requested_by: str,
        schedule: str | None = None,
        retain: int | None = None,
        retain_days: float | None = None,
        label: str = "",
    ) -> Operation:
        """Ask the driver for a savepoint.

        :param schedule: Name of the schedule that owns it; it then may remove its own oldest ones.
        :param retain: How many savepoints of the schedule are kept.
        :param retain_days: How old they may become; the newest one stays.
        :raises ConfigurationError: No savepoint can be kept for *retain_days*, or no schedule is named for it.
        :raises JobStateError: The job has no live run.
        """
        arguments: dict[str, object] = {"schedule": schedule, "retain": retain, "label": label}
        if retain_days is not None:
            max_age_of(retain_days)
            if schedule is None:
                raise ConfigurationError(
                    "retain_days requires a schedule: only savepoints of a schedule are ever removed",
                    next_step="Name the schedule that the savepoint belongs to",
                )
            # Only where it is given: a caller of an earlier release that repeats its request sends the same arguments.
            arguments["retain_days"] = retain_days
        return self._request(OperationKind.SAVEPOINT, operation_id, arguments, requested_by)

    def request_stop(
        self, *, operation_id: str, requested_by: str, mode: str = "suspend", savepoint: bool = False
    ) -> Operation:
        """Ask the driver to stop with a checkpoint; end the run at once when the driver is lost (``stop.stop``).

        :param mode: ``"suspend"``, or ``"terminate"``: every open window is emitted first.
        :raises ConfigurationError: There is no such mode.
        :raises JobStateError: The job has no live run.
        """
        if mode not in ("suspend", "terminate"):
            raise ConfigurationError(f"stop mode {mode!r} is not known", next_step="Use 'suspend' or 'terminate'")
        refuse_others(self._job, self._acting, "a stop")
        return stop.stop(
            self._job, operation_id=operation_id, requested_by=requested_by, mode=mode, savepoint=savepoint
        )

    def request_cancel(self, *, operation_id: str, requested_by: str) -> Operation:
        """End the run at once, with or without a driver (``intervene.cancel``)."""
        refuse_others(self._job, self._acting, "a cancel")
        return intervene.cancel(self._job, operation_id=operation_id, requested_by=requested_by)

    def operation(self, operation_id: str) -> Operation | None:
        """Return an operation; ``None`` when it was never requested, or is forgotten."""
        return operations.read(self._job.coordinator, self._job.paths, operation_id)

    def dispose_savepoint(self, savepoint_id: str, *, requested_by: str) -> None:
        """Remove a savepoint (``disposal.dispose_savepoint``)."""
        refuse_others(self._job, self._acting, "the removal of a savepoint")
        disposal.dispose_savepoint(self._job, self.savepoints, savepoint_id, requested_by=requested_by)

    def _request(
        self, kind: OperationKind, operation_id: str, arguments: Mapping[str, object], requested_by: str
    ) -> Operation:
        refuse_others(self._job, self._acting, f"a {kind.value}")
        return operations.request(
            self._job.coordinator,
            self._job.paths,
            kind,
            operation_id=operation_id,
            arguments=arguments,
            requested_by=requested_by,
            clock=self._job.clock,
        )

    def _check_job(self, job_id: str) -> None:
        if job_id != self.job_id:
            raise ConfigurationError(
                f"the request is for job {job_id!r}, not for {self.job_id!r}", next_step="Ask the job that it names"
            )
