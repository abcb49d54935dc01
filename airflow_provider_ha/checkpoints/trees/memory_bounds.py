"""Limits of memory use for a checkpoint: a damaged or hostile directory costs no more.

State is read in pieces and is not limited here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from threading import Lock

from airflow_provider_ha.errors import CheckpointCorruptError


LARGEST = 256 << 20
"""Bytes of an entry of a log, of metadata, of a schema. Spark writes kilobytes."""

LARGEST_COMPACT = 1 << 30
"""Bytes of a compact entry. It names every file that a source has read or a sink has written: about 5 million here."""

NAMES = 1_000_000
"""Names in one directory, and the objects below a prefix."""

_COMPACT = ".compact"


def check_size(name: str, size: int) -> None:
    """Refuse a file larger than Spark's files of this name.

    :param size: Bytes.
    :raises CheckpointCorruptError: It is.
    """
    limit = LARGEST_COMPACT if name.endswith(_COMPACT) else LARGEST
    if size > limit:
        raise CheckpointCorruptError(name, f"it has {size:,} bytes, {limit:,} is the most that is read of such a file")


def first_names(found: Iterable[str]) -> list[str] | None:
    """Return all names; ``None`` when there are more than :data:`NAMES`."""
    names = list(islice(found, NAMES + 1))
    return names if len(names) <= NAMES else None


class RecentBytes:
    """Name -> bytes; the least recently used ones make room. Safe in several threads.

    :param limit: Bytes that are held at most.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str) -> bytes | None:
        """Return the cached bytes of *name*."""
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
            return self._kept.get(name)

    def put(self, name: str, data: bytes) -> None:
        """Hold *data*, unless it alone is more than half of the bound."""
        if len(data) > self._limit // 2:
            return
        with self._lock:
            self._held += len(data) - len(self._kept.pop(name, b""))
            self._kept[name] = data
            while self._held > self._limit:
                self._held -= len(self._kept.popitem(last=False)[1])
