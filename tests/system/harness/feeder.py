"""Feeds one file per day into the job's input directory, as an upstream system would.

Invariant: a file appears whole or not at all (written aside, renamed), and modification times are distinct and in the
order of the days, because Spark's file source reads by modification time.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tests.system.harness.flights import Year


# Any fixed time. One second per day: the file source forgets files that are seven days older than the newest.
_FIRST_MODIFIED = 1_700_000_000


class Feeder:
    """Feeds the days of a year in order, each once. Only one thread feeds at a time.

    :param inbox: The job's input directory.
    """

    def __init__(self, year: Year, inbox: Path) -> None:
        self._year = year
        self._inbox = inbox
        self._aside = inbox.with_name(f".{inbox.name}.aside")
        self._lock = threading.Lock()
        self._pause = threading.Event()
        self._thread: threading.Thread | None = None
        self.fed = 0
        for directory in (self._inbox, self._aside):
            directory.mkdir(parents=True, exist_ok=True)

    def feed_until(self, day: int) -> None:
        """Feed every day below *day* that was not fed yet."""
        while self.fed < min(day, len(self._year.days)):
            self._feed_next()

    def start(self, *, until: int, seconds_per_day: float) -> None:
        """Feed in the background, one day every *seconds_per_day*, up to (not including) day *until*."""
        self.pause()
        self._pause.clear()
        self._thread = threading.Thread(
            target=self._feed_slowly, args=(until, seconds_per_day), name="feeder", daemon=True
        )
        self._thread.start()

    def pause(self) -> None:
        """Stop feeding in the background; returns when no file is being written."""
        self._pause.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _feed_slowly(self, until: int, seconds_per_day: float) -> None:
        while self.fed < min(until, len(self._year.days)) and not self._pause.wait(seconds_per_day):
            self._feed_next()

    def _feed_next(self) -> None:
        with self._lock:
            name = f"{self.fed:03d}.csv"
            aside = self._aside / name
            aside.write_bytes(self._year.file(self.fed))
            modified = _FIRST_MODIFIED + self.fed
            os.utime(aside, (modified, modified))
            aside.rename(self._inbox / name)
            self.fed += 1
