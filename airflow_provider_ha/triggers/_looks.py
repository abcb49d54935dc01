"""Looks at whole jobs, in a separate thread: at those of which a survey does not say how they are led.

A look (:mod:`~airflow_provider_ha.jobs.recoverable`) may read the graph of the job, which lies in storage. Storage that
does not answer holds it for minutes, and no thread can be ended: in the call that reads all leaders, the look at one
job would hide the leaders of all others.

Invariants: no caller waits for a look; one thread makes all looks of a watcher, one after the other.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ha.jobs.recoverable import JobObservation, look
from airflow_provider_ha.jobs.status import JobStatus, Standing


if TYPE_CHECKING:
    from airflow_provider_ha.control.client import HaClient


THREAD = "spark-ha-looks"
_LONG = 30.0  # seconds after which a look without an answer is worth a line in the log


@dataclass(frozen=True, slots=True)
class _Known:
    """What the last look at a job has shown.

    :param surveyed: The job as it was when the look was asked for.
    :param began: When the look began, on a clock that never goes back.
    """

    surveyed: JobStatus[Standing]
    sight: JobObservation
    began: float


class Looks:
    """What looks have shown, as far as it is known by now. For any thread.

    :param look_again: Seconds after which a job is looked at also when nothing has changed.
    :param wake: Called from the thread of the looks when there is something new and no further look is due.
    """

    def __init__(self, look_again: float, wake: Callable[[], None]) -> None:
        self._look_again = look_again
        self._wake = wake
        self._changed = threading.Condition()
        self._known: dict[str, _Known] = {}
        self._failed: dict[str, str] = {}
        self._due: deque[JobStatus[Standing]] = deque()
        self._wanted: frozenset[str] = frozenset()
        self._client: HaClient | None = None
        self._current: JobStatus[Standing] | None = None
        self._began = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def trouble(self) -> str | None:
        """Why something is not known that should be by now; ``None`` when nothing is wrong."""
        with self._changed:
            waited = time.monotonic() - self._began
            if self._current is not None and waited > _LONG:
                return f"the look at job {self._current.job_id!r} has no answer after {waited:.0f} s"
            return next(iter(self._failed.values()), None)

    def of(self, job_id: str) -> JobObservation | None:
        """Return what the last look at a job has shown; ``None`` before the first one has ended."""
        with self._changed:
            known = self._known.get(job_id)
        return known.sight if known is not None else None

    def ask(self, client: HaClient, jobs: Sequence[JobStatus[Standing]]) -> None:
        """Have the jobs looked at that are due, and return at once.

        :param jobs: All of which only a look tells more, as they are now: of every other job nothing is kept.
        """
        there, now = frozenset(seen.job_id for seen in jobs), time.monotonic()
        with self._changed:
            self._wanted = there
            self._known = {job_id: known for job_id, known in self._known.items() if job_id in there}
            self._failed = {job_id: why for job_id, why in self._failed.items() if job_id in there}
            self._client = client
            self._due = deque(seen for seen in jobs if self._is_due(seen, now))
            self._changed.notify_all()
            if self._thread is not None or not self._due or self._closed:
                return
            # A daemon: the end of the process does not wait for storage.
            thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # tried again by the next call
                self._failed |= {seen.job_id: f"no look at job {seen.job_id!r}: {error}" for seen in self._due}
                return
            self._thread = thread

    def close(self) -> None:
        """Have the thread end, after the look that it makes now if any."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _is_due(self, seen: JobStatus[Standing], now: float) -> bool:
        known, current = self._known.get(seen.job_id), self._current
        if current is not None and current.job_id == seen.job_id and is_same(current, seen):
            return False
        return known is None or not is_same(known.surveyed, seen) or now - known.began >= self._look_again

    def _run(self) -> None:
        is_new = False
        while (following := self._next()) is not None:
            is_new = self._look_at(*following) or is_new
            if is_new and not self._due:  # not after each failure: the look would be due at once again
                self._wake()
                is_new = False

    def _next(self) -> tuple[HaClient, JobStatus[Standing]] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._due)
            if self._closed or self._client is None:
                return None
            self._current, self._began = self._due.popleft(), time.monotonic()
            return self._client, self._current

    def _look_at(self, client: HaClient, seen: JobStatus[Standing]) -> bool:
        """Make one look; return whether it has an answer."""
        sight, why = None, ""
        try:
            sight = look(client.coordinator, client.store, client.paths, seen.job_id)
        except Exception as error:  # noqa: BLE001
            why = f"the look at job {seen.job_id!r} has failed: {error}"
        with self._changed:
            self._current = None
            if seen.job_id not in self._wanted:
                return False
            if sight is None:
                self._failed[seen.job_id] = why
                return False
            self._failed.pop(seen.job_id, None)
            self._known[seen.job_id] = _Known(seen, sight, self._began)
            return True


def is_same(before: JobStatus[Standing], now: JobStatus[Standing]) -> bool:
    """Whether nothing of a job has changed between two surveys."""
    return (before.quarantined, before.mark) == (now.quarantined, now.mark)
