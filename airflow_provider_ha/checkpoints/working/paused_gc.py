"""Python's search for cycles, paused for as long as one operation makes many lasting objects.

The search looks at all objects that survive, over and over while their number grows. A takeover of a checkpoint of
10,000 files makes half a million of them, keeps them all until it is over, and has no cycles among them: a third of
its processor time went into the search (`benchmarks/checkpoint_takeover.py`).
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pauses:
    """Counts who has paused it: the search belongs to the process, operations to their threads."""

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
    """Pause the search until the block is over, in all threads; objects without cycles are freed as always.

    Where the search was off before, it stays off.
    """
    _PAUSES.begin()
    try:
        yield
    finally:
        _PAUSES.end()
