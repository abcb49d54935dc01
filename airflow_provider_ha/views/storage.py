"""Blobs in storage that nothing needs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.pointers.orphans import Orphans


class StorageCheckView(View):
    """Storage and work root that work.

    :param storage_root: URI of the storage.
    :param work_root: URI of the working directories; ``null`` when they lie below the storage root.
    :param notes: The operations that work at a cost, one sentence each.
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
    :param named: How many of them a record names.
    :param young: How many are not named and younger than 24 hours: an upload may be about to name them.
    :param orphans: The others.
    :param deleted: Keys of those that were deleted.
    :param problems: Records that could not be read. While there is one, nothing is deleted.
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
