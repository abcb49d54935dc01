"""The logs of a checkpoint: ``metadata``, ``offsets/<n>`` and ``commits/<n>``.

Invariant: an entry is either read as Spark reads it or refused with its path and the reason, never guessed. Spark
writes an entry with a rename, so a short one is a fault of the disk or the file system, never a normal state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from airflow_provider_ha.checkpoints.format.layout import COMMITS, METADATA, OFFSETS
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, read_text
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointError, CheckpointMissingError


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

    :param batch: Its id.
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
