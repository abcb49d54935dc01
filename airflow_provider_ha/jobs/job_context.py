"""Context of an action on one job, and the owner of the job.

This is no security. A process that reaches the cluster can force everything, and an owner is a text that any process
can claim. It keeps a copied DAG, or a command in the wrong shell, from ending the stream of another team.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.coordination.node_names import is_checkpoint, is_plain, ours
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.job_records import JobRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(JobRecords):
    """One job of one cluster, and the engines that run drivers. Owns nothing.

    :param sleep: Waits for some seconds; injected, so that a test need not wait.
    """

    engines: Engines
    sleep: Callable[[float], None] = time.sleep

    @property
    def area(self) -> WorkArea:
        """Where the job works."""
        return open_work_area(self.config, self.roots)

    @property
    def has_state(self) -> bool:
        """Whether the job has a checkpoint or a savepoint. By name: one that cannot be read is state as well."""
        parents = ((self.paths.checkpoints, is_checkpoint), (self.paths.savepoints, is_plain))
        return any(ours(self.coordinator.children(parent), is_ours, parent=parent) for parent, is_ours in parents)


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """Identity of a caller that acts on a job.

    :param owner: DAG id of the caller; ``None`` for a person, or a program without a DAG.
    :param force: Whether to act on the job of another owner as well.
    :param run: Number of the run that the caller has seen as the newest, 0 for none: a stop, a cancel, a savepoint, a
        checkpoint, a recovery or a restore is refused when another one is. ``None`` for a caller that means the newest
        run, whichever that is.
    """

    owner: str | None = None
    force: bool = False
    run: int | None = None


def owner_of_job(job: JobContext) -> str | None:
    """Return the owner of the job, by its newest run; ``None`` when it has no owner or no run.

    :raises RecordCorruptError: Its newest run cannot be read.
    """
    newest = job.runs.latest()
    return newest.run.owner if newest is not None else None


def refuse_others(job: JobContext, acting: CallerIdentity, what: str) -> None:
    """Check that the job has no owner, or the acting one, or that the act is forced; call it before anything changes.

    :param what: Name of the act, for the error: ``"stop"``.
    :raises JobStateError: The job belongs to another owner, which the error names.
    """
    if acting.force:
        return
    owner = owner_of_job(job)
    if owner is None or owner == acting.owner:
        return
    by = f"DAG {acting.owner!r}" if acting.owner else "a caller without a DAG"
    raise JobStateError(
        f"{what} of job {job.job_id!r} is refused: the job belongs to {owner!r}, and {by} asks",
        next_step=f"Let {owner!r} do it, or force it: force=True in an operator, --force on the command line",
    )
