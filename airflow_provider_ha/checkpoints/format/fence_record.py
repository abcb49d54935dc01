"""The record of a takeover in a log: an entry that Spark cannot parse, so that the old driver stops.

Invariant: it is written only into the slot that the old driver needs next. It is the end of a log and not damage: the
batches before it are unchanged.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_ha.checkpoints.trees.files import read
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError


MAGIC = b"spark-ha-fence "
VERSION = 1
_LARGEST = 4096  # bytes; an entry of a log is read once more only when it may be a record


@dataclass(frozen=True, slots=True)
class FenceRecord:
    """Who has taken over.

    :param epoch: Of the new leader.
    :param submission: Of the new leader.
    :param writer: Unique for each attempt to write it.
    :param at: Time, as ISO 8601.
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
    """Return the record in the entry *name* of a checkpoint; ``None`` when it is another entry, or gone.

    :raises StorageUnavailableError: It could not be read.
    """
    try:
        if directory.file_size(name) > _LARGEST:
            return None
        return parse_fence(read(directory, name))
    except CheckpointCorruptError:  # gone, or no file at all
        return None
