"""Paths of all znodes. No other module writes a znode path by hand (design, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from airflow_provider_ha.names import check_job_id, check_name, check_savepoint_id


__all__ = ["ClusterPaths", "JobPaths"]


CHECKPOINT_DIGITS = 19  # zero-padded, so that text order is number order (FLINK-6284)


class Lock(Protocol):
    """Lock of a leadership: three nodes and a name for messages. Every job has one, and so has the cluster."""

    @property
    def epoch(self) -> str:
        """Persistent and never deleted: its version is the epoch."""

    @property
    def leader(self) -> str:
        """Ephemeral: exists while the lock has a leader."""

    @property
    def heartbeat(self) -> str:
        """Written by the leader to prove that it still reaches a quorum."""

    @property
    def label(self) -> str:
        """Name of the led object for messages: ``job 'flights'``."""


@dataclass(frozen=True, slots=True)
class LockPaths:
    """Lock without further nodes.

    :param base: Parent of its nodes.
    :param label: Name of the led object, for messages.
    """

    base: str
    label: str

    @property
    def epoch(self) -> str:
        """Persistent and never deleted: its version is the epoch."""
        return f"{self.base}/epoch"

    @property
    def leader(self) -> str:
        """Ephemeral: exists while the lock has a leader."""
        return f"{self.base}/leader"

    @property
    def heartbeat(self) -> str:
        """Written by the leader to prove that it still reaches a quorum."""
        return f"{self.base}/heartbeat"


@dataclass(frozen=True, slots=True)
class ClusterPaths:
    """Paths of a cluster: a namespace of jobs.

    :param root: Root of all clusters, without slashes at the ends.
    :param cluster_id: Name of this cluster.
    """

    root: str
    cluster_id: str

    @property
    def base(self) -> str:
        """Parent of all jobs."""
        return f"/{self.root.strip('/')}/{self.cluster_id}"

    @property
    def resource_manager_lock(self) -> str:
        """Lock of the cluster leader."""
        return f"{self.base}/resource_manager_lock"

    @property
    def lock(self) -> LockPaths:
        """Lock of the process that recovers jobs."""
        return LockPaths(self.resource_manager_lock, f"cluster {self.cluster_id!r}")

    @property
    def watchers(self) -> str:
        """Parent of the ephemeral nodes of watchers of all jobs; below the lock: a job cannot have this name."""
        return f"{self.resource_manager_lock}/watchers"

    def watcher(self, name: str) -> str:
        """Node of a watcher."""
        return f"{self.watchers}/{check_name(name, 'watcher id')}"

    @property
    def outputs(self) -> str:
        """Parent of the claims of outputs; below the lock, like the watchers."""
        return f"{self.resource_manager_lock}/outputs"

    def output(self, digest: str) -> str:
        """Claim of the job that writes to an output, by the digest of the output's location."""
        return f"{self.outputs}/{check_name(digest, 'digest of an output')}"

    @property
    def deleted_jobs(self) -> str:
        """Parent of the names of deleted jobs; below the lock, like the watchers."""
        return f"{self.resource_manager_lock}/deleted"

    def deleted(self, job_id: str) -> str:
        """Record of a job's deletion: the job's own node stays, as the parent of its epoch."""
        return f"{self.deleted_jobs}/{check_job_id(job_id)}"

    @property
    def quarantine(self) -> str:
        """Parent of the jobs that no process recovers until a person has released them."""
        return f"{self.base}/quarantine"

    def quarantined(self, job_id: str) -> str:
        """Reason why a job is not recovered."""
        return f"{self.quarantine}/{check_name(job_id, 'job id')}"

    @property
    def to_delete(self) -> str:
        """Parent of the pending deletions; outlives the process that carries them out."""
        return f"{self.base}/to_delete"

    def job(self, job_id: str) -> JobPaths:
        """Return the paths of a job.

        :raises ConfigurationError: The id is invalid.
        """
        return JobPaths(f"{self.base}/{check_job_id(job_id)}", job_id)


@dataclass(frozen=True, slots=True)
class JobPaths:
    """Paths of a job.

    :param base: Node of the job.
    :param job_id: Id of the job.
    """

    base: str
    job_id: str

    @property
    def cluster(self) -> ClusterPaths:
        """Cluster that the job belongs to."""
        root, _, cluster_id = self.base.rpartition("/")[0].rpartition("/")
        return ClusterPaths(root, cluster_id)

    @property
    def label(self) -> str:
        """Name of the job, for messages about its lock."""
        return f"job {self.job_id!r}"

    @property
    def lock(self) -> str:
        """Parent of the nodes that decide which process leads."""
        return f"{self.base}/job_manager_lock"

    @property
    def epoch(self) -> str:
        """Persistent and never deleted: its version is the epoch."""
        return f"{self.lock}/epoch"

    @property
    def leader(self) -> str:
        """Ephemeral: exists while the job has a leader."""
        return f"{self.lock}/leader"

    @property
    def heartbeat(self) -> str:
        """Written by the leader to prove that it still reaches a quorum."""
        return f"{self.lock}/heartbeat"

    @property
    def job_graph(self) -> str:
        """Pointer to the job graph; exists if and only if a new leader has to recover the job."""
        return f"{self.base}/persisted_job_graph"

    @property
    def runs(self) -> str:
        """Parent of the runs."""
        return f"{self.base}/runs"

    def run(self, number: int) -> str:
        """Node of run *number*."""
        return f"{self.runs}/{number}"

    def run_result(self, number: int) -> str:
        """Result of run *number*; exists once the run has one."""
        return f"{self.run(number)}/result"

    def run_claim(self, number: int) -> str:
        """Claims of run *number* outside the cluster; also records when the job has stopped needing them."""
        return f"{self.run(number)}/claim"

    def submissions(self, number: int) -> str:
        """Parent of the submissions of run *number* to the engine."""
        return f"{self.run(number)}/submissions"

    def submission(self, number: int, attempt: int) -> str:
        """Node of a submission: *attempt* counts from 1."""
        return f"{self.submissions(number)}/{attempt}"

    def submission_started(self, number: int, attempt: int) -> str:
        """Response of the engine that accepted the submission (process id, host)."""
        return f"{self.submission(number, attempt)}/started"

    def submission_led(self, number: int, attempt: int) -> str:
        """Process of the submission that led; created in the transaction that grants the leadership."""
        return f"{self.submission(number, attempt)}/led"

    def submission_exit(self, number: int, attempt: int) -> str:
        """Exit of the submission's processes; written by their supervisor after all have ended."""
        return f"{self.submission(number, attempt)}/exit"

    def standbys(self, number: int) -> str:
        """Parent of the standby drivers of run *number*; its version counts those that have joined."""
        return f"{self.run(number)}/standbys"

    def standby(self, number: int, standby_id: str) -> str:
        """Ephemeral node of a standby driver, which its session owns."""
        return f"{self.standbys(number)}/{check_name(standby_id, 'standby id')}"

    @property
    def removed_runs(self) -> str:
        """Numbers of the removed runs, and parent of the notes about the requests that created them."""
        return f"{self.base}/removed_runs"

    def removed_requests(self, part: int) -> str:
        """Part of the notes about requests of removed runs; *part* counts from 1."""
        return f"{self.removed_runs}/{part}"

    @property
    def recoveries(self) -> str:
        """Parent of the recovery claims."""
        return f"{self.base}/recoveries"

    def recovery(self, lost_epoch: int) -> str:
        """Record of the process that recovers the loss of *lost_epoch*; created once."""
        return f"{self.recoveries}/{lost_epoch}"

    @property
    def generation(self) -> str:
        """Node of the current working directory's generation."""
        return f"{self.base}/generation"

    @property
    def checkpoints(self) -> str:
        """Parent of the pointers of completed checkpoints."""
        return f"{self.base}/checkpoints"

    def checkpoint(self, number: int) -> str:
        """Pointer of checkpoint *number*."""
        return f"{self.checkpoints}/{number:0{CHECKPOINT_DIGITS}d}"

    @property
    def checkpoint_id_counter(self) -> str:
        """Highest checkpoint number assigned so far."""
        return f"{self.base}/checkpoint_id_counter"

    @property
    def savepoints(self) -> str:
        """Parent of the pointers of savepoints."""
        return f"{self.base}/savepoints"

    def savepoint(self, savepoint_id: str) -> str:
        """Pointer of a savepoint."""
        return f"{self.savepoints}/{check_savepoint_id(savepoint_id)}"

    def leases(self, what: str) -> str:
        """Parent of the leases on *what*, for example ``checkpoint-12``."""
        return f"{self.base}/leases/{check_name(what, 'lease name')}"

    @property
    def operations(self) -> str:
        """Parent of the requested operations."""
        return f"{self.base}/operations"

    def operation(self, operation_id: str) -> str:
        """Node of an operation: its request, then its state and result."""
        return f"{self.operations}/{check_name(operation_id, 'operation id')}"

    @property
    def watchers(self) -> str:
        """Parent of the claims of Airflow tasks and of the ephemeral nodes of waiting tasks."""
        return f"{self.base}/watchers"

    def watcher(self, watcher_id: str) -> str:
        """Claim of a task; has its own version, never the leader's epoch."""
        return f"{self.watchers}/{check_name(watcher_id, 'watcher id')}"

    @property
    def status(self) -> str:
        """State of the job, written by its leader when it changes."""
        return f"{self.base}/status"

    @property
    def moved(self) -> str:
        """Target of a finished or running move of the job; while it exists, runs are not created here."""
        return f"{self.base}/moved"

    @property
    def arriving(self) -> str:
        """Move that brings the job here; the run that ends the move removes it."""
        return f"{self.base}/arriving"

    @property
    def skeleton(self) -> tuple[str, ...]:
        """Parents that are created once, before anything else of the job."""
        return (
            self.lock,
            self.runs,
            self.recoveries,
            self.checkpoints,
            self.savepoints,
            f"{self.base}/leases",
            self.operations,
            self.watchers,
        )
