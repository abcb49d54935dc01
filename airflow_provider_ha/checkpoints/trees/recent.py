"""The bytes that were read last, as many as a bound allows: what is asked for twice in a row is read once."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock


class RecentBytes:
    """Name -> bytes; the ones that were not asked for longest make room. Safe in several threads.

    :param limit: Bytes that are held at most.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str) -> bytes | None:
        """Return what is held under *name*."""
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
