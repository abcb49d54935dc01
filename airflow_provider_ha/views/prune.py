"""What runs that are long over have left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ha.views.storage import ProblemView
from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.control.administration.prune import Pruned
    from airflow_provider_ha.pointers.orphans import Orphans


class JobPruneView(View):
    """Remaining records of a job's ended runs.

    :param job_id: The job.
    :param runs: Number of recorded runs of the job.
    :param expendable: Number of runs that can be removed: beyond both limits, and not needed.
    :param submissions: How many submissions these have.
    :param tasks: How many tasks had started or followed them.
    :param outputs: How many claims of outputs are of runs that are over.
    :param leases: How many checkpoints and savepoints that are gone have leases that have expired.
    :param removed: How many runs were removed.
    :param kept: Run -> reason why it stays, for runs that are old enough to be removed.
    :param left_to: What removes them, when this was not done here; empty when it was.
    :param problem: Why nothing, or not everything, was removed; empty when there is no reason.
    """

    job_id: str
    runs: int = 0
    expendable: int = 0
    submissions: int = 0
    tasks: int = 0
    outputs: int = 0
    leases: int = 0
    removed: int = 0
    kept: dict[int, str] = {}
    left_to: str = ""
    problem: str = ""


class BlobPruneView(View):
    """Unreferenced blobs of the cluster that are older than 24 hours.

    :param needless: How many there are.
    :param bytes: Their size.
    :param removed: How many were removed.
    :param problems: Records that could not be read. While there are any, blobs stay.
    """

    needless: int = 0
    bytes: int = 0
    removed: int = 0
    problems: tuple[ProblemView, ...] = ()


class PruneView(View):
    """Jobs whose past runs were looked through.

    :param retained_runs: How many runs of a job stay, of any age.
    :param retained_days: For how many days a run stays in any case after its end.
    :param dry_run: Whether this was a dry run, which removes nothing.
    :param jobs: The jobs, in order.
    :param blobs: Result of the blob removal that follows; a dry run leaves out blobs that runs still name.
    """

    retained_runs: int
    retained_days: float
    dry_run: bool
    jobs: tuple[JobPruneView, ...]
    blobs: BlobPruneView


def job_prune_view(job_id: str, found: Pruned) -> JobPruneView:
    """Return what was found of one job."""
    return JobPruneView(
        job_id=job_id,
        runs=found.runs,
        expendable=len(found.expendable),
        submissions=found.submissions,
        tasks=found.tasks,
        outputs=found.outputs,
        leases=found.leases,
        removed=found.removed,
        kept=found.kept,
        left_to=found.left_to,
    )


def blob_prune_view(found: Orphans, removed: int) -> BlobPruneView:
    """Return what was found of blobs.

    :param removed: How many were removed.
    """
    return BlobPruneView(
        needless=len(found.garbage),
        bytes=sum(info.size for info in found.garbage),
        removed=removed,
        problems=tuple(ProblemView.of(problem) for problem in found.problems),
    )
