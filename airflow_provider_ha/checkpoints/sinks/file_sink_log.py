"""Log of a file sink: the batches that an output directory already has, also on storage without renames.

Invariant: Spark skips a batch that is in this log without executing its plan, and compacts the log every tenth entry.
So its content belongs to every cut (spark-facts section 0), an entry is only ever set aside from the top, and a new
directory that continues old batch numbers needs the entries since the last compact one, or Spark dies at its next
compaction.

Invariant: every step can be repeated after a crash, and removes only data that the previous step has copied. To set an
entry aside, it is first copied under its hidden name, exclusively, and then the exact version that was read is removed.
A seeded log is written from its end to its beginning: until it is complete, the entry that its readers begin with is
missing, and Spark refuses the log instead of reading a part.

Storage without renames cannot exclude a writer that was frozen in the middle of its request. The caller that sets an
entry aside must know that the writer is dead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from airflow_provider_ha.checkpoints.spark.atomic import building, hidden_checksum, write_aside
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, names, read
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import COMPACT, CompactibleLog, check_hidden_sum, entry_names
from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree
from airflow_provider_ha.checkpoints.spark.places import StorageAccess, output_place
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    ConfigurationError,
    ObjectExistsError,
    RestoreRefusedError,
)
from airflow_provider_ha.storage.durable import flush_directory
from airflow_provider_ha.storage.object_store import ObjectInfo, ObjectStore
from airflow_provider_ha.storage.outage import outages


# Formats of FileStreamSink: those that keep a log.
FORMATS = frozenset({"json", "csv", "parquet", "orc", "text"})
LOG = "_spark_metadata"
EMPTY_ENTRY = b"v1"


SEEDING = ".seeding"
"""Name in an incomplete log, on storage without renames: records the future content."""


def sink_log(output: str, reach: StorageAccess | None = None) -> Tree:
    """Return the log of a file sink, by its output; the output itself is not listed.

    :param reach: Access to its file system; by default from the environment.
    :raises ConfigurationError: Its file system cannot be read here.
    """
    return ((reach or StorageAccess()).tree(output_place(output)) / LOG).fresh()


def log_of_files(files: ObjectStore) -> Tree:
    """Return the log of the file sink that writes to the root of *files*."""
    return ObjectTree(files, f"{LOG}/")


def is_seeding(names: Iterable[str]) -> bool:
    """Return whether a log is being seeded, by its names: its entries are not yet those of an output."""
    return SEEDING in names


def check_mode(mode: str) -> None:
    """Check an output mode.

    :raises ConfigurationError: The mode is unknown.
    """
    if mode not in ("continue", "fresh"):
        raise ConfigurationError(f"output mode {mode!r} is unknown", next_step="Use 'continue' or 'fresh'")


def log_files(log: Tree, batch: int) -> list[str]:
    """Return the names in a log with which Spark continues after *batch*, hidden checksums included.

    These define every file up to *batch*, after the compact entry before them, which gives the interval.

    :param log: The log itself; the output is not listed.
    :raises FileGoneError: A name is missing.
    """
    found = set(names(log))
    entries = entry_names(found)
    compact = [entry for entry, name in entries.items() if name.endswith(COMPACT) and entry <= batch]
    first = compact[-1] if compact else 0
    needed = []
    # guard: logs-without-the-interval
    for entry in (*compact[-2:-1], *range(first, batch + 1)):
        if entry not in entries:
            raise FileGoneError(f"{LOG}/{entry}", "it is needed and not there")
        needed += [entries[entry], f".{entries[entry]}.crc"]
    return [name for name in needed if name in found]


def needed_entries(log: CompactibleLog) -> dict[int, str]:
    """Return entry -> name read by readers and the next compaction: the newest compact entry and all later ones."""
    newest = max(log.newest_compact(log.last()), 0)
    return {entry: name for entry, name in log.entries.items() if entry >= newest}


def missing_entries(log: CompactibleLog) -> dict[int, str]:
    """Return a sentence about the missing batches of each gap, by the first missing batch."""
    found, expected = {}, 0
    needed = needed_entries(log)
    for entry, name in needed.items():
        if entry > expected and not (name.endswith(COMPACT) and entry == min(needed)):
            last = f" to {entry - 1}" if entry - 1 > expected else ""
            found[expected] = f"batch {expected}{last} is missing, both as an entry and in a compact entry"
        expected = entry + 1
    return found


def files_of_entry(output: Tree, log: CompactibleLog, entry: int) -> dict[str, int]:
    """Return the output files of an entry with their size in bytes.

    :raises CheckpointCorruptError: The entry is not Spark's.
    """
    named: dict[str, int] = {}
    for line in log.lines(entry):
        status = json.loads(line)
        path, size = status.get("path"), status.get("size")
        if not isinstance(path, str) or not isinstance(size, int):
            raise CheckpointCorruptError(log.path(entry), "it has a line without path and size")
        if status.get("action", "add") == "delete":
            named.pop(path, None)
        elif not status.get("isDir"):
            named[path] = size
    check_hidden_sum(output, log.path(entry))
    return named


def damaged_entries(record: Tree) -> dict[int, str]:
    """Return the damages of a log by batch, among the entries that Spark reads: the rule of all judgements.

    :param record: The log itself; the output is not listed.
    """
    log = CompactibleLog(record)
    found = missing_entries(log)
    for entry in needed_entries(log):
        try:
            files_of_entry(record, log, entry)
        except CheckpointCorruptError as error:  # noqa: PERF203  # continue with the next entry
            found[entry] = f"batch {entry} ({error.path}): {error.reason}"
    return dict(sorted(found.items()))


class FileSinkLog:
    """The log in one directory.

    :param path: Output directory of the sink, or a directory of a pin or savepoint that holds a copy of its log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def max_batch(self) -> int:
        """Return the highest batch of the sink; -1 without a batch."""
        return self._log().last()

    def entry(self, batch: int) -> bytes | None:
        """Return the bytes of a batch's entry; ``None`` without an entry."""
        name = self._log().entries.get(batch)
        return None if name is None else read(LocalTree(self.path), f"{LOG}/{name}")

    def digest(self, batch: int) -> str | None:
        """Return the sha256 of a batch's entry; ``None`` without an entry."""
        data = self.entry(batch)
        return None if data is None else hashlib.sha256(data).hexdigest()

    def closure_names(self, batch: int) -> list[str]:
        """Return the names in the log that define every file up to *batch*, ascending.

        :raises CheckpointCorruptError: A name is missing.
        """
        return [Path(path).name for path in self._log().closure(batch)] if batch >= 0 else []

    def set_aside(self, batch: int, sha256: str) -> bool:
        """Remove one entry from the log, if its digest matches; readers no longer see its files.

        The entry is kept under a hidden name that Spark and its readers ignore. Repeatable after a crash.

        :param batch: Must be the highest one.
        :param sha256: Digest of the entry to remove.
        :returns: Whether it existed; ``False`` when the log already ends before it.
        :raises RestoreRefusedError: Another entry has that number, or the log continues after it.
        :raises CheckpointCorruptError: Without it the log would be incomplete.
        """
        log = self._log()
        if log.last() < batch:
            return False
        if log.last() > batch or self.digest(batch) != sha256:
            raise RestoreRefusedError(
                f"batch {batch} in {self.path / LOG} is not the entry that the plan removes from the output",
                next_step="Plan the restore again: another process has written to this output since",
            )
        self.closure_names(batch - 1)
        entry = self.path / log.path(batch)
        with outages("set aside", entry):
            hidden_checksum(entry).unlink(missing_ok=True)
            entry.rename(entry.with_name(f".{entry.name}.{sha256[:12]}.aside"))
            flush_directory(entry.parent)
        return True

    def seed(self, batch: int, mode: str, source: Tree) -> None:
        """Create the log of a new output directory that continues after *batch*; it must not have a log.

        :param batch: N of the continued cut; -1 creates nothing.
        :param mode: ``"continue"`` copies the old entries, which name the old data files, so these must stay;
            ``"fresh"`` creates empty entries of the same names (new files only). Spark looks for the files of an output
            without partitions in its own directory only, unless it is read with ``recursiveFileLookup=true``.
        :param source: The old log, usually ``sinks/<query>/_spark_metadata`` of a pin or savepoint.
        :raises ObjectExistsError: The target has a log.
        :raises CheckpointCorruptError: The old log lacks a part of the closure of *batch*.
        """
        check_mode(mode)
        if batch < 0:
            return
        entries = [name for name in log_files(source, batch) if not name.startswith(".")]
        with building(self.path / LOG, private=False) as log:
            for name in entries:
                write_aside(log / name, read(source, name) if mode == "continue" else EMPTY_ENTRY)

    def _log(self) -> CompactibleLog:
        return CompactibleLog(LocalTree(self.path), LOG)


class StoredSinkLog:
    """The log in one output."""

    def __init__(self, files: ObjectStore) -> None:
        self._files = files

    def set_aside(self, batch: int, sha256: str) -> bool:
        """Remove one entry from the log, if its digest matches; as the log of a file system does.

        :raises RestoreRefusedError: Another entry has that number, or the log continues after it.
        :raises CheckpointCorruptError: Without it the log would be incomplete.
        :raises StorageUnavailableError: The outcome is unknown.
        """
        entries = entry_names(self._files.names(f"{LOG}/"))
        last = max(entries, default=-1)
        if last < batch:
            return False
        key = f"{LOG}/{entries[last]}"
        found = self._files.info(key)
        data = self._files.read(key) if found is not None and last == batch else b""
        if found is None or last > batch or hashlib.sha256(data).hexdigest() != sha256:
            raise _refused(batch, self._files)
        log_files(log_of_files(self._files), batch - 1)
        self._keep(f"{LOG}/.{entries[batch]}.{sha256[:12]}.aside", data)
        self._remove(found, batch)
        return True

    def _keep(self, key: str, data: bytes) -> None:
        """Create the copy, unless a crashed attempt has."""
        try:
            self._files.create(key, data)
        except ObjectExistsError:
            if self._files.read(key) != data:
                raise

    def _remove(self, entry: ObjectInfo, batch: int) -> None:
        now = self._files.info(entry.key)
        if now is not None and now != entry:
            raise _refused(batch, self._files)
        self._files.delete(entry.key)

    def seed(self, batch: int, mode: str, source: Tree) -> None:
        """Create the log of a new output that continues after *batch*, or complete a crashed attempt.

        :raises ObjectExistsError: The output has a log, or another one is being created there.
        :raises CheckpointCorruptError: The old log does not contain the closure of *batch*.
        :raises StorageUnavailableError: The outcome is unknown.
        """
        check_mode(mode)
        if batch < 0:
            return
        names = [name for name in log_files(source, batch) if not name.startswith(".")]
        wanted = {name: read(source, name) if mode == "continue" else EMPTY_ENTRY for name in names}
        self._begin(wanted)
        for name in reversed(names):
            self._keep(f"{LOG}/{name}", wanted[name])
        self._files.delete(f"{LOG}/{SEEDING}")

    def _begin(self, wanted: dict[str, bytes]) -> None:
        """Record the future log before its first entry, until the last one is written."""
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in wanted.items()}
        said, there = json.dumps(digests, sort_keys=True).encode(), self._files.names(f"{LOG}/")
        if is_seeding(there):
            if self._files.read(f"{LOG}/{SEEDING}") == said:
                return
            raise _exists(self._files, "another log is being created there")
        if entry_names(there):
            raise _exists(self._files, "it already has a log")
        self._keep(f"{LOG}/{SEEDING}", said)


def _exists(files: ObjectStore, reason: str) -> ObjectExistsError:
    return ObjectExistsError(
        f"output {files.uri} cannot be given the log of another one: {reason}", next_step="Choose a new output"
    )


def _refused(batch: int, files: ObjectStore) -> RestoreRefusedError:
    return RestoreRefusedError(
        f"batch {batch} in {files.uri}/{LOG} is not the entry that the plan removes from the output",
        next_step="Plan the restore again: another process has written to this output since",
    )
