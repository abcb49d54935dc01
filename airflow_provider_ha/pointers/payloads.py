"""The payload that a pointer refers to: written before the pointer, checked against it, removed after it.

Invariant: a payload's key belongs to one writer (it carries the epoch), and it is created, never overwritten. One that
was there before this call may already have a pointer, so only what this very call created may be discarded by it.
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
    """Where a payload lies.

    :param key: Its key in storage.
    :param sha256: Digest of its bytes.
    """

    key: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Payloads(Generic[P]):
    """The payloads of one kind of pointer.

    :param store: Where they lie.
    :param handle_of: Says which payload a pointer refers to.
    """

    store: ObjectStore
    handle_of: Callable[[P], Handle]

    def write(self, pointer: P, data: bytes) -> bool:
        """Write the payload; whether this call created it.

        :raises ObjectExistsError: Something else lies under its key.
        :raises StorageUnavailableError: It could not be written, or that is unknown.
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

        :raises RecordCorruptError: They are not those that the pointer's writer wrote.
        :raises ObjectMissingError: It is not there.
        :raises StorageUnavailableError: It could not be read: nothing is known about it.
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
            log.warning("payload %s, which nothing refers to, could not be removed: %s", key, error)
