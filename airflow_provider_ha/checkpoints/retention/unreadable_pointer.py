"""An unreadable checkpoint pointer that a person removes: its bytes, and their copy.

Invariants (contracts 2 and 6): a failed read removes no pointer. A person requests the removal, with the digest of the
bytes seen; any other bytes stay. The bytes are saved in storage before their node is removed. A record of a newer
release is intact, and this release may not remove it.
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
    """A removed pointer that could not be read.

    :param node: Its path in ZooKeeper.
    :param reason: Read error.
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

    :param number: Number of the checkpoint, known only from the name of the node.
    :param reason: Read error.
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
    """Return the pointer in a node if it cannot be read; ``None`` if it can.

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

    :raises StorageError: They could not be written: then the pointer must stay.
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
