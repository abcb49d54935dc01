"""Exclusion of a triggerer's lasting objects from Python's cyclic garbage collector.

A collection stops all threads, and with them the event loop of a triggerer, while it visits every tracked object. Two
kinds of object last. Modules of Airflow and of this package's dependencies cost 0.2 s per full collection. Waits, of
which a triggerer holds thousands, and the metrics of their jobs cost as much again (``benchmarks/idle_triggers.py``).
``gc.freeze`` excludes all present objects: once after every import, and again each time the number of waits and
reported jobs reaches a new maximum.

Because only growth triggers a freeze, its total cost is bounded, however often waits come and go. Cycles that are
already garbage at that moment stay in memory, except the young ones, which are collected first. Objects outside a cycle
are freed as always, and later objects are collected as always.
"""

from __future__ import annotations

import gc
import threading


_MORE = 250  # waits or jobs: about 10,000 objects, which a collection visits in a few milliseconds
_YOUNG = 1  # oldest generation with a cheap collection


class LastingObjects:
    """Largest number of lasting objects that this process has excluded so far. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lasting: int | None = None

    def left_out(self, lasting: int) -> bool:
        """Record the number of waits and reported jobs; return whether the present objects must now be excluded."""
        with self._lock:
            if self._lasting is None or lasting >= self._lasting + _MORE:
                self._lasting = lasting
                return True
            return False


_LASTING = LastingObjects()


def leave_out_what_lasts(lasting: int) -> None:
    """Exclude all present objects from later collections, at the first call and after each growth.

    :param lasting: Number of waits and reported jobs in this process.
    """
    if _LASTING.left_out(lasting):
        gc.collect(_YOUNG)
        gc.freeze()
