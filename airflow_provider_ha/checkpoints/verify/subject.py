"""Subject of a verification: the logs, read once, their missing batches, and whether the query keeps state.

Invariant: this module judges nothing. An entry purged during the read counts as never present.

The conf pinned in the offset log is the same for every query, and so are the commits of checkpoint format 1. Evidence
is: a state directory; state ids in a commit; commits of format 2 without ids (a query without state); a batch without
input behind an advanced watermark, which Spark plans only for a waiting stateful operator; and batches omitted at
several places, as asynchronous progress tracking does.

Invariant: no guesses. Without evidence, the answer is UNKNOWN.

Asynchronous progress tracking records only some batches, in both logs or in neither, and Spark then uses the previous
existing entry of the offset log. It refuses queries with state, so a log is interpreted that way only if no state is
known. Without it Spark reads the entry of the preceding batch, and fails if it is missing.

Invariant: no file records which of both a query uses. Gaps at several places prove asynchronous tracking; a single gap
right below the newest batch may also be a lost entry, and the answer is UNKNOWN.

Invariant: a compact entry repeats the content of the entries before it. A path with a flipped bit names another file,
and Spark reads the original again without an error. Where Hadoop wrote no checksum file (S3A writes none, nor did
releases before 3.2), the remaining entries reveal the damage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TypeVar

from airflow_provider_ha.checkpoints.areas.drain import MAXIMUM_WATERMARK
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    STATE,
    Progress,
    batches,
    fence_at,
    numbers,
)
from airflow_provider_ha.checkpoints.spark.closure import StateReader
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, names, read_text
from airflow_provider_ha.checkpoints.spark.metadata_log import (
    COMPACT,
    CommitsEntry,
    CompactibleLog,
    LogEntries,
    OffsetsEntry,
    check_hidden_sum,
    parse_query_id,
    read_commits,
    read_offsets,
)
from airflow_provider_ha.checkpoints.spark.releases import Release
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.verification_report import Reason
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError


Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class CheckpointLog:
    """Reasons why entries of a log cannot be used, by batch."""

    missing: Code
    name: str
    bad: Mapping[int, Reason]
    present: frozenset[int]

    def lacks(self, batch: int) -> list[Reason]:
        """Return the reasons why the entry of *batch* cannot be used."""
        if batch in self.bad:
            return [self.bad[batch]]
        return [] if batch in self.present else [Reason(self.missing, f"{self.name}/{batch}", "it is not there")]


@dataclass(frozen=True, slots=True)
class CheckpointLogs:
    """The readable content of the logs.

    :param offsets: Planned batches with a complete entry.
    :param commits: Committed batches with a complete entry.
    :param offset_log: Existing entries of the offset log, with the problems of the bad ones.
    :param query_id: Problem with the query id; ``None`` when it is readable.
    :param behind_id: Whether the query id is followed by data in its file, which Spark does not read.
    :param entries: Batches that have an entry, readable or not.
    :param fence: The entry with the record of a takeover; empty without one.
    """

    offsets: Mapping[int, OffsetsEntry]
    commits: Mapping[int, CommitsEntry]
    offset_log: CheckpointLog
    commit_log: CheckpointLog
    query_id: Reason | None
    behind_id: bool
    entries: LogEntries
    fence: str = ""

    @property
    def progress(self) -> Progress:
        """Progress of the query."""
        return Progress(max(self.offset_log.present, default=-1), max(self.commit_log.present, default=-1))

    @property
    def batches(self) -> list[int]:
        """All batches with an entry, ascending."""
        return sorted(self.offset_log.present | self.commit_log.present)

    @property
    def next_base(self) -> int:
        """Batch whose state the next batch reads; -1 without state. C, unless several batches are uncommitted."""
        return max(self.progress.committed, self.progress.planned - 1)


def read_logs(directory: Tree) -> CheckpointLogs:
    """Read the logs of the checkpoint in *directory*."""
    offsets, offset_log = read_log(directory, OFFSETS, Code.OFFSETS_MISSING, Code.OFFSETS_CORRUPT, _checked_offsets)
    commits, commit_log = read_log(directory, COMMITS, Code.COMMITS_MISSING, Code.COMMITS_CORRUPT, read_commits)
    entries = LogEntries.of(offset_log.present, commit_log.present)
    fence = next((name for name in map(partial(_fence, directory), (OFFSETS, COMMITS)) if name), "")
    return CheckpointLogs(offsets, commits, offset_log, commit_log, *_query_id_problem(directory), entries, fence)


def _fence(directory: Tree, log: str) -> str:
    """Return the entry of *log* with the record of a takeover, always its last; empty without one."""
    name = f"{log}/{max(numbers(directory, log), default=-1)}"
    return name if fence_at(directory, name) is not None else ""


def read_log(
    directory: Tree, log: str, missing: Code, corrupt: Code, read: Callable[[Tree, int], Entry]
) -> tuple[dict[int, Entry], CheckpointLog]:
    """Return the complete entries of *log*, and the problems of the others."""
    entries: dict[int, Entry] = {}
    bad: dict[int, Reason] = {}
    for batch in batches(directory, log):
        try:
            entries[batch] = read(directory, batch)
        except (CheckpointMissingError, FileGoneError):  # noqa: PERF203  # continue with the next entry
            continue  # purged between listing and reading
        except CheckpointCorruptError as error:
            if fence_at(directory, f"{log}/{batch}") is not None:
                continue
            bad[batch] = Reason(corrupt, f"{log}/{batch}", error.reason)
    return entries, CheckpointLog(missing, log, bad, frozenset(entries) | frozenset(bad))


def _checked_offsets(directory: Tree, batch: int) -> OffsetsEntry:
    entry = read_offsets(directory, batch)
    check_hidden_sum(directory, f"{OFFSETS}/{batch}")
    return entry


def _query_id_problem(directory: Tree) -> tuple[Reason | None, bool]:
    """Return the problem with the query id, and whether data follows it."""
    try:
        _, behind = parse_query_id(read_text(directory, METADATA))
    except FileGoneError:
        return Reason(Code.METADATA_MISSING, METADATA, "it is not there, although batches were planned"), False
    except CheckpointCorruptError as error:
        return Reason(Code.METADATA_CORRUPT, METADATA, error.reason), False
    return None, bool(behind)


# Version 3 occurs with either state format: without ids it proves nothing.
_COMMITS_WITH_IDS = 2


class Statefulness(Enum):
    """Knowledge about the state of a query."""

    STATEFUL = "stateful"
    STATELESS = "stateless"
    UNKNOWN = "unknown"


def statefulness(directory: Tree, logs: CheckpointLogs) -> Statefulness:
    """Return whether the query of the checkpoint in *directory* keeps state."""
    if has_state_directory(directory):
        return Statefulness.STATEFUL
    pairs = ((logs.offsets.get(batch - 1), entry) for batch, entry in logs.offsets.items())
    waited = any(before is not None and _waits(before, after) for before, after in pairs)
    if waited or any(entry.state_ids for entry in logs.commits.values()):
        return Statefulness.STATEFUL
    if logs.entries.leaves_out(beside=logs.progress.planned):
        # Asynchronous progress tracking refuses queries with state.
        return Statefulness.STATELESS
    newest = logs.commits.get(logs.progress.committed)
    if newest is not None and newest.version == _COMMITS_WITH_IDS:
        return Statefulness.STATELESS
    return Statefulness.UNKNOWN


def has_state_directory(directory: Tree) -> bool:
    """Whether the checkpoint has a state directory, even an empty one: a query without state has none."""
    return bool(names(directory / STATE)) or (directory / STATE).is_directory()


def _waits(before: OffsetsEntry, after: OffsetsEntry) -> bool:
    """Whether the second batch has no input and was planned for its watermark alone; a drain is planned for all."""
    old, new = _watermark(before), _watermark(after)
    return before.offsets == after.offsets and old < new < MAXIMUM_WATERMARK


def _watermark(entry: OffsetsEntry) -> int:
    value = entry.metadata.get("batchWatermarkMs")
    return value if isinstance(value, int) else 0


class Tracking(Enum):
    """Tracking mode of the progress before a batch."""

    EVERY_BATCH = "every batch"
    ASYNCHRONOUS = "asynchronous"
    UNKNOWN = "unknown"


def tracking(logs: CheckpointLogs, batch: int, kind: Statefulness) -> Tracking:
    """Return the tracking mode before *batch*, as far as the logs show it."""
    entries = logs.entries
    if kind is Statefulness.STATEFUL or batch <= 0:
        return Tracking.EVERY_BATCH
    if entries.leaves_out(beside=batch):
        return Tracking.ASYNCHRONOUS
    if batch - 1 in logs.offset_log.present:
        return Tracking.EVERY_BATCH
    if entries.planned[:1] == (batch,):
        return Tracking.UNKNOWN  # entries before the oldest one may have been purged
    return Tracking.UNKNOWN if batch - 1 not in entries.committed and entries.left_out else Tracking.EVERY_BATCH


def previous(logs: CheckpointLogs, batch: int, kind: Statefulness) -> int | None:
    """Return the batch whose entry Spark reads before that of *batch*; ``None`` for none.

    :param kind: Whether the query keeps state: then it is the preceding batch, even if its entry is missing.
    """
    return logs.entries.previous(batch, sparse=kind is not Statefulness.STATEFUL)


def left_out(logs: CheckpointLogs, kind: Statefulness) -> tuple[tuple[int, int], ...]:
    """Return (first, last) of every run of deliberately omitted batches, ascending."""
    return () if kind is Statefulness.STATEFUL else logs.entries.left_out


def ranges_text(ranges: Iterable[tuple[int, int]]) -> str:
    """Return *ranges* in readable form: ``1, 3-4``."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


_SUM = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class _EntrySums:
    """Content of an entry as sums of hashes: independent of order, in constant memory.

    :param previous: The previous existing compact entry; -1 for none.
    :param before: The sum of the lines up to *previous*.
    :param each: Log offset -> the sum of its lines, for lines after *previous*.
    """

    previous: int
    whole: int
    before: int
    each: dict[int, int]


class SourceEntries:
    """Checker of source log entries with a cache of its results: many batches need the same entry."""

    def __init__(self) -> None:
        self._said: dict[str, _EntrySums | CheckpointCorruptError] = {}
        self._damage: dict[str, CheckpointCorruptError | None] = {}

    def damage(self, directory: Tree, log: CompactibleLog, entry: int) -> CheckpointCorruptError | None:
        """Return the problem with an existing entry."""
        path = log.path(entry)
        if path not in self._damage:
            self._damage[path] = self._look(directory, log, entry)
        return self._damage[path]

    def _look(self, directory: Tree, log: CompactibleLog, entry: int) -> CheckpointCorruptError | None:
        said = self._read(log, entry)
        if isinstance(said, CheckpointCorruptError):
            return said
        path = log.path(entry)
        try:
            if not check_hidden_sum(directory, path) and path.endswith(COMPACT):
                self._compare(log, entry, said)
        except CheckpointCorruptError as error:
            return error
        return None

    def _compare(self, log: CompactibleLog, entry: int, said: _EntrySums) -> None:
        for other in (number for number in log.entries if said.previous <= number < entry):
            found = self._read(log, other)
            repeated = said.before if other == said.previous else said.each.get(other)
            if isinstance(found, _EntrySums) and found.whole != repeated:
                raise CheckpointCorruptError(log.path(entry), f"it does not repeat the content of {log.path(other)}")

    def _read(self, log: CompactibleLog, entry: int) -> _EntrySums | CheckpointCorruptError:
        path = log.path(entry)
        if path not in self._said:
            try:
                self._said[path] = _read(log, entry)
            except CheckpointCorruptError as error:
                self._said[path] = error
        return self._said[path]


def _read(log: CompactibleLog, entry: int) -> _EntrySums:
    path = log.path(entry)
    compact = path.endswith(COMPACT)
    previous = log.newest_compact(entry - 1) if compact else -1
    numbers: set[int] = set()
    whole, before = 0, 0
    each: dict[int, int] = {}
    for line in log.lines(entry):
        value = json.loads(line)
        number = value.get("batchId", entry)
        if not isinstance(number, int):
            raise CheckpointCorruptError(path, "it has a line whose batchId is not a number")
        numbers.add(number)
        hashed = hash((str(value.get("path")), str(value.get("timestamp")), number))
        whole = (whole + hashed) & _SUM
        if compact and number > previous:
            each[number] = (each.get(number, 0) + hashed) & _SUM
        else:
            before = (before + hashed) & _SUM
    wanted = set(range(entry + 1)) if compact else {entry}
    if not wanted <= numbers:
        # Every entry has new files: Spark writes no empty entry. A compact one repeats all before it.
        raise CheckpointCorruptError(path, f"it names no file of log offset {min(wanted - numbers)}: it is truncated")
    return _EntrySums(previous, whole, before, each)


@dataclass(frozen=True, slots=True)
class VerificationSubject:
    """A checkpoint under verification.

    :param release: The release that will start from it.
    :param reader: Finds its state files, and reads them to the requested depth.
    :param looked_into: Results for source log entries: many batches need the same entry.
    :param kind: Whether its query keeps state.
    :param refused_conf: Problems of a pinned conf: most entries pin the same one.
    """

    directory: Tree
    release: Release
    reader: StateReader
    logs: CheckpointLogs
    kind: Statefulness
    looked_into: SourceEntries = field(default_factory=SourceEntries)
    refused_conf: dict[str, list[str]] = field(default_factory=dict)
