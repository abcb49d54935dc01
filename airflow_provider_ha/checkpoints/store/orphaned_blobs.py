"""Unreferenced blobs (FLINK-2513): found, reported, and removed on request or once a day.

Invariant (contract 2): a blob is garbage only when it is older than 24 hours and no graph, run, checkpoint payload or
savepoint manifest refers to it. A single unreadable object stops every deletion. An upload of an existing blob renews
the blob's time, so the time is read again right before the deletion; an upload that happens entirely between these two
requests would lose its blob.

Invariants of the references: storage is read before ZooKeeper. A restore may name an old blob in a new run while the
checkpoint that named it before goes; a reader that misses the checkpoint then sees the run. Rather too many digests
than too few: every text of 64 hex digits counts, in any field; and bytes that differ from the writer's are an error,
because a digest in them may be damaged.

Each run with other arguments leaves a graph. The time of the last collection is the time of an object next to the
blobs, so that a new process does not repeat it.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import ConfigurationError, HaError, ObjectMissingError, RecordCorruptError, StorageError
from airflow_provider_ha.names import RESERVED_JOB_IDS
from airflow_provider_ha.records import checksum
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.blobs import get_blob
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import Directories, ObjectInfo, ObjectStore


log = logging.getLogger(__name__)
MIN_AGE = timedelta(hours=24)  # of garbage: longer than any submission takes from its first upload to its run
INTERVAL = timedelta(hours=24)  # between two collections
_BLOB = re.compile(rf"{keys.BLOBS}[0-9a-f]{{2}}/([0-9a-f]{{64}})")
_DIGEST = re.compile(r"[0-9a-f]{64}")
# Nodes below these names are no records and name no blob.
_NO_RECORDS = frozenset({"job_manager_lock", "resource_manager_lock", "checkpoint_id_counter"})


@dataclass(frozen=True, slots=True)
class RecordReferences:
    """Digests and texts of a record.

    :param digests: Digests, of blobs and of other objects.
    :param graphs: The subset that certainly are blobs: job graphs, which refer to further blobs.
    :param fields: Texts by field name; the last one of equal names.
    """

    kind: str
    digests: frozenset[str]
    graphs: frozenset[str]
    fields: dict[str, str]


def mentions(data: bytes, source: str) -> RecordReferences:
    """Return the digests and texts of a record.

    :raises RecordCorruptError: The data is not a record, or differs from its writer's data.
    """
    try:
        envelope = json.loads(data)
        kind, body = str(envelope["kind"]), envelope["body"]
        intact = checksum(body) == envelope["checksum"]
    except (ValueError, KeyError, TypeError) as error:
        raise RecordCorruptError(f"{source} does not hold a record ({error})") from error
    if not intact:
        raise RecordCorruptError(f"{source} has a wrong checksum")
    found = list(_texts("", body))
    return RecordReferences(
        kind=kind,
        digests=frozenset(text for _, text in found if _DIGEST.fullmatch(text)),
        graphs=frozenset(text for name, text in found if name in ("graph", "graph.sha256") and _DIGEST.fullmatch(text)),
        fields=dict(item for item in found if item[0]),
    )


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield every text with its field name; the name of a map's key is empty."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(name, item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield "", key
            yield from _texts(f"{name}.{key}" if name == "graph" else key, item)


@dataclass(frozen=True, slots=True)
class UnreadableReference:
    """A possible reference to blobs that could not be read.

    :param where: Znode, key or path.
    :param reason: Why it cannot be used.
    """

    where: str
    reason: str


@dataclass(slots=True)
class BlobReferences:
    """References to blobs in a cluster.

    :param digests: Every possible digest of a needed blob.
    :param problems: Unreadable references; with any, the digests may be incomplete.
    """

    digests: set[str] = field(default_factory=set)
    problems: list[UnreadableReference] = field(default_factory=list)


def take_census(
    coordinator: Coordinator,
    cluster: ClusterPaths,
    store: ObjectStore,
    directories: Directories,
    blobs: AbstractSet[str],
) -> BlobReferences:
    """Read all references to blobs.

    :raises CoordinationError: ZooKeeper could not be read.
    """
    taker = _Taker(coordinator, cluster, store, directories)
    taker.read_storage()
    taker.read_tree()
    taker.follow_graphs(blobs)
    return taker.census


class _Taker:
    def __init__(
        self, coordinator: Coordinator, cluster: ClusterPaths, store: ObjectStore, directories: Directories
    ) -> None:
        self.census = BlobReferences()
        self._coordinator = coordinator
        self._cluster = cluster
        self._store = store
        self._directories = directories
        self._graphs: dict[str, str] = {}  # digest -> what names it

    def read_storage(self) -> None:
        """Read payloads, journals and manifests of every job known to ZooKeeper or the file system."""
        known = set(self._coordinator.children(self._cluster.base)) - RESERVED_JOB_IDS
        if known:
            self._directories.require()
        found = set(self._directories.list(keys.JOBS))
        for job_id in sorted(found - known):
            self._problem(f"job {job_id}", "it has files, and ZooKeeper does not know it: rebuild its nodes first")
        for job_id in sorted(known | found):
            try:
                job = JobKeys(job_id)
            except ConfigurationError as error:
                self._problem(f"job {job_id}", error.message)
                continue
            # Archives after payloads: an archive is complete before the first payload that it holds goes.
            for prefix in (job.payloads, job.archive_heads, job.journals):
                for info in self._store.list(prefix):
                    self._read_object(info.key)
            for name in self._directories.list(job.savepoints):
                self._read_manifest(f"{job.savepoints}{name}")

    def read_tree(self) -> None:
        """Read every znode of the cluster."""
        if self._coordinator.find(self._cluster.base) is None:
            self._problem(self._cluster.base, "ZooKeeper has no nodes of this cluster: rebuild them first")
        for path in self._nodes(self._cluster.base):
            node = self._coordinator.find(path)
            if node is not None and node.data:
                self._note(f"znode {path}", node.data)

    def follow_graphs(self, blobs: AbstractSet[str]) -> None:
        """Read the job graphs and all other blobs found so far: the blobs that they refer to are needed too."""
        for digest in sorted(self._graphs.keys() - blobs):
            if self._store.info(keys.blob(digest)) is None:
                self._problem(f"job graph {digest}", f"{self._graphs[digest]} names it, and it is not there")
        for digest in sorted(self.census.digests & blobs):
            self._read_blob(digest)

    def _nodes(self, path: str) -> Iterator[str]:
        for name in self._coordinator.children(path):
            if name not in _NO_RECORDS:
                yield f"{path}/{name}"
                yield from self._nodes(f"{path}/{name}")

    def _read_object(self, key: str) -> None:
        try:
            self._note(key, self._store.read(key))
        except ObjectMissingError:
            return  # removed since it was listed: its references are no longer needed, or are repeated elsewhere

    def _read_blob(self, digest: str) -> None:
        try:
            data = get_blob(self._store, digest)
        except ObjectMissingError:
            return
        except RecordCorruptError as error:
            self._problem(f"blob {digest}", error.message)
            return
        try:
            self.census.digests |= mentions(data, f"blob {digest}").digests
        except RecordCorruptError as error:
            if digest in self._graphs:
                self._problem(f"blob {digest}", error.message)
            # Else it is whole, as its digest says, and no record: a file of an application.

    def _note(self, where: str, data: bytes) -> None:
        try:
            found = mentions(data, where)
        except RecordCorruptError as error:
            self._problem(where, error.message)
            return
        self.census.digests |= found.digests
        for digest in found.graphs:
            self._graphs.setdefault(digest, where)
        if found.kind == "checkpoint-pointer" and "payload" in found.fields:
            self._require(where, found.fields["payload"], lambda key: self._store.info(key) is not None)
        if found.kind == "savepoint-pointer" and "directory" in found.fields:
            self._require(where, found.fields["directory"], lambda key: self._has_manifest(where, key))

    def _require(self, where: str, key: str, exists: Callable[[str], bool]) -> None:
        """Report a problem if the target of a pointer is missing: its references are unknown."""
        if not exists(key):
            self._problem(where, f"it refers to {key}, which is not there")

    def _has_manifest(self, where: str, key: str) -> bool:
        """Return whether a savepoint's pointer refers to a manifest in the location of this savepoint."""
        job_id, _, savepoint_id = where.split("/")[-3:]
        try:
            own = JobKeys(job_id)
            self._directories.admit(key, inside=(own.savepoints,), source=where)
        except (ConfigurationError, RecordCorruptError) as error:
            self._problem(where, error.message)
            return True  # it is named already
        return key == own.savepoint(savepoint_id) and self._directories.read(key, MANIFEST) is not None

    def _read_manifest(self, key: str) -> None:
        data = self._directories.read(key, MANIFEST)
        if data is not None:
            self._note(f"{key}/{MANIFEST}", data)
        elif self._directories.contains(key):  # else it was removed since it was listed
            self._problem(key, f"it has no {MANIFEST}")

    def _problem(self, where: str, reason: str) -> None:
        self.census.problems.append(UnreadableReference(where, reason))


@dataclass(frozen=True, slots=True)
class OrphanedBlobs:
    """Result of a scan.

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


@dataclass(frozen=True, slots=True)
class OrphanCollection:
    """The collections of a cluster. Owns nothing; safe in any thread and process.

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
