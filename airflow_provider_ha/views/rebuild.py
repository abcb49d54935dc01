"""ZooKeeper's tree as storage alone gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.control.rebuild import Applied, RebuildPlan


class RebuiltJobView(View):
    """The tree of a job after the rebuild.

    :param job_id: The job.
    :param runs: Run -> its state after the rebuild; ``LOST`` for the run that can be recovered.
    :param recoverable: Whether the newest run has to be recovered.
    :param checkpoints: Numbers of its checkpoints.
    :param savepoints: Ids of its savepoints.
    :param counter: Highest checkpoint number that was given out.
    :param highest_epoch: Highest epoch that storage has a trace of.
    :param missing: Paths of the nodes that have to be made.
    :param kept: Paths of nodes that exist and differ from what storage says: they stay.
    :param problems: Objects in storage that could not be used.
    """

    job_id: str
    runs: dict[int, JobState]
    recoverable: bool
    checkpoints: tuple[int, ...]
    savepoints: tuple[str, ...]
    counter: int
    highest_epoch: int
    missing: tuple[str, ...]
    kept: tuple[str, ...]
    problems: tuple[str, ...]


class AppliedView(View):
    """The changes that were made for a job.

    :param job_id: The job.
    :param created: Paths of the nodes that were made.
    :param kept: Paths of nodes that exist and differ from what storage says: they stay.
    :param epoch: Epoch of the job now; ``null`` if the rebuild changed nothing.
    :param refused: Why nothing, or not everything, was done; empty when it was.
    """

    job_id: str
    created: tuple[str, ...]
    kept: tuple[str, ...]
    epoch: int | None
    refused: str


class RebuildView(View):
    """A plan to make ZooKeeper's tree again, and the changes that were made.

    :param present: Jobs that ZooKeeper knows already.
    :param jobs: Jobs that storage knows.
    :param applied: The changes for each; empty without ``--yes``.
    """

    present: tuple[str, ...]
    jobs: tuple[RebuiltJobView, ...]
    applied: tuple[AppliedView, ...]


def rebuild_view(plan: RebuildPlan, applied: Sequence[Applied]) -> RebuildView:
    """Return the plan, and the changes that were made."""
    jobs = tuple(
        RebuiltJobView(
            job_id=job.job_id,
            runs=job.states,
            recoverable=job.pointer is not None,
            checkpoints=job.checkpoints,
            savepoints=job.savepoints,
            counter=job.counter,
            highest_epoch=job.highest_epoch,
            missing=tuple(plan.missing[job.job_id]),
            kept=tuple(plan.kept[job.job_id]),
            problems=job.problems,
        )
        for job in plan.jobs
    )
    return RebuildView(present=tuple(plan.present), jobs=jobs, applied=tuple(AppliedView.of(each) for each in applied))
