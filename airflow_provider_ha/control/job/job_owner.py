"""The owner of a job: an id that the job's newest run names, so that no other DAG stops it by mistake.

This is no security. A process that reaches the cluster can force everything, and an owner is a text that any process
can claim. It keeps a copied DAG, or a command in the wrong shell, from ending the stream of another team.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.errors import JobStateError


@dataclass(frozen=True, slots=True)
class Acting:
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


def refuse_others(job: JobContext, acting: Acting, what: str) -> None:
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
