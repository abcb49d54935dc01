"""Pointers of checkpoints: content, names, and a complete read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointPointer
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS, JobPaths
from airflow_provider_ha.errors import ConfigurationError, RecordCorruptError
from airflow_provider_ha.names import check_savepoint_id
from airflow_provider_ha.pointers.payloads import Handle
from airflow_provider_ha.pointers.scan import Unreadable
from airflow_provider_ha.pointers.store import Loaded
from airflow_provider_ha.storage.keys import JobKeys


@dataclass(frozen=True, slots=True)
class Recovered:
    """Checkpoints of a job, read completely.

    :param checkpoints: Pointer and payload, ascending by number; the last one is the latest readable one.
    :param unreadable: Unreadable pointers and payloads; each may be newer.
    """

    checkpoints: tuple[tuple[CheckpointPointer, Checkpoint], ...]
    unreadable: tuple[Unreadable, ...]


def recovered(loaded: Loaded[CheckpointPointer]) -> Recovered:
    """Decode payloads and order them by number: 10 is newer than 9, although its name sorts first (FLINK-6284)."""
    checkpoints, unreadable = [], list(loaded.unreadable)
    for found, data in loaded.found:
        try:
            checkpoints.append((found.record, Checkpoint.from_bytes(data, source=found.record.payload)))
        except RecordCorruptError as error:  # noqa: PERF203  # continue with the next payload
            unreadable.append(Unreadable(found.name, error.message))
    # guard: recovery-trims
    return Recovered(tuple(sorted(checkpoints, key=lambda item: item[0].number)), tuple(unreadable))


def handle_of(pointer: CheckpointPointer) -> Handle:
    """Return the payload handle of a pointer."""
    return Handle(pointer.payload, pointer.sha256)


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
