"""Documents about storage and znodes: check, cleanup, export, wrong ACLs, and rebuild."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from airflow_provider_ha.api.documents.view import View, shows
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.storage.object_store import ObjectInfo


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.areas.layered.garbage import GarbageSearch
    from airflow_provider_ha.jobs.rebuild.rebuild import RebuildPlan, RebuildResult


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


class ArchiveView(View):
    """A class archive of this host.

    :param key: Digest of its JVM and class path.
    :param path: The file.
    :param bytes: Its size.
    :param spark: Release of Spark.
    :param java: The JVM.
    :param seconds: Time that its training took.
    :param made_at: When it was made.
    :param used_at: When a driver last mapped it.
    """

    key: str
    path: str
    bytes: int
    spark: str
    java: str
    seconds: float
    made_at: datetime
    used_at: datetime


class ArchiveListView(View):
    """The class archives of this user on this host.

    :param directory: Their directory.
    :param archives: Sorted by their keys.
    """

    directory: str
    archives: tuple[ArchiveView, ...]


class ArchivesRemovedView(View):
    """Class archives that were removed.

    :param directory: Their directory.
    :param removed: Their keys.
    """

    directory: str
    removed: tuple[str, ...]


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

    blobs: int = 0
    named: int = 0
    young: int = 0
    orphans: tuple[OrphanView, ...] = ()
    deleted: tuple[str, ...] = ()
    problems: tuple[ProblemView, ...] = ()


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


class StorageCleanView(View):
    """A cleanup of storage: its plan or its result.

    :param retained_runs: How many runs of a job stay, of any age.
    :param retained_days: For how many days a run stays in any case after its end.
    :param dry_run: Whether this was a dry run, which removes nothing.
    :param jobs: Records of the ended runs of each job, in order.
    :param files: Files in the working directories of each job; empty for a work root with links.
    :param blobs: Blobs that no record names, older than 24 hours; a dry run leaves out those of removable runs.
    """

    retained_runs: int
    retained_days: float
    dry_run: bool
    jobs: tuple[JobPruneView, ...]
    files: tuple[JobCollectionView, ...]
    blobs: OrphansView


class WrongAclView(View):
    """One node whose ACL differs.

    :param path: The node.
    """

    path: str
    acl: str
    refused: bool


class AclsView(View):
    """The result of a check or a repair.

    :param nodes: How many nodes were read.
    :param found: Number of wrong nodes, before the repair.
    :param left: How many are still wrong.
    :param wrong: The nodes that are wrong, or were wrong before the repair.
    """

    nodes: int
    found: int
    left: int
    wrong: tuple[WrongAclView, ...]


class RebuiltJobView(View):
    """The tree of a job after the rebuild.

    :param runs: Run -> its state after the rebuild; ``LOST`` for the run that can be recovered.
    :param recoverable: Whether the newest run has to be recovered.
    :param checkpoints: Numbers of its checkpoints.
    :param savepoints: Ids of its savepoints.
    :param missing: Paths of the nodes that have to be made.
    :param kept: Paths of nodes that exist and differ from what storage says: they stay.
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


class RebuildResultView(View):
    """The changes that were made for a job."""

    job_id: str
    created: tuple[str, ...]
    kept: tuple[str, ...]
    epoch: int | None
    refused: str


class RebuildView(View):
    """A plan to make ZooKeeper's tree again, and the changes that were made.

    :param present: Jobs that ZooKeeper knows already.
    :param jobs: Jobs that storage knows.
    :param applied: The changes for each; empty with ``--dry-run``.
    """

    present: tuple[str, ...]
    jobs: tuple[RebuiltJobView, ...]
    applied: tuple[RebuildResultView, ...]


def rebuild_view(plan: RebuildPlan, applied: Sequence[RebuildResult]) -> RebuildView:
    """Return the plan, and the changes that were made."""
    jobs = [
        RebuiltJobView.of(
            job,
            runs=job.states,
            recoverable=job.pointer is not None,
            missing=plan.missing[job.job_id],
            kept=plan.kept[job.job_id],
        )
        for job in plan.jobs
    ]
    return RebuildView.of(plan, jobs=jobs, applied=applied)


_ONLY_WHERE_THERE = ("kind", "record", "text", "undecodable")


class NodeView(View):
    """One znode.

    :param path: Its path.
    :param kind: Kind of its record; left out when it holds none.
    :param record: The fields of the record; left out when it holds none.
    :param text: The content of a node without a record: a number, a time; left out otherwise.
    :param undecodable: Why it could not be decoded; left out when it could.
    :param children: The nodes below it.
    """

    path: str
    version: int
    modified_zxid: int
    ephemeral_owner: int
    size: int
    sha256: str
    kind: str
    record: dict[str, Any] | None
    text: str | None
    undecodable: str
    children: tuple[NodeView, ...]

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value or name not in _ONLY_WHERE_THERE}


class TreeView(View):
    """A node and everything below it.

    :param root: Path of the node.
    :param tree: The node; ``null`` when it does not exist.
    """

    root: str
    tree: NodeView | None
