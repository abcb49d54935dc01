"""Pause of Python's cycle collector while one operation creates many lasting objects.

The collector scans all surviving objects repeatedly as their number grows. A takeover of a checkpoint of 10,000 files
creates half a million objects, keeps them all until it ends, and has no cycles among them: a third of its processor
time went into the collector (`benchmarks/checkpoint_takeover.py`).
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pauses:
    """Counter of current pauses: the collector belongs to the process, operations to their threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._was_on = False

    def begin(self) -> None:
        with self._lock:
            if self._number == 0:
                self._was_on = gc.isenabled()
                gc.disable()
            self._number += 1

    def end(self) -> None:
        with self._lock:
            self._number -= 1
            if self._number == 0 and self._was_on:
                gc.enable()


_PAUSES = _Pauses()


@contextmanager
def paused_gc() -> Iterator[None]:
    """Pause the collector until the block ends, in all threads; objects without cycles are still freed.

    A collector that was disabled before stays disabled.
    """
    _PAUSES.begin()
    try:
        yield
    finally:
        _PAUSES.end()
