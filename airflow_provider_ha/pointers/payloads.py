"""Payload of a pointer: written before the pointer, checked against it, removed after it.

Invariant: a payload's key belongs to one writer (it contains the epoch), and it is created, never overwritten. A
payload that existed before a call may already have a pointer, so a call discards only payloads that it created.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from airflow_provider_ha.errors import ObjectExistsError, RecordCorruptError, StorageError
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.store import ObjectStore


log = logging.getLogger(__name__)
P = TypeVar("P", bound=Record)


@dataclass(frozen=True, slots=True)
class Handle:
    """Location of a payload.

    :param key: Its key in storage.
    :param sha256: Digest of its bytes.
    """

    key: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Payloads(Generic[P]):
    """Payloads of a kind of pointer.

    :param store: Their storage.
    :param handle_of: Returns the payload's handle for a pointer.
    """

    store: ObjectStore
    handle_of: Callable[[P], Handle]

    def write(self, pointer: P, data: bytes) -> bool:
        """Write the payload; return whether this call created it.

        :raises ObjectExistsError: The key has other content.
        :raises StorageUnavailableError: It could not be written, or the outcome is unknown.
        """
        key = self.handle_of(pointer).key
        try:
            self.store.create(key, data)
        except ObjectExistsError:
            if self.store.read(key) != data:
                raise
            return False
        return True

    def read(self, pointer: P) -> bytes:
        """Return the bytes of the payload.

        :raises RecordCorruptError: The bytes differ from the writer's.
        :raises ObjectMissingError: The payload is missing.
        :raises StorageUnavailableError: The payload could not be read.
        """
        handle = self.handle_of(pointer)
        data = self.store.read(handle.key)
        if hashlib.sha256(data).hexdigest() != handle.sha256:
            raise RecordCorruptError(f"{handle.key} has another digest than its pointer says")
        return data

    def discard(self, pointer: P) -> None:
        """Remove a payload that certainly nothing refers to. What cannot be removed stays, without an owner."""
        key = self.handle_of(pointer).key
        try:
            self.store.delete(key)
        except StorageError as error:
            log.warning("unreferenced payload %s could not be removed: %s", key, error)
