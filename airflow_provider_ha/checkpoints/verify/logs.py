"""The logs of a checkpoint, read once: all entries, all unreadable entries, and the query id.

Invariant: this module judges nothing. An entry purged during the read counts as never present.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from airflow_provider_ha.checkpoints.format.compactible_log import check_hidden_sum
from airflow_provider_ha.checkpoints.format.fence_record import fence_at
from airflow_provider_ha.checkpoints.format.layout import COMMITS, METADATA, OFFSETS, Progress, batches, numbers
from airflow_provider_ha.checkpoints.format.log_entries import LogEntries
from airflow_provider_ha.checkpoints.format.metadata_log import (
    CommitsEntry,
    OffsetsEntry,
    parse_query_id,
    read_commits,
    read_offsets,
)
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, read_text
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.report import Reason
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError


Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Log:
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
class Logs:
    """The readable content of the logs.

    :param offsets: Planned batches with a complete entry.
    :param commits: Committed batches with a complete entry.
    :param offset_log: Existing entries of the offset log, with the problems of the bad ones.
    :param commit_log: The same for the commit log.
    :param query_id: Problem with the query id; ``None`` when it is readable.
    :param behind_id: Whether the query id is followed by data in its file, which Spark does not read.
    :param entries: Batches that have an entry, readable or not.
    :param fence: The entry with the record of a takeover; empty without one.
    """

    offsets: Mapping[int, OffsetsEntry]
    commits: Mapping[int, CommitsEntry]
    offset_log: Log
    commit_log: Log
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


def read_logs(directory: Tree) -> Logs:
    """Read the logs of the checkpoint in *directory*.

    :raises StorageUnavailableError: A log could not be read.
    """
    offsets, offset_log = read_log(directory, OFFSETS, Code.OFFSETS_MISSING, Code.OFFSETS_CORRUPT, _checked_offsets)
    commits, commit_log = read_log(directory, COMMITS, Code.COMMITS_MISSING, Code.COMMITS_CORRUPT, read_commits)
    entries = LogEntries.of(offset_log.present, commit_log.present)
    fence = next((name for name in map(partial(_fence, directory), (OFFSETS, COMMITS)) if name), "")
    return Logs(offsets, commits, offset_log, commit_log, *_query_id_problem(directory), entries, fence)


def _fence(directory: Tree, log: str) -> str:
    """Return the entry of *log* with the record of a takeover, always its last; empty without one."""
    name = f"{log}/{max(numbers(directory, log), default=-1)}"
    return name if fence_at(directory, name) is not None else ""


def read_log(
    directory: Tree, log: str, missing: Code, corrupt: Code, read: Callable[[Tree, int], Entry]
) -> tuple[dict[int, Entry], Log]:
    """Return the complete entries of *log*, and the problems of the others.

    :param log: ``"offsets"`` or ``"commits"``.
    :param missing: Code of a missing entry.
    :param corrupt: Code of an unreadable entry.
    :param read: Reads the entry of a batch.
    :raises StorageUnavailableError: An entry could not be read.
    """
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
    return entries, Log(missing, log, bad, frozenset(entries) | frozenset(bad))


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
