"""Names in a Spark checkpoint directory, its progress, and the record of a takeover in a log.

Invariant: only final names count. Temporary files (``.x.<uuid>.tmp``, ``temp-…``), checksums (hidden and visible) and
anything that is not a number are remains of a crash or belong to Spark's file manager: ignored by Spark, and by us.

Invariant: it is written only into the slot that the old driver needs next. It is the end of a log and not damage: the
batches before it are unchanged.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_ha.checkpoints.spark.files import names, read
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError


MAGIC = b"spark-ha-fence "
VERSION = 1
_LARGEST = 4096  # bytes; an entry of a log is read once more only when it may be a record


@dataclass(frozen=True, slots=True)
class FenceRecord:
    """Who has taken over.

    :param writer: Unique for each attempt to write it.
    """

    epoch: int = 0
    submission: str = ""
    writer: str = ""
    at: str = ""

    def to_bytes(self) -> bytes:
        """Return the content of the slot."""
        return MAGIC + f"{VERSION} {json.dumps(asdict(self))}\n".encode()


def parse_fence(data: bytes) -> FenceRecord | None:
    """Return the record in an entry of a log; ``None`` for any other entry.

    Fields of later releases are ignored; a damaged record is still a fence, by an unknown leader.
    """
    if not data.startswith(MAGIC):
        return None
    _, _, body = data.removeprefix(MAGIC).partition(b" ")
    try:
        said: Any = json.loads(body)
        return FenceRecord(int(said["epoch"]), str(said["submission"]), str(said["writer"]), str(said["at"]))
    except (ValueError, KeyError, TypeError):
        return FenceRecord()


def fence_at(directory: Tree, name: str) -> FenceRecord | None:
    """Return the record in the entry *name* of a checkpoint; ``None`` when it is another entry, or gone."""
    try:
        if directory.file_size(name) > _LARGEST:
            return None
        return parse_fence(read(directory, name))
    except CheckpointCorruptError:  # gone, or no file at all
        return None


OFFSETS = "offsets"
COMMITS = "commits"
SOURCES = "sources"
STATE = "state"
METADATA = "metadata"
BEGUN = frozenset({METADATA, OFFSETS, COMMITS})
"""A directory with one of these is one that Spark began to fill."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a query.

    :param planned: L, the highest batch in the offset log; -1 without one.
    :param committed: C, the highest batch in the commit log; -1 without one.
    """

    planned: int
    committed: int

    @property
    def in_flight(self) -> bool:
        """Return whether a batch was planned and not committed: Spark executes exactly that batch again."""
        return self.planned > self.committed


def numbers(directory: Tree, place: str = "") -> list[int]:
    """Return the plain numbers among the names in *directory*, ascending; none when it does not exist.

    :param place: Of a directory below it instead, by its path relative to it.
    """
    return sorted(int(name) for name in names(directory, place) if name.isascii() and name.isdigit())


def batches(directory: Tree, log: str) -> list[int]:
    """Return the batch ids in a log of the checkpoint, ascending, without the record of a takeover at its end."""
    return _of_spark(numbers(directory, log), directory / log)


def progress(directory: Tree) -> Progress:
    """Return how far the query of this checkpoint is at this moment.

    Reads names, and where a log may end with the record of a takeover its last entry.
    """
    return progress_when_listed(directory.fresh(OFFSETS, COMMITS))


def progress_when_listed(directory: Tree) -> Progress:
    """Return how far the query was when the directory was listed; it is listed now when that was not done yet.

    For a directory that is fenced, or whose other files are taken from the same listing.
    """
    return Progress(log_end(directory / OFFSETS).batch, log_end(directory / COMMITS).batch)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """End of a log.

    :param batch: Its highest batch; -1 without one.
    :param fence: Number of the entry with the record of a takeover, the last one; ``None`` without one.
    """

    batch: int
    fence: int | None


def log_end(log: Tree) -> LogEnd:
    """Return the end of a log as it was when the directory was listed."""
    found = numbers(log)
    own = _of_spark(found, log)
    return LogEnd(own[-1] if own else -1, found[-1] if len(own) < len(found) else None)


def _of_spark(found: list[int], log: Tree) -> list[int]:
    if found and log.may_be_fenced and fence_at(log, str(found[-1])) is not None:
        return found[:-1]
    return found


def queries(root: Tree) -> list[str]:
    """Return the names of the queries in a working directory, sorted: every directory that Spark began to fill."""
    return [name for name in names(root) if not name.startswith(".") and not BEGUN.isdisjoint(names(root, name))]
