"""Pointers of checkpoints: content, names, a complete read, and the bytes of unreadable pointers.

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

from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointPointer
from airflow_provider_ha.checkpoints.store.pointer_scan import UnreadableRecord, decode
from airflow_provider_ha.checkpoints.store.pointer_store import LoadedPointers, PayloadHandle
from airflow_provider_ha.coordination.coordinator import Node
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS, JobPaths
from airflow_provider_ha.errors import ConfigurationError, RecordCorruptError, RecordTooNewError
from airflow_provider_ha.names import check_savepoint_id
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore


class RemovedPointer(Record):
    """A removed pointer that could not be read.

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
class DamagedPointer:
    """A pointer as it was seen.

    :param number: Number of the checkpoint, known only from the name of the node.
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


def unreadable_pointer(node: Node, number: int) -> DamagedPointer | None:
    """Return the pointer in a node if it cannot be read; ``None`` if it can.

    :raises RecordTooNewError: A newer release wrote it.
    """
    try:
        decode(node, CheckpointPointer)
    except RecordTooNewError:  # guard: newer-pointers-count-as-damaged
        raise
    except RecordCorruptError as error:
        return DamagedPointer(number, node.path, error.message, node.data, node.version)
    return None


def keep_bytes(store: ObjectStore, keys: JobKeys, pointer: DamagedPointer, *, at: datetime) -> str:
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


@dataclass(frozen=True, slots=True)
class RecoveredCheckpoints:
    """Checkpoints of a job, read completely.

    :param checkpoints: Pointer and payload, ascending by number; the last one is the latest readable one.
    :param unreadable: Unreadable pointers and payloads; each may be newer.
    """

    checkpoints: tuple[tuple[CheckpointPointer, Checkpoint], ...]
    unreadable: tuple[UnreadableRecord, ...]


def recovered(loaded: LoadedPointers[CheckpointPointer]) -> RecoveredCheckpoints:
    """Decode payloads and order them by number: 10 is newer than 9, although its name sorts first (FLINK-6284)."""
    checkpoints, unreadable = [], list(loaded.unreadable)
    for found, data in loaded.found:
        try:
            checkpoints.append((found.record, Checkpoint.from_bytes(data, source=found.record.payload)))
        except RecordCorruptError as error:  # noqa: PERF203  # continue with the next payload
            unreadable.append(UnreadableRecord(found.name, error.message))
    # guard: recovery-trims
    return RecoveredCheckpoints(tuple(sorted(checkpoints, key=lambda item: item[0].number)), tuple(unreadable))


def handle_of(pointer: CheckpointPointer) -> PayloadHandle:
    """Return the payload handle of a pointer."""
    return PayloadHandle(pointer.payload, pointer.sha256)


def pointer_to(keys: JobKeys, checkpoint: Checkpoint, data: bytes) -> CheckpointPointer:
    """Return the pointer of a checkpoint whose payload is *data*."""
    return CheckpointPointer(
        number=checkpoint.number,
        epoch=checkpoint.epoch,
        run=checkpoint.run,
        reason=checkpoint.reason,
        payload=keys.payload(checkpoint.number, checkpoint.epoch),
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        cut={query: part.batch for query, part in checkpoint.queries.items()},
        created_at=checkpoint.created_at,
        seconds=checkpoint.seconds,
        state_size=checkpoint.state_size,
    )


def node_name(number: int) -> str:
    """Return the name of a pointer's node."""
    return f"{number:0{CHECKPOINT_DIGITS}d}"  # guard: names-are-not-padded


def pointer_path(paths: JobPaths, name: str) -> str:
    """Return the node of the pointer to ``checkpoint-<n>`` or ``savepoint-<id>``.

    :raises ConfigurationError: It names neither.
    """
    kind, _, its_id = name.partition("-")
    if kind == "checkpoint" and its_id.isascii() and its_id.isdigit():
        return paths.checkpoint(int(its_id))
    if kind == "savepoint":
        return paths.savepoint(check_savepoint_id(its_id))
    raise ConfigurationError(
        f"{name!r} names neither a checkpoint nor a savepoint",
        next_step="Use 'checkpoint-<number>' or 'savepoint-<id>'",
    )


def lease_name(number: int) -> str:
    """Return the name of the readers' leases on a checkpoint."""
    return f"checkpoint-{number}"
