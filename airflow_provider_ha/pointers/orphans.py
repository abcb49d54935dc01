"""Blobs that nothing needs (FLINK-2513): found, reported, and removed only when that is asked for.

Invariant (contract 2): a blob is garbage only when no graph, run, checkpoint payload or savepoint manifest names it and
it is older than 24 hours. One thing that cannot be read stops every deletion. An upload that finds its blob present
renews its time, so the time is looked at once more right before the deletion; between these two requests, an upload
that takes place as a whole would lose its blob.
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
    """What a scan found.

    :param blobs: How many blobs there are.
    :param named: How many of them something names.
    :param young: How many are not named and too young to be judged: an upload may be about to name them.
    :param garbage: The others, with the time at which they were last written or renewed.
    :param problems: What could not be read. While there is one, the garbage is only a guess, and nothing is deleted.
    """

    blobs: int
    named: int
    young: int
    garbage: tuple[ObjectInfo, ...]
    problems: tuple[Problem, ...]


def find_orphans(
    coordinator: Coordinator, cluster: ClusterPaths, store: ObjectStore, directories: Directories, *, clock: Clock
) -> Orphans:
    """Look for blobs that nothing needs. Changes nothing.

    :param directories: Those of the cluster, savepoints among them.
    :raises StorageUnavailableError: Storage or the file system could not be read: nothing is known.
    :raises CoordinationError: ZooKeeper could not be read: nothing is known.
    """
    limit = clock.now() - MIN_AGE
    blobs = dict(_blobs(store))  # first: what is uploaded later is not judged at all
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
    """Delete the garbage of a scan and return what was deleted; what was renewed since stays.

    :raises StorageError: Something could not be read by the scan, so nothing is deleted; or it cannot be deleted now.
    """
    if orphans.problems:
        first = orphans.problems[0]
        raise StorageError(
            f"nothing is deleted: {first.where} could not be read ({first.reason})",
            next_step="Repair or remove what the scan names, then scan again",
        )
    return [info for info in orphans.garbage if _delete(store, info)]


def _delete(store: ObjectStore, seen: ObjectInfo) -> bool:
    now = store.info(seen.key)
    if now is None or now.modified != seen.modified:
        log.info("blob %s was renewed or removed since the scan", seen.key)
        return False
    store.delete(seen.key)
    log.info("blob %s of %d bytes, last used %s, is deleted: nothing names it", seen.key, seen.size, seen.modified)
    return True


def _blobs(store: ObjectStore) -> Iterator[tuple[str, ObjectInfo]]:
    for info in store.list(keys.BLOBS):
        match = _BLOB.fullmatch(info.key)
        if match:
            yield match[1], info
