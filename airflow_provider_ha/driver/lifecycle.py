"""Shared state of the script, the patched calls and the operations: one object per driver.

The script runs on the main thread and assumes that it is alone. A stop of its queries sets ``stopping`` first and
``ended`` last; a patched call that finds ``stopping`` set waits for ``ended``, so that the script can neither interrupt
another query nor close the session (SPARK: ``spark.stop()`` cancels the job of a half-written batch).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_ha.errors import HaError


class Lifecycle:
    """Flags of the script's run."""

    def __init__(self) -> None:
        self.stopping = threading.Event()  # every query is being stopped together
        self.ended = threading.Event()  # and all queries have ended
        self.script_ended = threading.Event()
        self.leaving = threading.Event()  # the run has its result, the session is about to be closed
        self.refusal: HaError | None = None
        self._end_claimed = False
        self._lock = threading.Lock()
        self._starting = 0
        self._no_start = threading.Condition(self._lock)

    @contextmanager
    def start_of_a_query(self) -> Iterator[bool]:
        """Delay a stop while a query is being started; yields ``False`` when a stop is already under way."""
        with self._no_start:
            admitted = not self.stopping.is_set()
            self._starting += admitted
        try:
            yield admitted
        finally:
            with self._no_start:
                self._starting -= admitted
                self._no_start.notify_all()

    def begin_stop(self) -> None:
        """Prevent further starts of queries. A start in progress may still complete: :meth:`starts_are_over`."""
        with self._no_start:
            self.stopping.set()

    def starts_are_over(self, timeout: float) -> bool:
        """Wait until all starts in progress are over, at most *timeout* seconds; returns whether they are."""
        with self._no_start:
            return self._no_start.wait_for(lambda: self._starting == 0, timeout)

    def refuse(self, error: HaError) -> HaError:
        """Remember why the script cannot run, even if it swallows the error. Returns *error*; the first one stays."""
        with self._lock:
            self.refusal = self.refusal or error
        return error

    def claim_end(self) -> bool:
        """Return whether the caller ends the run: either a stop or the script, never both."""
        with self._lock:
            first, self._end_claimed = not self._end_claimed, True
        return first

    def give_end_back(self) -> None:
        """Undo :meth:`claim_end`, for a caller that finds that the run does not end."""
        with self._lock:
            self._end_claimed = False

    def wait_when_stopping(self) -> None:
        """Return when no stop is under way, or when the current one is over."""
        if self.stopping.is_set():
            self.ended.wait()
