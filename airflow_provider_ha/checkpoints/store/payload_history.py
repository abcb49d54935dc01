"""Payloads of a job in storage: separate objects, or grouped in archives with a head that describes them.

Invariant: payloads are listed first and archives afterwards. An archive is complete before its first payload is
removed, so a reader that misses a payload finds the archive; a payload in both counts once. Damaged ones are left out
and logged, failed reads are raised (contract 6).

Invariant: the name of an archive ends with the digest of its data, so two processes that archive the same payloads
write the same objects. The data is written before the head and removed after it; without a head it is not an archive.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import ClassVar, NamedTuple

from airflow_provider_ha.checkpoints.model import Checkpoint
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS
from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError, RecordCorruptError, StorageError
from airflow_provider_ha.records import Model, Record
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore


MOST_PAYLOADS = 1000
MOST_BYTES = 8 * 2**20  # of payloads: parsed, they take several times as much memory
_NAME = re.compile(rf"(\d{{{CHECKPOINT_DIGITS}}})-(\d{{{CHECKPOINT_DIGITS}}})-e(\d+)-n(\d+)-[0-9a-f]{{16}}")


class PayloadArchive(Record):
    """Data of an archive.

    Its version rises with that of the checkpoint's record.

    :param checkpoints: Ascending by number, without the lists of closure files, which no longer exist.
    """

    kind: ClassVar[str] = "payload-archive"

    job_id: str
    checkpoints: tuple[Checkpoint, ...]


class PayloadSpan(Model):
    """Neighbours in an archive that were written by the same epoch and job graph."""

    run: int
    epoch: int
    graph: str
    first: int
    last: int
    first_at: datetime
    last_at: datetime


class PayloadArchiveHead(Record):
    """Summary of an archive.

    :param epoch: Highest epoch of its payloads.
    :param reach: Highest recorded batch by query.
    """

    kind: ClassVar[str] = "payload-archive-head"

    job_id: str
    epoch: int
    first: int
    last: int
    count: int
    reach: dict[str, int]
    spans: tuple[PayloadSpan, ...]
    sha256: str
    size: int

    @property
    def name(self) -> PayloadArchiveName:
        """Name of the archive."""
        text = (
            f"{self.first:0{CHECKPOINT_DIGITS}d}-{self.last:0{CHECKPOINT_DIGITS}d}"
            f"-e{self.epoch}-n{self.count}-{self.sha256[:16]}"
        )
        return PayloadArchiveName(text, self.first, self.last, self.epoch, self.count)


@dataclass(frozen=True, slots=True)
class PayloadArchiveName:
    """Fields in the name of an archive.

    :param epoch: Highest epoch of its payloads.
    """

    text: str
    first: int
    last: int
    epoch: int
    count: int


def parse_name(text: str) -> PayloadArchiveName | None:
    """Parse the name of an archive; ``None`` for any other name."""
    found = _NAME.fullmatch(text)
    return PayloadArchiveName(text, int(found[1]), int(found[2]), int(found[3]), int(found[4])) if found else None


def stripped(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint as an archive holds it."""
    queries = {name: part.model_copy(update={"files": {}}) for name, part in checkpoint.queries.items()}
    return checkpoint.model_copy(update={"queries": queries})


def reach_of(checkpoint: Checkpoint) -> dict[str, int]:
    """Return query -> highest recorded batch of a payload; queries without a record are omitted."""
    return {
        query: max(entry.batch for entry in part.entries) for query, part in checkpoint.queries.items() if part.entries
    }


def make_archive(checkpoints: Sequence[Checkpoint]) -> tuple[PayloadArchiveHead, bytes]:
    """Return the head and the data of an archive.

    :param checkpoints: Ascending by number, at least one.
    """
    first = checkpoints[0]
    archive = PayloadArchive(job_id=first.job_id, checkpoints=tuple(stripped(checkpoint) for checkpoint in checkpoints))
    data = archive.to_bytes()
    head = PayloadArchiveHead(
        job_id=first.job_id,
        epoch=max(checkpoint.epoch for checkpoint in checkpoints),
        first=first.number,
        last=checkpoints[-1].number,
        count=len(checkpoints),
        reach=_farthest(map(reach_of, checkpoints)),
        spans=tuple(_spans(checkpoints)),
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
    )
    return head, data


def chunks(sizes: Sequence[int]) -> Iterator[slice]:
    """Yield groups of neighbours that become one archive each; payloads that do not fill one are omitted. Pure."""
    start, total = 0, 0
    for end, size in enumerate(sizes, 1):
        total += size
        if end - start == MOST_PAYLOADS or total >= MOST_BYTES:
            if end - start > 1:  # one large payload is not worth an archive
                yield slice(start, end)
            start, total = end, 0


def _farthest(reaches: Iterable[dict[str, int]]) -> dict[str, int]:
    farthest: dict[str, int] = {}
    for reach in reaches:
        for query, batch in reach.items():
            farthest[query] = max(batch, farthest.get(query, batch))
    return farthest


def _spans(checkpoints: Iterable[Checkpoint]) -> Iterator[PayloadSpan]:
    for (run, epoch, graph), found in groupby(checkpoints, key=lambda each: (each.run, each.epoch, each.graph)):
        same = list(found)
        yield PayloadSpan(
            run=run,
            epoch=epoch,
            graph=graph,
            first=same[0].number,
            last=same[-1].number,
            first_at=same[0].created_at,
            last_at=same[-1].created_at,
        )


log = logging.getLogger(__name__)
_PAYLOAD = re.compile(rf"(\d{{{CHECKPOINT_DIGITS}}})-e(\d+)\.json")


class PayloadName(NamedTuple):
    """One payload that is a separate object."""

    number: int
    epoch: int
    size: int


class PayloadHistory:
    """The payloads and archives of a job. Owns nothing; safe in any thread."""

    def __init__(self, store: ObjectStore, keys: JobKeys) -> None:
        self._store = store
        self._keys = keys

    def checkpoints(self) -> Iterator[Checkpoint]:
        """Yield every payload once: separate objects first, ascending by number."""
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

    def archives(self) -> Iterator[PayloadArchiveName]:
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
        """
        key = self._keys.payload(payload.number, payload.epoch)
        return Checkpoint.from_bytes(self._store.read(key), source=key)

    def delete(self, payload: PayloadName) -> None:
        """Remove a payload that is a separate object."""
        self._store.delete(self._keys.payload(payload.number, payload.epoch))

    def head(self, name: PayloadArchiveName) -> PayloadArchiveHead:
        """Return the head of an archive; raises as :meth:`read`."""
        key = self._keys.archive_head(name.text)
        return PayloadArchiveHead.from_bytes(self._store.read(key), source=key)

    def content(self, name: PayloadArchiveName) -> tuple[Checkpoint, ...]:
        """Return the payloads in an archive; raises as :meth:`read`."""
        head, key = self.head(name), self._keys.archive(name.text)
        data = self._store.read(key)
        if hashlib.sha256(data).hexdigest() != head.sha256:
            raise RecordCorruptError(f"the digest of {key} differs from its head")
        return PayloadArchive.from_bytes(data, source=key).checkpoints

    def archive(self, checkpoints: list[Checkpoint]) -> PayloadArchiveName:
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

    def drop(self, name: PayloadArchiveName) -> None:
        """Remove an archive: its head, then its data."""
        self._store.delete(self._keys.archive_head(name.text))
        self._store.delete(self._keys.archive(name.text))

    def leftovers(self, *, before: datetime) -> list[PayloadArchiveName]:
        """Return archives without a head, whose data was written *before*: their heads will never be written."""
        prefix = self._keys.archive_data
        data = [info for info in self._store.list(prefix) if info.modified < before]
        names = {parse_name(info.key.removeprefix(prefix).removesuffix(".json")) for info in data}
        return sorted(
            (name for name in names - set(self.archives()) if name is not None),
            key=lambda name: (name.first, name.text),
        )

    def _archived(self, name: PayloadArchiveName) -> tuple[Checkpoint, ...]:
        try:
            return self.content(name)
        except RecordCorruptError as error:
            log.warning("archive is left out: %s", error)
        except ObjectMissingError as error:
            if self._store.info(self._keys.archive_head(name.text)) is not None:
                log.warning("archive is left out: %s", error)
        return ()
