"""Records of verifications and restore drills, for people.

Invariant: a record is written once, when its drill is over, and never changed. It lies in storage, not in ZooKeeper:
no decision depends on it, and it is still there when ZooKeeper's data is gone.

Invariants: one object for each job, which the next verification replaces, so it stays small however many there are. No
decision depends on it. Like the XCom of a verification it has codes, names of files and reasons, and no content.
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
    """One finding.

    :param code: Its code (page Findings of a verification).
    :param file: The file, below its query.
    :param blocks: Whether it keeps Spark from starting; ``None`` when that is not known.
    """

    code: str
    file: str
    blocks: bool | None = None


class LastVerification(Record):
    """``jobs/<job>/verification.json``: what the last verification of a checkpoint or savepoint of the job has found.

    :param source: ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param taken_at: When that was taken.
    :param cut: Query -> N.
    :param at: When the verification was over.
    :param depth: ``quick``, ``full`` or ``prove``.
    :param spark_version: The release that it was judged for; empty for the installed one.
    :param restorable: Whether it can be restored; ``None`` when Spark was asked and gave no answer.
    :param problem: The first thing that keeps it from being restored; empty when nothing does.
    :param findings: At most ``MOST_FINDINGS``, those that keep Spark from starting first.
    :param findings_left_off: How many more there were.
    :param proofs: Query -> why Spark has not proven it; empty when it has.
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
    """Keep a verification in the place of the one before it.

    :raises StorageUnavailableError: It may or may not be kept.
    """
    store.write(keys.last_verification, found.to_bytes())


def read_last_verification(store: ObjectStore, keys: JobKeys) -> LastVerification | None:
    """Return the last verification; ``None`` when there was none.

    :raises RecordCorruptError: It is not what was written.
    :raises StorageUnavailableError: It could not be read.
    """
    try:
        return LastVerification.from_bytes(store.read(keys.last_verification), source=keys.last_verification)
    except ObjectMissingError:
        return None


KEPT_AT_MOST = 100  # two years of weekly drills


class DrillVerdict(str, Enum):
    """The result of a drill."""

    PASSED = "PASSED"
    FAILED = "FAILED"  # it cannot be restored, or is too old, or it took too long
    UNKNOWN = "UNKNOWN"  # Spark gave no answer


class DrilledQuery(Model):
    """The result of a query in a drill.

    :param batch: The batch of the cut. A query without a committed batch is left out.
    :param loaded: ``proven``, ``refuted``, ``unknown``, ``nothing`` (the query has no state) or ``not_asked``.
    :param started: The same, of the start of the job's own application.
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
    """``jobs/<job>/drills/<id>.json``: one restore drill.

    :param source: ``savepoint-<id>`` or ``checkpoint-<n>``.
    :param taken_at: When that was taken.
    :param cut: Query -> N.
    :param size: Bytes of its files.
    :param age_seconds: Its age when the drill began: the loss of a disaster at that moment (RPO).
    :param seconds: Step -> seconds: ``choose``, ``verify``, ``fetch``, ``copy``, ``spark``, ``load``, ``start``.
    :param total_seconds: From the choice to the first batch that Spark committed on it (RTO, on one host).
    :param reasons: Why the verdict is not PASSED, each as a sentence without a final stop.
    :param spark_version: The Spark release that ran the check.
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
    """Records that a process has read, of all jobs of a store: none changes. Safe in any thread.

    :param most: How many are kept; those that were asked for last.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[ObjectInfo, Drill] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, found: ObjectInfo) -> Drill | None:
        """Return a record; ``None`` when it is not kept.

        :param found: What a listing says of it: a job that was deleted and made again may use an id again.
        """
        with self._lock:
            known = self._kept.get(found)
            if known is not None:
                self._kept.move_to_end(found)
            return known

    def keep(self, found: ObjectInfo, drill: Drill) -> None:
        """Keep a record that was read."""
        with self._lock:
            self._kept[found] = drill
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


class DrillStore:
    """The records of one job's drills. Owns nothing; safe in any thread.

    :param known: What this process has read before, and is not read again.
    """

    def __init__(self, store: ObjectStore, keys: JobKeys, known: DrillCache | None = None) -> None:
        self._store = store
        self._keys = keys
        self._known = known

    def find(self, drill_id: str) -> Drill | None:
        """Return a drill that is over; ``None`` when there is none of that id.

        :raises RecordCorruptError: It is there, and not what was written.
        """
        key = self._keys.drill(drill_id)
        try:
            return Drill.from_bytes(self._store.read(key), source=key)
        except ObjectMissingError:
            return None

    def next_id(self, base: str) -> str:
        """Return the first of *base*, *base*-2, *base*-3, … that has not been used, or whose drill has passed.

        A drill that has passed is found again by a retry; one that has not is done again, and both stay to be read.
        """
        number, candidate = 1, base
        while (found := self.find(candidate)) is not None and found.verdict is not DrillVerdict.PASSED:
            number += 1
            candidate = f"{base}-{number}"
        return candidate

    def add(self, drill: Drill) -> Drill:
        """Write a record, and forget the oldest ones; return the one that counts, of two that were made at once."""
        try:
            self._store.create(self._keys.drill(drill.drill_id), drill.to_bytes())
        except ObjectExistsError:
            return self.find(drill.drill_id) or drill
        for old in self._listed()[KEPT_AT_MOST:]:
            self._store.delete(old.key)
        return drill

    def newest(self, known: tuple[str, Drill] | None = None) -> tuple[str, Drill] | None:
        """Return key and record of the drill that was recorded last; ``None`` without one that can be read.

        :param known: What an earlier call returned: a record never changes, and is not read again.
        :raises StorageUnavailableError: Storage could not be read.
        """
        found = next(iter(self._listed()), None)
        if found is None or (known is not None and known[0] == found.key):
            return known if found is not None else None
        drill = self._read(found.key)
        return (found.key, drill) if isinstance(drill, Drill) else None

    def list(self, newest: int | None = None) -> tuple[list[Drill], list[UnreadableRecord]]:
        """Return the drills, newest first, and beside them those that cannot be read.

        :param newest: Only so many, those that were recorded last; no other is read. All by default.
        :raises StorageUnavailableError: Storage could not be read: nothing is known about the drills.
        """
        read = [self._read_once(found) for found in self._listed()[:newest]]
        drills = [item for item in read if isinstance(item, Drill)]
        unreadable = [item for item in read if isinstance(item, UnreadableRecord)]
        return sorted(drills, key=lambda drill: drill.started_at, reverse=True), unreadable

    def _listed(self) -> builtins.list[ObjectInfo]:
        """Return what is in storage; what was recorded last first."""
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
            return None  # forgotten since it was listed
        except RecordCorruptError as error:
            return UnreadableRecord(key, error.message)
