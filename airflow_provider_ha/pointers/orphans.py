"""Unreferenced blobs (FLINK-2513): found, reported, and removed only on request.

Invariant (contract 2): a blob is garbage only when it is older than 24 hours and no graph, run, checkpoint payload or
savepoint manifest refers to it. A single unreadable object stops every deletion. An upload of an existing blob renews
the blob's time, so the time is read again right before the deletion; an upload that happens entirely between these two
requests would lose its blob.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import StorageError
from airflow_provider_ha.pointers.census import Problem, take_census
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.directories import Directories
from airflow_provider_ha.storage.store import ObjectInfo, ObjectStore


log = logging.getLogger(__name__)

MIN_AGE = timedelta(hours=24)  # longer than any submission takes from its first upload to its run
_BLOB = re.compile(rf"{keys.BLOBS}[0-9a-f]{{2}}/([0-9a-f]{{64}})")


@dataclass(frozen=True, slots=True)
class Orphans:
    """Result of a scan.

    :param blobs: Number of blobs.
    :param named: Number of referenced blobs.
    :param young: Number of unreferenced blobs that are too young to be judged: an upload may be about to refer to them.
    :param garbage: The other blobs, with the time of their last write or renewal.
    :param problems: Unreadable objects. With any, the garbage is only a guess and is kept.
    """

    blobs: int
    named: int
    young: int
    garbage: tuple[ObjectInfo, ...]
    problems: tuple[Problem, ...]


def find_orphans(
    coordinator: Coordinator, cluster: ClusterPaths, store: ObjectStore, directories: Directories, *, clock: Clock
) -> Orphans:
    """Find unreferenced blobs. Changes nothing.

    :param directories: Directories of the cluster, including savepoints.
    :raises StorageUnavailableError: Storage or the file system could not be read.
    :raises CoordinationError: ZooKeeper could not be read.
    """
    limit = clock.now() - MIN_AGE
    blobs = dict(_blobs(store))  # first: later uploads are not judged at all
    census = take_census(coordinator, cluster, store, directories, blobs.keys())
    unnamed = [info for digest, info in blobs.items() if digest not in census.digests]
    garbage = tuple(info for info in unnamed if info.modified < limit)
    return Orphans(
        blobs=len(blobs),
        named=len(blobs) - len(unnamed),
        young=len(unnamed) - len(garbage),
        garbage=garbage,
        problems=tuple(census.problems),
    )


def delete_orphans(store: ObjectStore, orphans: Orphans) -> list[ObjectInfo]:
    """Delete the garbage of a scan and return the deleted blobs; renewed blobs stay.

    :raises StorageError: The scan could not read everything, and so all blobs are kept; or a deletion failed.
    """
    if orphans.problems:
        first = orphans.problems[0]
        raise StorageError(
            f"nothing is deleted: {first.where} could not be read ({first.reason})",
            next_step="Repair or remove the named records, then scan again",
        )
    return [info for info in orphans.garbage if _delete(store, info)]


def _delete(store: ObjectStore, seen: ObjectInfo) -> bool:
    now = store.info(seen.key)
    if now is None or now.modified != seen.modified:
        log.info("blob %s was renewed or removed since the scan", seen.key)
        return False
    store.delete(seen.key)
    log.info("blob %s of %d bytes, last used %s, is deleted: it is unreferenced", seen.key, seen.size, seen.modified)
    return True


def _blobs(store: ObjectStore) -> Iterator[tuple[str, ObjectInfo]]:
    for info in store.list(keys.BLOBS):
        match = _BLOB.fullmatch(info.key)
        if match:
            yield match[1], info
