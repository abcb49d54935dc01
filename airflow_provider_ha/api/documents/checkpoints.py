"""Checkpoints and savepoints of a job, and savepoints as directories, archives and prefixes of S3."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ha.api.documents.view import UnreadableView, View, shows
from airflow_provider_ha.checkpoints.model import (
    Checkpoint,
    CheckpointKind,
    CheckpointPointer,
    Savepoint,
    SavepointPointer,
)


if TYPE_CHECKING:
    from airflow_provider_ha.api.documents.history import HistoryView
    from airflow_provider_ha.checkpoints.store.pointer_store import PointerListing
    from airflow_provider_ha.jobs.status import JobStatus


class CheckpointRow(View):
    """One checkpoint of a list: its pointer.

    :param size: Bytes of the payload.
    """

    number: int
    epoch: int
    run: int
    reason: CheckpointKind
    payload: str
    sha256: str
    size: int
    cut: dict[str, int]
    created_at: datetime
    seconds: float | None = None
    state_size: int | None = None


class CheckpointListView(View):
    """The completed checkpoints of a job.

    :param checkpoints: Newest first.
    :param unreadable: Pointers that are there and cannot be read.
    :param taken: How many checkpoints were ever taken; ``null`` when that was not read, as the next two.
    :param failed: How many the leading driver could not take; ``null`` without one.
    :param restored: Number of resumptions from a checkpoint or savepoint, by the known runs and their restarts.
    """

    job_id: str
    checkpoints: tuple[CheckpointRow, ...]
    unreadable: tuple[UnreadableView, ...]
    taken: int | None = None
    failed: int | None = None
    restored: int | None = None

    @property
    def counts(self) -> str:
        """The counts as a sentence, without its final stop."""
        kept = len(self.checkpoints)
        failed = "" if self.failed is None else f"; {self.failed:,} failed under this driver"
        again = f"{self.restored or 0:,} {'time' if self.restored == 1 else 'times'}"
        counted = f"{self.taken or 0:,} checkpoints taken, {kept:,} kept{failed}"
        return f"{counted}; the job has resumed {again} from one of them"


@shows(Checkpoint, "job_id number run epoch reason created_at queries directory pin graph spark_version")
class CheckpointView(View):
    """One checkpoint: a cut of all queries of a job."""


class CheckpointDeletedView(View):
    """A checkpoint of a job that is deleted, or can be.

    :param checkpoint: Its number.
    :param proven: The newest that is proven, ``checkpoint-9`` or ``savepoint-<id>``: it stays.
    :param kept: Key in storage of the bytes of its pointer, which could not be read; else ``null``.
    :param deleted: False with ``--dry-run``.
    """

    job_id: str
    checkpoint: int
    proven: str
    kept: str | None = None
    deleted: bool = True


def checkpoint_list(
    job_id: str,
    listing: PointerListing[CheckpointPointer],
    *,
    snapshot: JobStatus | None = None,
    history: HistoryView | None = None,
) -> CheckpointListView:
    """Return the checkpoints of a job; with its snapshot and its history, also their counts."""
    leader, status = (snapshot.leader, snapshot.status) if snapshot is not None else (None, None)
    told = status if leader is not None and status is not None and status.epoch == leader.epoch else None
    return CheckpointListView.of(
        listing,
        job_id=job_id,
        checkpoints=listing.pointers,
        taken=snapshot.checkpoint_counter if snapshot is not None else None,
        failed=told.failed_checkpoints if told is not None else None,
        restored=history.restored if history is not None else None,
    )


class NewSavepointView(View):
    """A savepoint that is complete.

    :param directory: Its path, or its URI on S3.
    :param files: How many files it has.
    :param bytes: Their size.
    """

    savepoint_id: str
    directory: str
    cut: dict[str, int]
    files: int
    bytes: int
    shares_inodes: bool
    digested: bool


class SavepointRow(View):
    """One savepoint of a list: its pointer.

    :param directory: Key of its directory.
    :param manifest_sha256: Digest of its manifest.
    :param size: Bytes of its files.
    """

    savepoint_id: str
    directory: str
    manifest_sha256: str
    size: int
    cut: dict[str, int]
    schedule: str | None
    label: str
    created_at: datetime
    claimed_by: int | None


class SavepointListView(View):
    """The savepoints of a job.

    :param savepoints: Newest first.
    :param unreadable: Pointers that are there and cannot be read.
    """

    job_id: str
    savepoints: tuple[SavepointRow, ...]
    unreadable: tuple[UnreadableView, ...]


@shows(
    Savepoint,
    "savepoint_id job_id run epoch created_at label schedule queries files shares_inodes digested graph spark_version",
)
class SavepointView(View):
    """One savepoint of a job: its manifest."""


class SavepointDeletedView(View):
    """A savepoint that is deleted, or can be.

    :param job_id: The job; empty for a savepoint at a URI.
    :param savepoint_id: Its id, or its URI.
    :param deleted: False with ``--dry-run``.
    """

    job_id: str = ""
    savepoint_id: str
    deleted: bool = True


class SavepointExportView(View):
    """An archive that was written.

    :param savepoint_id: The savepoint in it.
    :param archive: Path of the archive.
    :param bytes: Its size.
    """

    savepoint_id: str
    archive: str
    bytes: int


class SavepointRestoreView(View):
    """Checkpoint locations that were made of a savepoint.

    :param savepoint_id: The savepoint.
    :param checkpoints: Query -> its checkpoint location.
    """

    savepoint_id: str
    checkpoints: dict[str, str]


def savepoint_list(job_id: str, listing: PointerListing[SavepointPointer]) -> SavepointListView:
    """Return the savepoints of a job."""
    return SavepointListView.of(listing, job_id=job_id, savepoints=listing.pointers)
