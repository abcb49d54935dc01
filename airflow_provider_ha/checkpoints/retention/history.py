"""Payloads of a job in storage: separate objects, or grouped in archives.

Invariant: payloads are listed first and archives afterwards. An archive is complete before its first payload is
removed, so a reader that misses a payload finds the archive; a payload in both counts once. Damaged ones are left out
and logged, failed reads are raised (contract 6).
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from airflow_provider_ha.checkpoints.model import Checkpoint
from airflow_provider_ha.checkpoints.retention.payload_archives import (
    Archive,
    ArchiveHead,
    ArchiveName,
    make_archive,
    parse_name,
)
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS
from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError, RecordCorruptError, StorageError
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.store import ObjectStore


log = logging.getLogger(__name__)
_PAYLOAD = re.compile(rf"(\d{{{CHECKPOINT_DIGITS}}})-e(\d+)\.json")


class PayloadName(NamedTuple):
    """One payload that is a separate object.

    :param size: Bytes.
    """

    number: int
    epoch: int
    size: int


class PayloadHistory:
    """The payloads and archives of a job. Owns nothing; safe in any thread."""

    def __init__(self, store: ObjectStore, keys: JobKeys) -> None:
        self._store = store
        self._keys = keys

    def checkpoints(self) -> Iterator[Checkpoint]:
        """Yield every payload once: separate objects first, ascending by number.

        :raises StorageUnavailableError: Storage could not be read.
        """
        seen: set[tuple[int, int]] = set()
        for info in self._store.list(self._keys.payloads):
            try:
                checkpoint = Checkpoint.from_bytes(self._store.read(info.key), source=info.key)
            except ObjectMissingError:
                continue  # archived or removed since the names were read
            except RecordCorruptError as error:
                log.warning("payload is left out: %s", error)
                continue
            seen.add((checkpoint.number, checkpoint.epoch))
            yield checkpoint
        for name in self.archives():
            for checkpoint in self._archived(name):
                if (checkpoint.number, checkpoint.epoch) not in seen:
                    yield checkpoint

    def payloads(self) -> Iterator[PayloadName]:
        """Yield the payloads that are separate objects, ascending by number."""
        for info in self._store.list(self._keys.payloads):
            found = _PAYLOAD.fullmatch(info.key.removeprefix(self._keys.payloads))
            if found:
                yield PayloadName(int(found[1]), int(found[2]), info.size)

    def archives(self) -> Iterator[ArchiveName]:
        """Yield the archives, ascending by the number of their first payload."""
        for info in self._store.list(self._keys.archive_heads):
            text = info.key.removeprefix(self._keys.archive_heads).removesuffix(".json")
            if (name := parse_name(text)) is not None:
                yield name

    def count(self) -> int:
        """Return the number of payloads, archived or not; reads names only."""
        return sum(1 for _ in self.payloads()) + sum(archive.count for archive in self.archives())

    def read(self, payload: PayloadName) -> Checkpoint:
        """Return a payload that is a separate object.

        :raises RecordCorruptError: It is damaged.
        :raises ObjectMissingError: It is missing.
        :raises StorageUnavailableError: It could not be read.
        """
        key = self._keys.payload(payload.number, payload.epoch)
        return Checkpoint.from_bytes(self._store.read(key), source=key)

    def delete(self, payload: PayloadName) -> None:
        """Remove a payload that is a separate object."""
        self._store.delete(self._keys.payload(payload.number, payload.epoch))

    def head(self, name: ArchiveName) -> ArchiveHead:
        """Return the head of an archive; raises as :meth:`read`."""
        key = self._keys.archive_head(name.text)
        return ArchiveHead.from_bytes(self._store.read(key), source=key)

    def content(self, name: ArchiveName) -> tuple[Checkpoint, ...]:
        """Return the payloads in an archive; raises as :meth:`read`."""
        head, key = self.head(name), self._keys.archive(name.text)
        data = self._store.read(key)
        if hashlib.sha256(data).hexdigest() != head.sha256:
            raise RecordCorruptError(f"the digest of {key} differs from its head")
        return Archive.from_bytes(data, source=key).checkpoints

    def archive(self, checkpoints: list[Checkpoint]) -> ArchiveName:
        """Write an archive of payloads, data first, and read it back. Repeatable; removes nothing.

        :raises StorageError: It could not be written, or reads back differently: its payloads must stay.
        """
        head, data = make_archive(checkpoints)
        name = head.name
        for key, content in (
            (self._keys.archive(name.text), data),
            (self._keys.archive_head(name.text), head.to_bytes()),
        ):
            try:
                self._store.create(key, content)
            except ObjectExistsError:
                self._store.touch(key)  # of an archive whose writer died before its end: it is needed from now on
            if self._store.read(key) != content:  # guard: payloads-go-before-their-archive-is-read-back
                raise StorageError(
                    f"{key} differs from the written archive, so its payloads stay",
                    next_step="Check the storage, then remove that object",
                )
        return name

    def drop(self, name: ArchiveName) -> None:
        """Remove an archive: its head, then its data."""
        self._store.delete(self._keys.archive_head(name.text))
        self._store.delete(self._keys.archive(name.text))

    def leftovers(self, *, before: datetime) -> list[ArchiveName]:
        """Return archives without a head, whose data was written *before*: their heads will never be written."""
        prefix = self._keys.archive_data
        data = [info for info in self._store.list(prefix) if info.modified < before]
        names = {parse_name(info.key.removeprefix(prefix).removesuffix(".json")) for info in data}
        return sorted(
            (name for name in names - set(self.archives()) if name is not None),
            key=lambda name: (name.first, name.text),
        )

    def _archived(self, name: ArchiveName) -> tuple[Checkpoint, ...]:
        try:
            return self.content(name)
        except RecordCorruptError as error:
            log.warning("archive is left out: %s", error)
        except ObjectMissingError as error:
            if self._store.info(self._keys.archive_head(name.text)) is not None:
                log.warning("archive is left out: %s", error)
        return ()
