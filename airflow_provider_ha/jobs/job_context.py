"""Context of an action on a job, and the owner of the job.

Ownership is no security: a process with access to the cluster can force everything, and can claim any owner. It keeps a
copied DAG, or a command in the wrong shell, from ending the stream of another team.
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
    """A job of a cluster, and the engines that run drivers. Owns nothing.

    :param sleep: Waits for a number of seconds; replaced in tests.
    """

    engines: Engines
    sleep: Callable[[float], None] = time.sleep

    @property
    def area(self) -> WorkArea:
        """Work area of the job."""
        return open_work_area(self.config, self.roots)

    @property
    def has_state(self) -> bool:
        """``True`` if the job has a checkpoint or a savepoint. By name, so unreadable ones count too."""
        parents = ((self.paths.checkpoints, is_checkpoint), (self.paths.savepoints, is_plain))
        return any(ours(self.coordinator.children(parent), is_ours, parent=parent) for parent, is_ours in parents)


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """Identity of a caller that acts on a job.

    :param owner: DAG id of the caller; ``None`` for a user, or a program without a DAG.
    :param force: Whether to also act on the job of another owner.
    :param run: Number of the newest run that the caller has seen, 0 for none: a stop, a cancel, a savepoint, a
        checkpoint, a recovery or a restore is refused if there is a newer one. ``None`` accepts any newest run.
    """

    owner: str | None = None
    force: bool = False
    run: int | None = None


def owner_of_job(job: JobContext) -> str | None:
    """Return the owner of the job, by its newest run; ``None`` without an owner or a run.

    :raises RecordCorruptError: The newest run cannot be read.
    """
    newest = job.runs.latest()
    return newest.run.owner if newest is not None else None


def refuse_others(job: JobContext, acting: CallerIdentity, what: str) -> None:
    """Refuse an act on another owner's job unless it is forced; call it before any change.

    :param what: Name of the act, for the error: ``"stop"``.
    :raises JobStateError: The job belongs to another owner, named in the message.
    """
    if acting.force:
        return
    owner = owner_of_job(job)
    if owner is None or owner == acting.owner:
        return
    by = f"DAG {acting.owner!r}" if acting.owner else "a caller without a DAG"
    raise JobStateError(
        f"{what} of job {job.job_id!r} is refused: the job belongs to {owner!r}, not to {by}",
        next_step=f"Let {owner!r} do it, or force it: force=True in an operator, --force on the command line",
    )
