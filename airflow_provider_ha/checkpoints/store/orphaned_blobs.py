"""Unreferenced blobs (FLINK-2513): found, reported, and removed on request or once a day.

Invariant (contract 2): a blob is garbage only when it is older than 24 hours and no graph, run, checkpoint payload or
savepoint manifest refers to it. A single unreadable object stops every deletion. An upload of an existing blob renews
the blob's time, so the time is read again right before the deletion; an upload that happens entirely between these two
requests would lose its blob.

Each run with other arguments leaves a graph. It follows the rules of ``spark-ha storage orphans --delete``
(``pointers.orphans``): only blobs older than 24 hours, and only when every possible reference was read. The time of the
last collection is the time of an object next to the blobs, so that a new process does not repeat it.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from airflow_provider_ha.checkpoints.store.blob_references import UnreadableReference, take_census
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import HaError, StorageError
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.object_store import Directories, ObjectInfo, ObjectStore


log = logging.getLogger(__name__)

MIN_AGE = timedelta(hours=24)  # longer than any submission takes from its first upload to its run
_BLOB = re.compile(rf"{keys.BLOBS}[0-9a-f]{{2}}/([0-9a-f]{{64}})")


@dataclass(frozen=True, slots=True)
class OrphanedBlobs:
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
    problems: tuple[UnreadableReference, ...]


def find_orphans(
    coordinator: Coordinator, cluster: ClusterPaths, store: ObjectStore, directories: Directories, *, clock: Clock
) -> OrphanedBlobs:
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
    return OrphanedBlobs(
        blobs=len(blobs),
        named=len(blobs) - len(unnamed),
        young=len(unnamed) - len(garbage),
        garbage=garbage,
        problems=tuple(census.problems),
    )


def delete_orphans(store: ObjectStore, orphans: OrphanedBlobs) -> list[ObjectInfo]:
    """Delete the garbage of a scan and return the deleted blobs; renewed blobs stay.

    :raises StorageError: The scan could not read everything, and so all blobs are kept; or a deletion failed.
    """
    if orphans.problems:
        first = orphans.problems[0]
        raise StorageError(
            f"no blob is deleted: {first.where} could not be read ({first.reason})",
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


INTERVAL = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class OrphanCollection:
    """The collections of a cluster. Owns nothing; safe in any thread and process.

    :param directories: Directories of the cluster, including savepoints.
    :param prove: Raises when this process no longer leads the cluster or a job in it.
    """

    coordinator: Coordinator
    cluster: ClusterPaths
    store: ObjectStore
    directories: Directories
    clock: Clock
    prove: Callable[[], None]

    def collect(self) -> int | None:
        """Remove unreferenced blobs, unless a process did so in the last 24 hours; return their number.

        :returns: ``None`` after a recent collection.
        :raises LeadershipError: This process no longer leads.
        :raises HaError: Something could not be read or removed.
        """
        store = self.store
        done = store.info(keys.BLOB_COLLECTION)
        if done is not None and self.clock.now() - done.modified < INTERVAL:
            return None
        self.prove()
        store.write(keys.BLOB_COLLECTION, b"")  # first: what fails is not tried again and again
        found = find_orphans(self.coordinator, self.cluster, store, self.directories, clock=self.clock)
        for problem in found.problems:
            log.warning("no blob is removed: %s could not be read: %s", problem.where, problem.reason)
        if found.problems:
            return 0
        self.prove()  # guard: a-former-leader-collects-blobs
        removed = delete_orphans(store, found)
        log.info("%d of %d blobs were no longer referenced and are removed", len(removed), found.blobs)
        return len(removed)

    def attempt(self) -> None:
        """Collect as :meth:`collect` does. Errors are logged: the blobs stay until the next collection."""
        try:
            self.collect()
        except (HaError, OSError) as error:
            log.warning("unreferenced blobs stay until the next collection: %s", error)

    def begin(self) -> threading.Thread:
        """Start an attempt in a daemon thread."""
        thread = threading.Thread(target=self._run, name="ha-blobs", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        try:
            self.attempt()
        except Exception:  # top of a thread: no caller would see it
            log.exception("unreferenced blobs could not be collected")
