"""Client of one job, for Airflow and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from airflow_provider_ha.checkpoints.plan_model import RestorePlan
from airflow_provider_ha.checkpoints.restore.select import Selection
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.retention_policy import SavepointRetention, max_age_of
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.checkpoints.verify.verification import Depth
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError, JobStateError
from airflow_provider_ha.jobs import job_stores
from airflow_provider_ha.jobs.job_context import CallerIdentity, JobContext, refuse_others
from airflow_provider_ha.jobs.job_graph import Blob, JobGraph
from airflow_provider_ha.jobs.model import Operation, OperationKind, Run
from airflow_provider_ha.jobs.operations import idle_savepoint, operations, stop
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest
from airflow_provider_ha.jobs.recovery import lost_runs
from airflow_provider_ha.jobs.removal import checkpoint_deletion, job_deletion
from airflow_provider_ha.jobs.removal.checkpoint_deletion import CheckpointRemoval
from airflow_provider_ha.jobs.restore import job_restore
from airflow_provider_ha.jobs.run_lineage import RunLineage, run_lineage
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyStore
from airflow_provider_ha.jobs.runs.watchers import watched
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.jobs.submit.requests import LATEST, SubmittedRun, savepoint_arguments
from airflow_provider_ha.jobs.submit.submit_request import DryRun, dry_run, submit_job


class JobClient:
    """What can be done with one job from outside its driver. Safe to use from several threads.

    :param acting: Identity of the caller: submit, restore, savepoints, stop and cancel are refused when it
        has another owner (``job_owner.refuse_others``).
    """

    def __init__(self, context: JobContext, *, acting: CallerIdentity | None = None) -> None:
        self._job = context
        self._acting = acting or CallerIdentity()

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
        return job_stores.checkpoint_store(self._job)

    @property
    def savepoints(self) -> SavepointStore:
        """The job's savepoints."""
        return job_stores.savepoint_store(self._job)

    def snapshot(self) -> JobStatus:
        """Read the job.

        :raises UnknownJobError: The cluster has no such job.
        """
        return self._job.snapshot()

    def standbys(self, snapshot: JobStatus) -> tuple[Standby, ...]:
        """Read the living standby drivers of a live run, in two more round trips, so not for a list of jobs."""
        run = snapshot.run
        if run is None or run.result is not None:
            return ()
        return StandbyStore(self._job.coordinator, self._job.paths, run.run.number).living()

    def graph(self, blob: Blob) -> JobGraph:
        """Read a job graph, for example that of a run."""
        return self._job.graph(blob)

    def graph_of(self, run: Run) -> JobGraph:
        """Read the job graph of a run. One that is missing or damaged is an error that says what to do.

        :raises ObjectMissingError: It is not in storage.
        :raises RecordCorruptError: It is there, and not what was written.
        """
        return self._job.graph_of(run)

    def submit(self, request: JobSpec) -> SubmittedRun:
        """Run a script as a new run of the job, or find the request's run again (``control.submit``)."""
        self._check_job(request.job_id)
        named = replace(self._acting, owner=self._acting.owner or request.job_owner)
        refuse_others(self._job, named, "a new run")
        return submit_job(self._job, request)

    def restore(self, request: RestoreRequest) -> SubmittedRun:
        """Run the job from a checkpoint or savepoint (``restore.restore_job``)."""
        self._check_job(request.job_id)
        refuse_others(self._job, self._acting, "a restore")
        return job_restore.restore_job(self._job, request, seen=self._acting.run)

    def plan_restore(self, request: RestoreRequest) -> RestorePlan:
        """Return what :meth:`restore` would do.

        :raises CheckpointMissingError: There is nothing that can be restored.
        """
        self._check_job(request.job_id)
        return job_restore.plan_for(self._job, request)[1]

    def dry_run(self, request: RestoreRequest) -> DryRun:
        """Return what :meth:`restore` would do, and what it would be refused for (``dry_run.dry_run``)."""
        self._check_job(request.job_id)
        return dry_run(self._job, request, self._acting)

    def select(self, *, start_from: str = LATEST, fallback: bool = True, depth: Depth = "full") -> Selection:
        """Verify the job's checkpoints and savepoints, newest first, until one can be restored."""
        return job_stores.select_checkpoint(self._job, start_from=start_from, fallback=fallback, depth=depth)

    def lineage(self, run: int) -> RunLineage:
        """Return what OpenLineage receives of a run (``lineage.run_lineage``)."""
        return run_lineage(self._job, run)

    def recover(self, *, by: str, wait: bool = True) -> SubmittedRun:
        """Submit the newest run again when its driver is lost (``recovery.recover``)."""
        return lost_runs.recover(self._job, by=by, wait=wait, run_number=self._acting.run)

    def delay_left(self, snapshot: JobStatus) -> float:
        """Return the seconds until the newest run may be submitted again (``jobs.recovery.lost_runs``)."""
        return lost_runs.delay_left(self._job, snapshot)

    def fail(self, reason: str, *, by: str) -> None:
        """End a run without a driver as FAILED (``intervene.fail``)."""
        stop.fail(self._job, reason, by=by)

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
        arguments = savepoint_arguments(schedule, retain, retain_days, label)
        return self._request(OperationKind.SAVEPOINT, operation_id, arguments, requested_by)

    def take_savepoint(
        self,
        *,
        operation_id: str,
        requested_by: str,
        schedule: str | None = None,
        retain: int | None = None,
        retain_days: float | None = None,
        label: str = "",
        tell: Callable[[str], None] = lambda _: None,
    ) -> Operation:
        """As :meth:`request_savepoint`; of a job that is over, copy its newest proven checkpoint in this process.

        The copy takes as long as its files take; the answer is COMPLETED then (``savepoint_at_rest.take_savepoint``).

        :param tell: Called with each step of the copy, for people who wait.
        :raises ConfigurationError: No savepoint can be kept for *retain_days*, or no schedule is named for it.
        :raises CheckpointMissingError: The job is over, and no checkpoint of it is proven.
        :raises JobStateError: The job has no run.
        """
        arguments = savepoint_arguments(schedule, retain, retain_days, label)
        retention = None
        if schedule is not None and (retain is not None or retain_days is not None):
            retention = SavepointRetention(schedule, retain, None if retain_days is None else max_age_of(retain_days))
        refuse_others(self._job, self._acting, "a savepoint")
        return idle_savepoint.take_savepoint(
            self._job,
            operation_id=operation_id,
            arguments=arguments,
            retention=retention,
            requested_by=requested_by,
            tell=tell,
        )

    def request_checkpoint(self, *, operation_id: str, requested_by: str) -> Operation:
        """Ask the driver for a checkpoint of all that is committed; it is retained as the periodic ones are.

        The result names the newest checkpoint, with ``new`` false, when no batch was committed after it.

        :raises JobStateError: The job has no live run.
        """
        return self._request(OperationKind.CHECKPOINT, operation_id, {}, requested_by)

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
            self._job,
            operation_id=operation_id,
            requested_by=requested_by,
            mode=mode,
            savepoint=savepoint,
            seen=self._acting.run,
        )

    def request_cancel(self, *, operation_id: str, requested_by: str, savepoint: bool = False) -> Operation:
        """End the run at once, with or without a driver (``intervene.cancel``).

        :param savepoint: Take a savepoint first; when that fails the job goes on. One operation: a request that is
            repeated with its id goes on where the first one was.
        """
        refuse_others(self._job, self._acting, "a cancel")
        return stop.cancel(
            self._job,
            operation_id=operation_id,
            requested_by=requested_by,
            savepoint=savepoint,
            seen=self._acting.run,
        )

    def request_hand_over(self, *, operation_id: str, requested_by: str) -> Operation:
        """Ask the driver to end at a batch boundary, so that a ready standby driver continues without a repeated batch.

        :raises JobStateError: The job has no leader, or no standby driver is ready.
        """
        known = self.operation(operation_id)  # a repeated request finds its answer, with or without a leader
        if known is None and not self._has_standby(self._led_run("hand over")):
            raise JobStateError(
                f"job {self.job_id!r} has no standby driver that is ready, so nothing can be handed over",
                next_step=f"`spark-ha job show {self.job_id}` shows its standby drivers; the option standby_drivers "
                "starts them",
            )
        return self._request(OperationKind.HAND_OVER, operation_id, {}, requested_by)

    def request_fail_over(self, *, operation_id: str, requested_by: str) -> Operation:
        """Ask the driver to kill its JVM and itself: a rehearsal of a loss, with or without a standby driver.

        :raises JobStateError: The job has no leader, or no process would start its next driver.
        """
        if self.operation(operation_id) is None:
            self._refuse_unattended_loss(self._led_run("fail over"))
        return self._request(OperationKind.FAIL_OVER, operation_id, {}, requested_by)

    def _refuse_unattended_loss(self, run: int) -> None:
        job = self._job
        if job.graph_of(job.runs.get(run).run).options.restart_in_place or self._has_standby(run):
            return
        if watched(job.coordinator, job.paths).sentence:
            return
        raise JobStateError(
            f"job {self.job_id!r} would stay lost: it has restart_in_place=False, no standby driver that is ready, and "
            "neither a task nor a cluster leader that recovers it",
            next_step="Run spark-ha cluster recover --watch, or unpause the DAG recover_jobs, and repeat it",
        )

    def _led_run(self, what: str) -> int:
        leader = self.snapshot().leader
        if leader is None:
            raise JobStateError(
                f"job {self.job_id!r} has no leader that could {what}",
                next_step=f"`spark-ha job show {self.job_id}` shows its state",
            )
        return leader.run

    def _has_standby(self, run: int) -> bool:
        return StandbyStore(self._job.coordinator, self._job.paths, run).is_ready()

    def delete(
        self, *, requested_by: str, keep_savepoints: bool = False, dry_run: bool = False
    ) -> job_deletion.Deletion:
        """Delete the job, or show what that would delete (``delete.delete_job``)."""
        refuse_others(self._job, self._acting, "a deletion")
        if dry_run:
            return job_deletion.plan_deletion(self._job, keep_savepoints=keep_savepoints)
        return job_deletion.delete_job(self._job, keep_savepoints=keep_savepoints, by=requested_by)

    def operation(self, operation_id: str) -> Operation | None:
        """Return an operation; ``None`` when it was never requested, or is forgotten."""
        return operations.read(self._job.coordinator, self._job.paths, operation_id)

    def delete_savepoint(self, savepoint_id: str, *, requested_by: str, dry_run: bool = False) -> None:
        """Delete a savepoint (``checkpoint_deletion.dispose_savepoint``), or check that no live run starts there."""
        refuse_others(self._job, self._acting, "the deletion of a savepoint")
        if dry_run:
            self.savepoints.refuse_start(savepoint_id)
            return
        checkpoint_deletion.dispose_savepoint(self._job, self.savepoints, savepoint_id, requested_by=requested_by)

    def plan_checkpoint_deletion(
        self, checkpoint: str, *, tell: Callable[[str], None] = lambda _: None
    ) -> CheckpointRemoval:
        """Return what deleting a checkpoint removes, or refuse it (``checkpoint_deletion.plan_removal``)."""
        refuse_others(self._job, self._acting, "the deletion of a checkpoint")
        return checkpoint_deletion.plan_removal(self._job, checkpoint, tell=tell)

    def delete_checkpoint(self, removal: CheckpointRemoval, *, requested_by: str) -> None:
        """Delete a checkpoint as planned (``checkpoint_deletion.delete_checkpoint``)."""
        refuse_others(self._job, self._acting, "the deletion of a checkpoint")
        checkpoint_deletion.delete_checkpoint(self._job, removal, requested_by=requested_by)

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
            seen=self._acting.run,
        )

    def _check_job(self, job_id: str) -> None:
        if job_id != self.job_id:
            raise ConfigurationError(
                f"the request is for job {job_id!r}, not for {self.job_id!r}", next_step="Ask the job that it names"
            )
