"""Logs of a checkpoint: ``metadata``, ``offsets/<n>``, ``commits/<n>``, and logs of files that Spark compacts.

Invariant: an entry is either read as Spark reads it or refused with its path and the reason, never guessed. Spark
writes an entry with a rename, so a short one is a fault of the disk or the file system, never a normal state.

A query reads the entry of the batch before; with asynchronous progress tracking, which skips batches, the newest
existing entry of the offset log. That tracking purges each log by its own content, so the commit log may reach
further back (``AsyncProgressTrackingMicroBatchExecution``, the same from 3.4 to 4.2).

Invariant: entry k is named ``k`` or, where (k + 1) is a multiple of the interval, ``k.compact``; a compact entry
repeats everything before it. To know all files up to k one needs the newest compact entry <= k and every one after it.

Spark takes the interval of an existing log from the distance of its last two compact entries. From one alone it
derives an interval that may be shorter, and then looks for compact entries that were never written. So a copy has both.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

from airflow_provider_ha.checkpoints.spark import checksums
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, METADATA, OFFSETS
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, exists, names, read, read_text
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointError, CheckpointMissingError


@dataclass(frozen=True, slots=True)
class LogEntries:
    """Entries of both logs.

    :param planned: Batches in the offset log, ascending.
    :param committed: Batches in the commit log.
    :param known: Batches that count as entries of the offset log, ascending: committed batches are included unless they
        are older than the whole offset log.
    :param left_out: The (first, last) of each run of batches missing in both logs, ascending.
    """

    planned: tuple[int, ...]
    committed: frozenset[int]
    known: tuple[int, ...]
    left_out: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, planned: Iterable[int], committed: Iterable[int]) -> LogEntries:
        """Return the entries of both logs."""
        entries, done = sorted(planned), frozenset(committed)
        oldest = entries[0] if entries else 0
        known = sorted({*entries, *(batch for batch in done if batch > oldest)})
        everything = sorted({*entries, *done})
        gaps = ((one + 1, other - 1) for one, other in pairwise(everything) if other > one + 1)
        return cls(tuple(entries), done, tuple(known), tuple(gaps))

    def leaves_out(self, *, beside: int) -> bool:
        """Return whether batches are missing elsewhere than right below *beside*: one gap may be a lost entry."""
        return any(last != beside - 1 for _, last in self.left_out)

    def previous(self, batch: int, *, sparse: bool) -> int | None:
        """Return the batch whose entry Spark reads next to that of *batch*; ``None`` for none.

        :param sparse: Whether batches may have been left out: only in a query without state.
        """
        if batch == 0:
            return None
        at = bisect_left(self.known, batch)
        if sparse and at:
            return self.known[at - 1]
        # Nothing older is there: it was purged, or never written.
        return None if sparse and self.leaves_out(beside=batch) else batch - 1


COMPACT = ".compact"


class CompactibleLog:
    """One compactible log.

    :param directory: The checkpoint (or any directory that contains the log).
    :param log: Path of the log, relative to *directory*; empty for *directory* itself.
    """

    def __init__(self, directory: Tree, log: str = "") -> None:
        self._directory = directory
        self._log = f"{log}/" if log else ""
        self._names = entry_names(names(directory / log if log else directory))

    @property
    def entries(self) -> dict[int, str]:
        """Entry -> name, ascending."""
        return dict(self._names)

    @property
    def compact(self) -> tuple[int, ...]:
        """The compact entries, ascending."""
        return tuple(entry for entry, name in self._names.items() if name.endswith(COMPACT))

    def last(self) -> int:
        """Return the highest entry; -1 without one."""
        return max(self._names, default=-1)

    def newest_compact(self, upto: int) -> int:
        """Return the newest compact entry up to *upto*; -1 without one."""
        return max((k for k in self.compact if k <= upto), default=-1)

    def before(self, compact: int) -> str | None:
        """Return the path of the compact entry before that of *compact*; ``None`` for none. Only its name is needed."""
        earlier = self.newest_compact(compact - 1)
        return None if earlier < 0 else f"{self._log}{self._names[earlier]}"

    def path(self, entry: int) -> str:
        """Return the path of an entry, relative to the directory.

        :raises FileGoneError: It is not there.
        """
        if entry not in self._names:
            later = next((name for k, name in self._names.items() if k > entry and name.endswith(COMPACT)), None)
            merged = f"; {later} repeats it, and serves once the batch that wrote {later} is committed" if later else ""
            raise FileGoneError(f"{self._log}{entry}", f"it is needed and not there{merged}")
        return f"{self._log}{self._names[entry]}"

    def closure(self, entry: int) -> list[str]:
        """Return the paths that define every file up to *entry*, ascending.

        :raises FileGoneError: A path is missing.
        """
        return [self.path(k) for k in range(max(self.newest_compact(entry), 0), entry + 1)]

    def lines(self, entry: int) -> list[str]:
        """Return the lines of an entry without its version line.

        :raises CheckpointCorruptError: It is incomplete or holds something else than JSON objects.
        """
        return parse_lines(self.path(entry), read_text(self._directory, self.path(entry)))


def check_hidden_sum(directory: Tree, path: str) -> bool:
    """Compare an entry of a log with the checksum that Hadoop wrote next to it; returns whether there is one.

    Spark never does: an offset or a path that lost a bit is another one, silently.

    :raises CheckpointCorruptError: The entry was changed after Spark wrote it.
    """
    folder, slash, name = path.rpartition("/")
    hidden = f"{folder}{slash}.{name}.crc"
    if not exists(directory, hidden):
        return False
    if checksums.was_changed(read(directory, path), read(directory, hidden)):
        raise CheckpointCorruptError(path, "it was changed after Spark wrote it: its hidden checksum does not fit")
    return True


def entry_names(found: Iterable[str]) -> dict[int, str]:
    """Return the names of the entries that Spark would read among *found*; a compact entry wins over a plain one."""
    entries: dict[int, str] = {}
    for name in sorted(found):
        stem = name.removesuffix(COMPACT)
        if stem.isascii() and stem.isdigit():
            entries[int(stem)] = name
    return dict(sorted(entries.items()))


def parse_lines(path: str, text: str) -> list[str]:
    """Return the lines of an entry's *text* without its version line.

    :raises CheckpointCorruptError: It is incomplete or holds something else than JSON objects.
    """
    first, *lines = text.split("\n")
    if first != "v1":
        raise CheckpointCorruptError(path, "incomplete log file: it does not begin with v1")
    kept = [line for line in lines if line]
    for line in kept:
        _object(path, line)
    return kept


def _object(path: str, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        raise CheckpointCorruptError(path, "it holds a line that is not JSON: it is cut or garbled") from None
    if not isinstance(value, dict):
        raise CheckpointCorruptError(path, "it holds a line that is not a JSON object")
    return value


_VERSION = re.compile(r"v([1-9]\d*)")
# As Spark writes it. Java's UUID reads fewer digits too, and Spark goes on under another id than was written.
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# What Spark 4.3 knows; a higher number is a newer Spark's and refused by every release that we support.
KNOWN_OFFSETS, KNOWN_COMMITS = 2, 3
# What is left of a commit that was cut behind its first line: Spark reads it as one without watermark and ids.
NO_METADATA = "incomplete log file: no metadata follows the version"
NEVER = datetime.fromtimestamp(0, tz=timezone.utc)
"""In place of a time that is not known: before all others."""
# A source that had no offset yet.
_NO_OFFSET = "-"


@dataclass(frozen=True, slots=True)
class OffsetsEntry:
    """One planned batch.

    :param version: Format of the entry, 1 or 2.
    :param metadata: Watermark, timestamp, and the conf pinned for this query (``conf``); may be empty (Spark 2.0).
    :param offsets: End offset of each source, in the order of the sources; ``None`` where it had none.
    :param sources: Names of the sources, when the format carries them (2); else their positions.
    """

    batch: int
    version: int
    metadata: Mapping[str, Any]
    offsets: tuple[str | None, ...]
    sources: tuple[str, ...]

    @property
    def conf(self) -> Mapping[str, str]:
        """Conf that wins over the session's when the query is started again."""
        conf = self.metadata.get("conf")
        return conf if isinstance(conf, dict) else {}

    def log_offset(self, position: int) -> int | None:
        """Return the file source's ``logOffset`` of the source at *position*; ``None`` for another kind of source."""
        try:
            value = json.loads(self.offsets[position] or "null")
        except ValueError:
            return None
        if isinstance(value, dict) and isinstance(value.get("logOffset"), int):
            return int(value["logOffset"])
        return None


@dataclass(frozen=True, slots=True)
class CommitsEntry:
    """One committed batch.

    :param state_ids: Operator -> for each partition, the id of each store (checkpoint format 2); empty with format 1.
    """

    batch: int
    version: int
    metadata: Mapping[str, Any]
    state_ids: Mapping[int, tuple[tuple[str | None, ...], ...]]


def parse_offsets(batch: int, text: str) -> OffsetsEntry:
    """Read the text of ``offsets/<batch>``.

    :raises CheckpointCorruptError: It is incomplete or not an entry.
    """
    path = f"{OFFSETS}/{batch}"
    version, lines = _versioned(path, text, KNOWN_OFFSETS)
    if len(lines) < 2:  # noqa: PLR2004  # metadata and at least one source
        raise CheckpointCorruptError(path, "incomplete log file: no offsets follow the metadata")
    metadata = _json_object(path, lines[0]) if lines[0] else {}
    values, sources = lines[1:], tuple(str(position) for position in range(len(lines) - 1))
    if version >= 2:  # noqa: PLR2004  # since 2, a line begins with the source's id
        pairs = [line.partition(":") for line in values]
        if not all(colon for _, colon, _ in pairs):
            raise CheckpointCorruptError(path, "an offset has no source id")
        sources, values = tuple(name for name, _, _ in pairs), [value for _, _, value in pairs]
    for value in values:
        _check_offset(path, value)
    offsets = tuple(None if value == _NO_OFFSET else value for value in values)
    return OffsetsEntry(batch=batch, version=version, metadata=metadata, offsets=offsets, sources=sources)


def parse_commits(batch: int, text: str) -> CommitsEntry:
    """Read the text of ``commits/<batch>``.

    :raises CheckpointCorruptError: It is incomplete or not an entry.
    """
    path = f"{COMMITS}/{batch}"
    version, lines = _versioned(path, text, KNOWN_COMMITS)
    if not lines:
        raise CheckpointCorruptError(path, NO_METADATA)
    metadata = _json_object(path, lines[0])
    try:
        ids = {
            int(operator): tuple(tuple(stores) for stores in partitions)
            for operator, partitions in (metadata.get("stateUniqueIds") or {}).items()
        }
    except (AttributeError, TypeError, ValueError):
        raise CheckpointCorruptError(path, "stateUniqueIds are not lists of ids by operator") from None
    return CommitsEntry(batch=batch, version=version, metadata=metadata, state_ids=ids)


def read_offsets(directory: Tree, batch: int) -> OffsetsEntry:
    """Read ``offsets/<batch>`` of the checkpoint *directory*.

    :raises CheckpointMissingError: The entry is not there.
    :raises CheckpointCorruptError: It is incomplete or not an entry.
    """
    return parse_offsets(batch, _entry(directory, f"{OFFSETS}/{batch}"))


def read_commits(directory: Tree, batch: int) -> CommitsEntry:
    """Read ``commits/<batch>``; raises as :func:`read_offsets` does."""
    return parse_commits(batch, _entry(directory, f"{COMMITS}/{batch}"))


def read_query_id(directory: Tree) -> str:
    """Return the id of the query from ``metadata``, by which exactly-once sinks identify it.

    :raises CheckpointCorruptError: It is missing or not Spark's.
    """
    return parse_query_id(read_text(directory, METADATA))[0]


def parse_query_id(text: str) -> tuple[str, str]:
    """Return the id of the query, and the text after its JSON: Spark reads no further.

    :raises CheckpointCorruptError: It is not Spark's.
    """
    try:
        document, end = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError:
        raise CheckpointCorruptError(METADATA, "it holds a line that is not JSON") from None
    value = document.get("id") if isinstance(document, dict) else None
    if not isinstance(value, str) or not value:
        raise CheckpointCorruptError(METADATA, "it holds no query id")
    if not _UUID.fullmatch(value):
        raise CheckpointCorruptError(METADATA, f"its query id {value[:40]!r} is no UUID")
    return value, text.lstrip()[end:].strip()


def _entry(directory: Tree, path: str) -> str:
    try:
        return read_text(directory, path)
    except FileGoneError:
        raise CheckpointMissingError(
            f"checkpoint {directory} has no {path}", next_step="Choose a newer batch: Spark purges old entries"
        ) from None


def _versioned(path: str, text: str, known: int) -> tuple[int, list[str]]:
    first, *rest = text.split("\n")
    match = _VERSION.fullmatch(first)
    if not match:
        raise CheckpointCorruptError(path, "incomplete log file: it does not begin with a version")
    if int(match[1]) > known:
        raise CheckpointCorruptError(path, f"its version v{match[1]} is newer than v{known}")
    if rest and rest[-1] == "":
        rest.pop()
    return int(match[1]), rest


def _json_object(path: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        raise CheckpointCorruptError(path, "it holds a line that is not JSON") from None
    if not isinstance(value, dict):
        raise CheckpointCorruptError(path, "it holds JSON that is not an object")
    return value


def _check_offset(path: str, value: str) -> None:
    # Most sources write JSON objects; rate and socket write a number, MemoryStream too: all of it is JSON.
    try:
        json.loads("null" if value == _NO_OFFSET else value)
    except ValueError:
        raise CheckpointCorruptError(path, "an offset is not JSON: the entry is cut or garbled") from None


def planned_at(directory: Tree, batch: int) -> datetime | None:
    """Return when Spark planned a batch, by its own clock; the time of a file is that of its copy."""
    try:
        stamp = read_offsets(directory, batch).metadata.get("batchTimestampMs")
    except CheckpointError:
        return None
    return datetime.fromtimestamp(stamp / 1000, tz=timezone.utc) if isinstance(stamp, int) and stamp > 0 else None
