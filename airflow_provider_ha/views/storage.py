"""Blobs in storage and files of working directories that nothing needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.working.layered.garbage import Search
    from airflow_provider_ha.pointers.orphans import Orphans


class StorageCheckView(View):
    """Storage and work root that work.

    :param storage_root: URI of the storage.
    :param work_root: URI of the working directories; ``null`` when they are below the storage root.
    :param notes: The operations that work but are slow, one sentence each.
    """

    storage_root: str
    work_root: str | None
    notes: tuple[str, ...]


class OrphanView(View):
    """A blob that no record names.

    :param key: Its key, relative to the storage root.
    :param size: Its bytes.
    :param modified: When it was last written or renewed.
    """

    key: str
    size: int
    modified: datetime


class ProblemView(View):
    """Something that may name blobs and could not be read.

    :param where: Znode, key or path.
    :param reason: Why it cannot be used.
    """

    where: str
    reason: str


class OrphansView(View):
    """The result of a scan of the blobs.

    :param blobs: How many blobs there are.
    :param named: Number of blobs that a record names.
    :param young: How many are not named and younger than 24 hours: an upload may be about to name them.
    :param orphans: The others.
    :param deleted: Keys of the deleted blobs.
    :param problems: Records that could not be read. While there are any, all blobs stay.
    """

    blobs: int
    named: int
    young: int
    orphans: tuple[OrphanView, ...]
    deleted: tuple[str, ...]
    problems: tuple[ProblemView, ...]


def orphans_view(found: Orphans, deleted: Sequence[str]) -> OrphansView:
    """Return what a scan found.

    :param deleted: Keys that were deleted.
    """
    return OrphansView(
        blobs=found.blobs,
        named=found.named,
        young=found.young,
        orphans=tuple(OrphanView.of(info) for info in found.garbage),
        deleted=tuple(deleted),
        problems=tuple(ProblemView.of(problem) for problem in found.problems),
    )


class JobCollectionView(View):
    """Files of a job's working directories.

    :param job_id: The job.
    :param directories: Number of working directories of the job, including ended ones.
    :param files: How many files they have.
    :param bytes: Their size.
    :param needless: Number of files without a batch or checkpoint that needs them.
    :param needless_bytes: Their size.
    :param by_reason: Reason -> how many: ``purged`` (Spark would have removed it), ``over`` (its directory is over, and
        no other one names it), ``unfinished`` (its writer died).
    :param removed: How many were removed.
    :param problem: Why nothing, or not everything, was removed; empty when there is no reason.
    """

    job_id: str
    directories: int = 0
    files: int = 0
    bytes: int = 0
    needless: int = 0
    needless_bytes: int = 0
    by_reason: dict[str, int] = {}
    removed: int = 0
    problem: str = ""


class CollectionView(View):
    """Working directories that were looked through.

    :param dry_run: Whether this was a dry run, which removes nothing.
    :param jobs: The jobs, in order.
    """

    dry_run: bool
    jobs: tuple[JobCollectionView, ...]


def job_collection_view(job_id: str, found: Search, removed: int) -> JobCollectionView:
    """Return what was found of one job.

    :param removed: How many files of it were removed.
    """
    return JobCollectionView(
        job_id=job_id,
        directories=found.directories,
        files=found.seen,
        bytes=found.size,
        needless=len(found.garbage),
        needless_bytes=sum(item.size for item in found.garbage),
        by_reason=dict(Counter(item.why.value for item in found.garbage)),
        removed=removed,
    )
