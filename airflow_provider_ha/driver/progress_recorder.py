"""The thread that writes the history of the batches, once a minute. It may block on storage without delaying others.

Invariant: the history never disturbs the job. A failed write is logged once, kept, and repeated when that is possible.
"""

from __future__ import annotations

import logging
import threading

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.trigger_figures import Trigger
from airflow_provider_ha.jobs.history.progress_history import ProgressHistory, ProgressPoint


log = logging.getLogger(__name__)
WRITE_SECONDS = 60.0
FIRST_SECONDS = 10.0  # also for a driver that never lives for a minute
LAST_SECONDS = 5.0  # maximum wait for the last write at the end of the job


class ProgressRecorder:
    """Writes the reports of the queries."""

    def __init__(self, history: ProgressHistory, clock: Clock) -> None:
        self._history = history
        self._clock = clock
        self._failing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress-history", daemon=True)

    def note(self, query: str, trigger: Trigger) -> None:
        """Note a report of a query. Does not block."""
        if trigger.executed:
            self._history.add(point_of(query, trigger))

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after a last write; a hanging thread is left alone."""
        self._stopping.set()
        self._thread.join(LAST_SECONDS)

    def write(self) -> None:
        """Write the new points."""
        try:
            self._history.write(self._clock.now())
        except Exception as error:  # noqa: BLE001  # nothing that happens here is worth a driver
            if not self._failing:
                log.warning("the history of the batches could not be written; it is tried again: %s", error)
            self._failing = True
            return
        if self._failing:
            log.info("the history of the batches is written again")
        self._failing = False

    def _run(self) -> None:
        pause = FIRST_SECONDS
        while not self._stopping.wait(pause):
            pause = WRITE_SECONDS
            self.write()
        self.write()


def point_of(query: str, trigger: Trigger) -> ProgressPoint:
    """Return the point of a batch."""
    return ProgressPoint(
        at=trigger.ended_at,
        query=query,
        batch=trigger.batch,
        batch_seconds=trigger.seconds,
        longest_seconds=trigger.seconds,
        input_rows=trigger.input_rows,
        input_rate=trigger.input_rate,
        lag=trigger.lag,
    )
