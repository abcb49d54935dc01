"""When each job is reconciled next. Pure but for the clock: knows names and times, nothing of jobs."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from airflow_provider_ha.clock import Clock


class ReconcileQueue:
    """The time at which each job is due. Safe in several threads.

    :param clock: Where the time comes from.
    """

    def __init__(self, clock: Clock) -> None:
        self.changed = threading.Event()
        self._clock = clock
        self._lock = threading.Lock()
        self._due: dict[str, float] = {}
        self._busy: set[str] = set()

    def expect(self, names: list[str]) -> None:
        """Take *names* as all there are: new ones are due now, others are forgotten."""
        now = self._clock.lease_time()
        with self._lock:
            self._due = {name: self._due.get(name, now) for name in names}

    def touch(self, name: str) -> None:
        """Make *name* due now: something about it has changed."""
        with self._lock:
            if name in self._due:
                self._due[name] = self._clock.lease_time()
        self.changed.set()

    def take(self) -> list[str]:
        """Return the names that are due and not in work, and mark them as in work."""
        now = self._clock.lease_time()
        with self._lock:
            # guard: agenda-busy
            taken = sorted(name for name, due in self._due.items() if due <= now and name not in self._busy)
            self._busy.update(taken)
            # A touch while a name is in work makes it due again: the work may have missed the change.
            self._due.update(dict.fromkeys(taken, float("inf")))
        return taken

    def done(self, name: str, again: float) -> None:
        """Mark *name* as done; it is due in *again* seconds, or now when it was touched since it was taken."""
        with self._lock:
            self._busy.discard(name)
            if name in self._due:
                self._due[name] = min(self._due[name], self._clock.lease_time() + again)
        self.changed.set()

    def pause(self, longest: float) -> float:
        """Return the seconds until something is due, at most *longest*."""
        now = self._clock.lease_time()
        with self._lock:
            waiting = [due - now for name, due in self._due.items() if name not in self._busy]
        return max(0.0, min([longest, *waiting]))


@dataclass(frozen=True)
class Touch:
    """A watch that makes a job due. Equal for the same job, so that arming it again does not pile up in the session."""

    agenda: ReconcileQueue
    job_id: str

    def __call__(self) -> None:
        """Take the call of a session: something about the job may have changed."""
        self.agenda.touch(self.job_id)
