"""Needed files of a query directory whose deletes are left to the collector, and their record ``_ha_needs``.

Invariant: the closures of the last batches and of every retained cut are computed, and their files stay. Files written
less than a grace period before the last commit, or after it, are not judged: a task may have uploaded tables that no
committed version names yet, and it may run as long as its batch.

Names other than Spark's logs and state versions are never judged.

A takeover reads no state, so it could name all existing files, and bases would grow from takeover to takeover. A file
that is unneeded once stays unneeded: later batches build on the last ones only.

Invariant: a file omitted from a base is a file that the collector would remove if the directory owned it. A missing or
damaged record omits no file.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

from airflow_provider_ha.checkpoints.areas.layered.base_file import BaseEntry
from airflow_provider_ha.checkpoints.areas.layered.layered_tree import NEEDS, LayeredTree
from airflow_provider_ha.checkpoints.areas.layered.takeover import VERSION_FILE
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, OFFSETS, SOURCES, STATE, batches
from airflow_provider_ha.checkpoints.spark.closure import StateReader, closure
from airflow_provider_ha.checkpoints.spark.metadata_log import COMPACT
from airflow_provider_ha.checkpoints.spark.operators import checked_by
from airflow_provider_ha.errors import ObjectMissingError, RecordCorruptError
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.object_store import ObjectStore


KEPT_BATCHES = 100
"""Spark's own default of ``spark.sql.streaming.minBatchesToRetain``."""
_TABLES = frozenset({"SSTs", "logs"})
_NONE = -1


@dataclass(slots=True)
class NeededFiles:
    """Files that a query directory needs, own and inherited.

    :ivar first: Lowest of the last batches; -1 without a commit: then every file is needed.
    :ivar committed_at: Time of the last commit, in milliseconds since 1970; 0 without a commit.
    :ivar names: Files of all closures, relative to the query directory.
    :ivar logged: Directory of a source's log -> its highest entry in a closure.
    """

    first: int = _NONE
    committed_at: int = 0
    names: set[str] = field(default_factory=set)
    logged: dict[str, int] = field(default_factory=dict)

    def add(self, names: Collection[str]) -> None:
        """Add the files of a closure."""
        self.names.update(names)
        for name in names:
            place, _, entry = name.rpartition("/")
            if place.startswith(f"{SOURCES}/") and (number := _number(entry)) is not None:
                self.logged[place] = max(number, self.logged.get(place, _NONE))

    def judged_before(self, now: int, grace: timedelta) -> int:
        """Return the time in milliseconds since 1970 before which a file cannot be a recent upload of a running task.

        :param now: The storage's time, in milliseconds since 1970.
        :param grace: Longer than any upload, and than a task freezes between two uploads.
        """
        return min(now, self.committed_at) - grace // timedelta(milliseconds=1)

    def would_purge(self, name: str) -> bool:
        """Whether Spark would have removed a file. Pure.

        :param name: Relative to the query directory.
        """
        if self.first < 0 or name in self.names:  # guard: purging-takes-what-a-batch-needs
            return False
        file = checked_by(name)
        log, _, rest = file.partition("/")
        place, _, own = file.rpartition("/")
        if log in (OFFSETS, COMMITS):
            number = _number(rest)
            # A later entry may be the record of a takeover.
            return number is not None and number < self.first
        if log == SOURCES:
            number = _number(own)
            return number is not None and number < self.logged.get(place, _NONE)
        if log != STATE:
            return False
        version = VERSION_FILE.fullmatch(own)
        return is_table(name) if version is None else int(version[1]) <= self.first


def is_table(name: str) -> bool:
    """Whether a file is a RocksDB table or log: found by its name in a version, never by listing.

    :param name: Relative to the query directory or a parent of it.
    """
    return checked_by(name).rpartition("/")[0].rpartition("/")[2] in _TABLES


def needs_of(directory: LayeredTree, cuts: Collection[int], *, kept: int = KEPT_BATCHES) -> Iterator[NeededFiles]:
    """Yield the needs of a query directory after each added closure; complete after the last one.

    Without a committed batch it yields none: then every file is needed.

    :param directory: The query directory, freshly listed.
    :param cuts: Batches at which it is retained.
    :param kept: Number of needed batches in addition to the last one.
    :raises CheckpointCorruptError: A closure is incomplete: its needs are unknown.
    :raises CheckpointMissingError: A batch is missing.
    """
    needs, committed = NeededFiles(), batches(directory, COMMITS)
    if not committed:
        return
    lowest = max(committed[-1] - kept, 0)
    if not directory.names(STATE):
        lowest = min([lowest, *cuts])  # logs with a gap would look like asynchronous progress tracking
    last = [batch for batch in committed if batch >= lowest]
    needs.first = last[0]
    needs.committed_at = directory.entries()[f"{COMMITS}/{committed[-1]}"].mtime
    reader = StateReader(directory)
    for batch in sorted({*last, *cuts}):
        is_last = batch == committed[-1]
        needs.add(closure(directory, batch, with_planned=is_last, reader=reader))
        yield needs


def _number(name: str) -> int | None:
    own = name.removesuffix(COMPACT)
    return int(own) if own.isascii() and own.isdigit() else None


log = logging.getLogger(__name__)


class NeedsRecord(Record):
    """Needs of a query directory at the collector's last visit.

    :param first: Lowest of the last batches.
    :param tables_before: Milliseconds since 1970: younger tables were not judged.
    :param names: Files of the last and the retained batches, sorted, relative to the query directory.
    :param logged: Directory of a source's log -> its highest needed entry.
    """

    kind: ClassVar[str] = "needs"

    first: int
    tables_before: int
    names: tuple[str, ...]
    logged: dict[str, int]


@dataclass(frozen=True, slots=True)
class KnownNeeds:
    """Known needs of a query directory."""

    needs: NeededFiles
    tables_before: int

    @classmethod
    def of(cls, needs: NeededFiles, *, now: int, grace: timedelta) -> KnownNeeds:
        """Return the known needs from complete needs.

        :param now: The storage's time, in milliseconds since 1970.
        :param grace: Minimum age of a judged table: a task may have uploaded a younger one that no batch names yet.
        """
        return cls(needs, needs.judged_before(now, grace))

    def needless(self, entry: BaseEntry) -> bool:
        """Whether no existing or future batch needs a file. Pure.

        :param entry: Its name is relative to the query directory.
        """
        if is_table(entry.name) and entry.mtime >= self.tables_before:
            return False
        return self.needs.would_purge(entry.name)

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        names = tuple(sorted(self.needs.names))
        record = NeedsRecord(
            first=self.needs.first, tables_before=self.tables_before, names=names, logged=self.needs.logged
        )
        return record.to_bytes()


def read_needs(files: ObjectStore, directory: str) -> KnownNeeds | None:
    """Return the known needs of a query directory; ``None`` if unknown.

    :param directory: Its key.
    """
    source = f"{directory}/{NEEDS}"
    try:
        record = NeedsRecord.from_bytes(files.read(source), source=source)
    except ObjectMissingError:
        return None
    except RecordCorruptError as error:
        log.warning("the base names all files of %s: %s", directory, error)
        return None
    needs = NeededFiles(record.first, names=set(record.names), logged=dict(record.logged))
    return KnownNeeds(needs, record.tables_before)
