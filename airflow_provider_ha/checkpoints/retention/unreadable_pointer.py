"""A checkpoint's pointer that cannot be read, and that a person removes: which bytes it has, and where they stay.

Invariants (contracts 2 and 6): a read that failed removes nothing. A person asks, and names the digest of the bytes
that were seen; any other bytes stay. The bytes are in storage before their node goes. A record of a newer release is
whole, and not for this release to remove.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.errors import RecordCorruptError, RecordTooNewError
from airflow_provider_ha.pointers.scan import decode
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.store import ObjectStore


class RemovedPointer(Record):
    """A pointer that could not be read and was removed.

    :param node: Its path in ZooKeeper.
    :param reason: Why it could not be read.
    :param data: Its bytes, in base64.
    """

    kind: ClassVar[str] = "removed-pointer"

    job_id: str
    checkpoint: int
    node: str
    reason: str
    data: str
    removed_at: datetime


@dataclass(frozen=True, slots=True)
class UnreadablePointer:
    """A pointer as it was seen.

    :param number: Number of the checkpoint, which only the name of the node says.
    :param reason: Why it cannot be read.
    :param version: Version of the node.
    """

    number: int
    node: str
    reason: str
    data: bytes
    version: int

    @property
    def digest(self) -> str:
        """Sha256 of its bytes, as 64 hex digits."""
        return hashlib.sha256(self.data).hexdigest()


def unreadable_pointer(node: Node, number: int) -> UnreadablePointer | None:
    """Return the pointer that a node holds if it cannot be read; ``None`` if it can.

    :raises RecordTooNewError: A newer release wrote it.
    """
    try:
        decode(node, CheckpointPointer)
    except RecordTooNewError:  # guard: newer-pointers-count-as-damaged
        raise
    except RecordCorruptError as error:
        return UnreadablePointer(number, node.path, error.message, node.data, node.version)
    return None


def keep_bytes(store: ObjectStore, keys: JobKeys, pointer: UnreadablePointer, *, at: datetime) -> str:
    """Write the bytes of a pointer to storage, and return the key. Repeatable.

    :raises StorageError: They could not be written: then the pointer may not go.
    """
    key = keys.removed_pointer(pointer.number, pointer.digest)
    record = RemovedPointer(
        job_id=keys.job_id,
        checkpoint=pointer.number,
        node=pointer.node,
        reason=pointer.reason,
        data=base64.b64encode(pointer.data).decode(),
        removed_at=at,
    )
    store.write(key, record.to_bytes())
    return key
