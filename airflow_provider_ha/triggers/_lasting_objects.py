"""What lasts in a triggerer, left out of Python's search for cycles.

The search stops all threads, so also the event loop of a triggerer, for as long as it takes to look at every object
that is kept. Two kinds of them last: modules of Airflow and of what this package needs, which cost 0.2 s at each search
that is a full one, and waits, of which a triggerer has thousands, with what the metrics of their jobs keep, which cost
as much again (``benchmarks/idle_triggers.py``). ``gc.freeze`` leaves out what is there: once when all is imported, and
again each time there are more waits and reported jobs than ever.

It is done as often as they have become more, so what it costs is bounded, however often they come and go: cycles
that are already garbage at such a moment stay, but for the young ones, which are searched for first. Objects that are
not in a cycle are freed as always. What is made later is searched as always.
"""

from __future__ import annotations

import gc
import threading


_MORE = 250  # waits or jobs: some 10,000 objects, which a search looks at in some milliseconds
_YOUNG = 1  # the generation up to which a search is cheap


class LastingObjects:
    """How much of this process is left out. Used from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lasting: int | None = None

    def left_out(self, lasting: int) -> bool:
        """Note how many waits and reported jobs there are; return whether what there is has to be left out now."""
        with self._lock:
            if self._lasting is None or lasting >= self._lasting + _MORE:
                self._lasting = lasting
                return True
            return False


_LASTING = LastingObjects()


def leave_out_what_lasts(lasting: int) -> None:
    """Leave all objects that there are now out of each later search, if it is the first time or there are more.

    :param lasting: How many waits and reported jobs there are in this process.
    """
    if _LASTING.left_out(lasting):
        gc.collect(_YOUNG)
        gc.freeze()
