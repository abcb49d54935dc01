"""Storage: its check, unneeded blobs and files, and the removal of the records of old runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from airflow_provider_ha.api.documents.view import View, shows
from airflow_provider_ha.storage.object_store import ObjectInfo


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.areas.layered.garbage import GarbageSearch
    from airflow_provider_ha.checkpoints.store.orphaned_blobs import OrphanedBlobs


class StorageCheckView(View):
    """Storage and work root that work.

    :param storage_root: URI of the storage.
    :param work_root: URI of the working directories; ``null`` when they are below the storage root.
    :param notes: The operations that work but are slow, one sentence each.
    """

    storage_root: str
    work_root: str | None
    notes: tuple[str, ...]


@shows(ObjectInfo, "key size modified")
class OrphanView(View):
    """A blob that no record names."""


class ProblemView(View):
    """Something that may name blobs and could not be read."""

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


class JobCollectionView(View):
    """Files of a job's working directories.

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


def job_collection_view(job_id: str, found: GarbageSearch, removed: int) -> JobCollectionView:
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


class JobPruneView(View):
    """Remaining records of a job's ended runs.

    :param expendable: Number of runs that can be removed: beyond both limits, and not needed.
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


def blob_prune_view(found: OrphanedBlobs, removed: int) -> BlobPruneView:
    """Return what was found of blobs.

    :param removed: How many were removed.
    """
    size = sum(info.size for info in found.garbage)
    return BlobPruneView.of(found, needless=len(found.garbage), bytes=size, removed=removed)
