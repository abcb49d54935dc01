"""Archive of payloads: the records of many payloads in one object, and a small head that describes it.

Invariant: the name of an archive ends with the digest of its data, so two processes that archive the same payloads
write the same objects. The data is written before the head and removed after it; without a head it is not an archive.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import ClassVar

from airflow_provider_ha.checkpoints.model import Checkpoint
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS
from airflow_provider_ha.records import Model, Record


MOST_PAYLOADS = 1000
MOST_BYTES = 8 * 2**20  # of payloads: parsed, they take several times as much memory
_NAME = re.compile(rf"(\d{{{CHECKPOINT_DIGITS}}})-(\d{{{CHECKPOINT_DIGITS}}})-e(\d+)-n(\d+)-[0-9a-f]{{16}}")


class Archive(Record):
    """Data of an archive.

    Its version rises with that of the checkpoint's record.

    :param checkpoints: Ascending by number, without the lists of closure files, which no longer exist.
    """

    kind: ClassVar[str] = "payload-archive"

    job_id: str
    checkpoints: tuple[Checkpoint, ...]


class Span(Model):
    """Neighbours in an archive that were written by the same epoch and job graph.

    :param first: Number of the first payload.
    :param first_at: Its time.
    """

    run: int
    epoch: int
    graph: str
    first: int
    last: int
    first_at: datetime
    last_at: datetime


class ArchiveHead(Record):
    """Summary of an archive.

    :param epoch: Highest epoch of its payloads.
    :param reach: Highest recorded batch by query.
    :param sha256: Digest of the data.
    :param size: Bytes of the data.
    """

    kind: ClassVar[str] = "payload-archive-head"

    job_id: str
    epoch: int
    first: int
    last: int
    count: int
    reach: dict[str, int]
    spans: tuple[Span, ...]
    sha256: str
    size: int

    @property
    def name(self) -> ArchiveName:
        """Name of the archive."""
        text = (
            f"{self.first:0{CHECKPOINT_DIGITS}d}-{self.last:0{CHECKPOINT_DIGITS}d}"
            f"-e{self.epoch}-n{self.count}-{self.sha256[:16]}"
        )
        return ArchiveName(text, self.first, self.last, self.epoch, self.count)


@dataclass(frozen=True, slots=True)
class ArchiveName:
    """Fields in the name of an archive.

    :param text: The name.
    :param first: Number of its first payload.
    :param epoch: Highest epoch of its payloads.
    :param count: Number of payloads.
    """

    text: str
    first: int
    last: int
    epoch: int
    count: int


def parse_name(text: str) -> ArchiveName | None:
    """Parse the name of an archive; ``None`` for any other name."""
    found = _NAME.fullmatch(text)
    return ArchiveName(text, int(found[1]), int(found[2]), int(found[3]), int(found[4])) if found else None


def stripped(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint as an archive holds it."""
    queries = {name: part.model_copy(update={"files": {}}) for name, part in checkpoint.queries.items()}
    return checkpoint.model_copy(update={"queries": queries})


def reach_of(checkpoint: Checkpoint) -> dict[str, int]:
    """Return query -> highest recorded batch of a payload; queries without a record are omitted."""
    return {
        query: max(entry.batch for entry in part.entries) for query, part in checkpoint.queries.items() if part.entries
    }


def make_archive(checkpoints: Sequence[Checkpoint]) -> tuple[ArchiveHead, bytes]:
    """Return the head and the data of an archive.

    :param checkpoints: Ascending by number, at least one.
    """
    first = checkpoints[0]
    archive = Archive(job_id=first.job_id, checkpoints=tuple(stripped(checkpoint) for checkpoint in checkpoints))
    data = archive.to_bytes()
    head = ArchiveHead(
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
    """Yield groups of neighbours that become one archive each; payloads that do not fill one are omitted. Pure.

    :param sizes: Bytes of the payloads, in order.
    """
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


def _spans(checkpoints: Iterable[Checkpoint]) -> Iterator[Span]:
    for (run, epoch, graph), found in groupby(checkpoints, key=lambda each: (each.run, each.epoch, each.graph)):
        same = list(found)
        yield Span(
            run=run,
            epoch=epoch,
            graph=graph,
            first=same[0].number,
            last=same[-1].number,
            first_at=same[0].created_at,
            last_at=same[-1].created_at,
        )
