"""The completed checkpoints of a job."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ha.checkpoints.model import CheckpointKind, CheckpointPointer, QueryCut
from airflow_provider_ha.views.unreadable import UnreadableView
from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.retention.listing import Listing


class CheckpointRow(View):
    """One checkpoint of a list: its pointer.

    :param number: Its number; never repeats within a job.
    :param epoch: Epoch that took it.
    :param run: Run that took it.
    :param reason: Why it was taken: ``periodic`` or ``stop``.
    :param payload: Key of its payload in storage.
    :param sha256: Digest of the payload.
    :param size: Bytes of the payload.
    :param cut: Query -> batch.
    :param created_at: When it was taken.
    :param seconds: How long the cut and the retention of its files took; ``null`` when that is not known.
    :param state_size: Bytes of its files; ``null`` when that is not known.
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

    :param job_id: The job.
    :param checkpoints: Newest first.
    :param unreadable: Pointers that are there and cannot be read.
    """

    job_id: str
    checkpoints: tuple[CheckpointRow, ...]
    unreadable: tuple[UnreadableView, ...]


class CheckpointView(View):
    """One checkpoint: a cut of all queries of a job.

    :param job_id: The job.
    :param number: Its number; never repeats within a job.
    :param run: Run that took it.
    :param epoch: Epoch that took it.
    :param reason: Why it was taken: ``periodic`` or ``stop``.
    :param created_at: When it was taken.
    :param queries: Query -> its part of the cut.
    :param directory: Key of the working directory that it was taken from.
    :param pin: Key of the directory with its files; ``null`` while they are only those of the working directory.
    :param graph: Digest of the job graph that wrote it.
    :param spark_version: Release that wrote it.
    """

    job_id: str
    number: int
    run: int
    epoch: int
    reason: CheckpointKind
    created_at: datetime
    queries: dict[str, QueryCut]
    directory: str
    pin: str | None
    graph: str
    spark_version: str


class CheckpointDeletedView(View):
    """A checkpoint of a job that is gone.

    :param job_id: The job.
    :param checkpoint: Its number.
    :param proven: The newest that is proven, ``checkpoint-9`` or ``savepoint-<id>``: it stays.
    :param kept: Key in storage of the bytes of its pointer, which could not be read; else ``null``.
    :param deleted: Always true.
    """

    job_id: str
    checkpoint: int
    proven: str
    kept: str | None = None
    deleted: bool = True


def checkpoint_list(job_id: str, listing: Listing[CheckpointPointer]) -> CheckpointListView:
    """Return the checkpoints of a job."""
    return CheckpointListView(
        job_id=job_id,
        checkpoints=tuple(CheckpointRow.of(pointer) for pointer in listing.pointers),
        unreadable=tuple(UnreadableView.of(pointer) for pointer in listing.unreadable),
    )
