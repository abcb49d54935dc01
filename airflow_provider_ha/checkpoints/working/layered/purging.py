"""Files that Spark would have purged in a query directory whose deletes are left to the collector.

Invariant: the closures of the last batches and of every retained cut are computed, and their files stay. Files written
less than a grace period before the last commit, or after it, are not judged: a task may have uploaded tables that no
committed version names yet, and it may run as long as its batch.

Names other than Spark's logs and state versions are never judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from airflow_provider_ha.checkpoints.format.closure import closure
from airflow_provider_ha.checkpoints.format.compactible_log import COMPACT
from airflow_provider_ha.checkpoints.format.layout import COMMITS, OFFSETS, SOURCES, STATE, batches
from airflow_provider_ha.checkpoints.format.state import StateReader
from airflow_provider_ha.checkpoints.working.layered.inheritance import VERSION_FILE
from airflow_provider_ha.checkpoints.working.layered.tree import LayeredTree
from airflow_provider_ha.checkpoints.working.relocation import checked_by


KEPT_BATCHES = 100
"""Spark's own default of ``spark.sql.streaming.minBatchesToRetain``."""
_TABLES = frozenset({"SSTs", "logs"})
_NONE = -1


@dataclass(slots=True)
class Needs:
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


def needs_of(directory: LayeredTree, cuts: Collection[int], *, kept: int = KEPT_BATCHES) -> Iterator[Needs]:
    """Yield the needs of a query directory after each added closure; complete after the last one.

    Without a committed batch it yields none: then every file is needed.

    :param directory: The query directory, freshly listed.
    :param cuts: Batches at which it is retained.
    :param kept: Number of needed batches in addition to the last one.
    :raises CheckpointCorruptError: A closure is incomplete: its needs are unknown.
    :raises CheckpointMissingError: A batch is missing.
    :raises StorageUnavailableError: A file could not be read.
    """
    needs, committed = Needs(), batches(directory, COMMITS)
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
        needs.add(closure(directory, batch, with_planned=is_last, reader=reader).files)
        yield needs


def _number(name: str) -> int | None:
    own = name.removesuffix(COMPACT)
    return int(own) if own.isascii() and own.isdigit() else None
