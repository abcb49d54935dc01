"""What a triggerer has imported, left out of Python's search for cycles.

The search stops all threads, so also the event loop of a triggerer, for as long as it takes to look at every object
that is kept. Most of them are modules of Airflow and of what this package needs: they last as long as the process, and
they cost 0.2 s at each search that is a full one (``benchmarks/idle_triggers.py``). ``gc.freeze`` leaves them out.

It is done once in a process, so what it costs is bounded: cycles that are already garbage at that moment stay. Objects
that are not in a cycle are freed as always. What is made later is searched as always.
"""

from __future__ import annotations

import gc
import threading


class _Once:
    """Whether the process has done it. Used from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_done = False

    def begin(self) -> bool:
        """Return whether the caller is the first."""
        with self._lock:
            first, self._is_done = not self._is_done, True
            return first


_ONCE = _Once()


def leave_out_what_lasts() -> None:
    """Leave all objects that there are now out of each later search; a second call changes nothing."""
    if _ONCE.begin():  # guard: each-session-leaves-more-out-of-the-search
        gc.freeze()
