"""Savepoints of a job, and savepoints as directories, archives and prefixes of S3."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ha.api.documents.view import UnreadableView, View, shows
from airflow_provider_ha.checkpoints.model import Savepoint, SavepointPointer


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.store.pointer_store import PointerListing


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


class SavepointDisposalView(View):
    """A savepoint that is gone.

    :param job_id: The job; empty for a savepoint at a URI.
    :param savepoint_id: Its id, or its URI.
    :param disposed: Always true.
    """

    job_id: str = ""
    savepoint_id: str
    disposed: bool = True


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
