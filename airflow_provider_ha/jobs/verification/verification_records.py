"""Records of verifications and restore drills, for users.

Both are in storage, not in ZooKeeper: no decision depends on them, and they survive a loss of ZooKeeper's data. The
record of a drill is written once, at its end, and never changed. The record of a job's last verification is replaced by
the next one, so its size does not grow. Like the XCom of a verification it has codes, file names and reasons, and no
data of users.
"""

from __future__ import annotations

import builtins
import threading
from collections import OrderedDict
from datetime import datetime
from enum import Enum
from typing import ClassVar

from airflow_provider_ha.checkpoints.store.pointer_scan import UnreadableRecord
from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError, RecordCorruptError
from airflow_provider_ha.records import Model, Record
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectInfo, ObjectStore


MOST_FINDINGS = 100


class FindingRecord(Model):
    """A finding.

    :param code: Its code (page Findings of a verification).
    :param file: The file, relative to the directory of the queries.
    :param blocks: Whether it keeps Spark from starting; ``None`` if unknown.
    """

    code: str
    file: str
    blocks: bool | None = None


class LastVerification(Record):
    """``jobs/<job>/verification.json``: the last verification of a checkpoint or savepoint of the job.

    :param source: ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param taken_at: Creation time of the checkpoint or savepoint.
    :param cut: Query -> N.
    :param at: End of the verification.
    :param depth: ``quick``, ``full`` or ``prove``.
    :param spark_version: Spark release that the result holds for; empty for the installed release.
    :param restorable: Whether it can be restored; ``None`` if Spark gave no answer.
    :param problem: First problem that prevents a restore; empty without a problem.
    :param findings: At most ``MOST_FINDINGS``, beginning with the findings that keep Spark from starting.
    :param findings_left_off: Number of further findings.
    :param proofs: Query -> reason why Spark has not proven it; empty if it has.
    :param requested_by: The requester.
    """

    kind: ClassVar[str] = "last-verification"

    job_id: str
    source: str
    taken_at: datetime
    cut: dict[str, int]
    at: datetime
    depth: str
    spark_version: str = ""
    restorable: bool | None
    problem: str = ""
    findings: tuple[FindingRecord, ...] = ()
    findings_left_off: int = 0
    proofs: dict[str, str] = {}
    requested_by: str


def write_last_verification(store: ObjectStore, keys: JobKeys, found: LastVerification) -> None:
    """Store a verification, replacing the previous one.

    :raises StorageUnavailableError: The write failed, or its outcome is unknown.
    """
    store.write(keys.last_verification, found.to_bytes())


def read_last_verification(store: ObjectStore, keys: JobKeys) -> LastVerification | None:
    """Return the last verification; ``None`` without one.

    :raises RecordCorruptError: The record is damaged.
    :raises StorageUnavailableError: The record could not be read.
    """
    try:
        return LastVerification.from_bytes(store.read(keys.last_verification), source=keys.last_verification)
    except ObjectMissingError:
        return None


KEPT_AT_MOST = 100  # two years of weekly drills


class DrillVerdict(str, Enum):
    """The result of a drill."""

    PASSED = "PASSED"
    FAILED = "FAILED"  # not restorable, too old, or too slow
    UNKNOWN = "UNKNOWN"  # Spark gave no answer


class DrilledQuery(Model):
    """The result of a query in a drill.

    :param batch: The batch of the cut. A query without a committed batch is left out.
    :param loaded: ``proven``, ``refuted``, ``unknown``, ``nothing`` (the query has no state) or ``not_asked``.
    :param started: Result of the start of the job's own application, with the same values.
    :param state_rows: Rows of state that Spark read.
    :param partitions: Partitions of state that Spark loaded, each with its own store. With small state, their number
        determines the time of ``load``.
    """

    batch: int
    loaded: str
    started: str
    state_rows: int = 0
    partitions: int = 0


class Drill(Record):
    """``jobs/<job>/drills/<id>.json``: a restore drill.

    :param source: ``savepoint-<id>`` or ``checkpoint-<n>``.
    :param taken_at: Creation time of the checkpoint or savepoint.
    :param cut: Query -> batch.
    :param size: Bytes of its files.
    :param age_seconds: Age at the start of the drill: the data loss of a disaster at that moment (RPO).
    :param seconds: Step -> seconds: ``choose``, ``verify``, ``fetch``, ``copy``, ``spark``, ``load``, ``start``.
    :param total_seconds: From the choice to the first batch that Spark committed on it (RTO on this host).
    :param reasons: Reasons if the verdict is not ``PASSED``, as sentences without a final period.
    :param spark_version: Spark release of the drill.
    :param requested_by: The requester, with host and process.
    """

    kind: ClassVar[str] = "restore-drill"

    drill_id: str
    job_id: str
    source: str
    taken_at: datetime
    cut: dict[str, int]
    size: int
    age_seconds: float
    started_at: datetime
    seconds: dict[str, float]
    total_seconds: float
    verdict: DrillVerdict
    reasons: tuple[str, ...] = ()
    queries: dict[str, DrilledQuery] = {}
    spark_version: str
    requested_by: str


class DrillCache:
    """Cache of a process for records of all jobs of a store, which never change. Safe in any thread.

    :param most: Number of records to keep, the most recently used ones.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[ObjectInfo, Drill] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, found: ObjectInfo) -> Drill | None:
        """Return a cached record, or ``None``.

        :param found: Listing entry of the record: a job that was deleted and recreated may use an id again.
        """
        with self._lock:
            known = self._kept.get(found)
            if known is not None:
                self._kept.move_to_end(found)
            return known

    def keep(self, found: ObjectInfo, drill: Drill) -> None:
        """Add a record to the cache."""
        with self._lock:
            self._kept[found] = drill
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


class DrillStore:
    """A job's drill records. Owns nothing; safe in any thread.

    :param known: Cache of records that this process has read.
    """

    def __init__(self, store: ObjectStore, keys: JobKeys, known: DrillCache | None = None) -> None:
        self._store = store
        self._keys = keys
        self._known = known

    def find(self, drill_id: str) -> Drill | None:
        """Return the drill with that id; ``None`` if it does not exist or has not ended.

        :raises RecordCorruptError: The record is damaged.
        """
        key = self._keys.drill(drill_id)
        try:
            return Drill.from_bytes(self._store.read(key), source=key)
        except ObjectMissingError:
            return None

    def next_id(self, base: str) -> str:
        """Return the first of *base*, *base*-2, *base*-3, … that is unused, or whose drill has passed.

        A retry finds a passed drill again. Any other drill is repeated under the next id, and both records stay
        readable.
        """
        number, candidate = 1, base
        while (found := self.find(candidate)) is not None and found.verdict is not DrillVerdict.PASSED:
            number += 1
            candidate = f"{base}-{number}"
        return candidate

    def add(self, drill: Drill) -> Drill:
        """Write a record, and remove the oldest ones; return the stored record if a simultaneous call was faster."""
        try:
            self._store.create(self._keys.drill(drill.drill_id), drill.to_bytes())
        except ObjectExistsError:
            return self.find(drill.drill_id) or drill
        for old in self._listed()[KEPT_AT_MOST:]:
            self._store.delete(old.key)
        return drill

    def newest(self, known: tuple[str, Drill] | None = None) -> tuple[str, Drill] | None:
        """Return key and record of the most recently recorded drill; ``None`` if none is readable.

        :param known: Result of an earlier call; a record never changes, so it is not read again.
        :raises StorageUnavailableError: Storage could not be read.
        """
        found = next(iter(self._listed()), None)
        if found is None or (known is not None and known[0] == found.key):
            return known if found is not None else None
        drill = self._read(found.key)
        return (found.key, drill) if isinstance(drill, Drill) else None

    def list(self, newest: int | None = None) -> tuple[list[Drill], list[UnreadableRecord]]:
        """Return the drills, newest first, and the unreadable records.

        :param newest: Number of the most recently recorded drills to read; all by default.
        :raises StorageUnavailableError: Storage could not be read, so the drills are unknown.
        """
        read = [self._read_once(found) for found in self._listed()[:newest]]
        drills = [item for item in read if isinstance(item, Drill)]
        unreadable = [item for item in read if isinstance(item, UnreadableRecord)]
        return sorted(drills, key=lambda drill: drill.started_at, reverse=True), unreadable

    def _listed(self) -> builtins.list[ObjectInfo]:
        """Return the listing of the records, the most recently written first."""
        return sorted(self._store.list(self._keys.drills), key=lambda each: (each.modified, each.key), reverse=True)

    def _read_once(self, found: ObjectInfo) -> Drill | UnreadableRecord | None:
        known = self._known.find(found) if self._known is not None else None
        if known is not None:
            return known
        read = self._read(found.key)
        if self._known is not None and isinstance(read, Drill):
            self._known.keep(found, read)
        return read

    def _read(self, key: str) -> Drill | UnreadableRecord | None:
        try:
            return Drill.from_bytes(self._store.read(key), source=key)
        except ObjectMissingError:
            return None  # removed after it was listed
        except RecordCorruptError as error:
            return UnreadableRecord(key, error.message)
