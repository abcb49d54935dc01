"""Ends the driver when its JVM is gone, or when its leadership is over and the heartbeat thread cannot report it.

The kernel kills the JVM with its supervisor (PDEATHSIG), but not the driver's Python: a sleeping script never talks to
the JVM again, and its heartbeats would hold the lock of an idle job. In client mode the JVM is our parent, so a changed
parent means that the JVM has ended.

The heartbeats log and talk to ZooKeeper; both can block. This thread does neither: it compares numbers, and ends the
process.
"""

from __future__ import annotations

import os
import threading

from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.driver.leaving import ProcessTerminator


LOOK_SECONDS = 0.5
_JUST_AFTER = 0.01  # seconds: a check at the very end of the lease could still find it alive


class Watchdog:
    """Watches over a driver in its own thread, which ends with the process.

    Made before the driver opens any connection: its parent at that moment is the JVM. If the JVM has died even earlier,
    the driver cannot connect to it once it leads, and ends for that reason.

    :param way_out: The end of the driver.
    """

    def __init__(self, way_out: ProcessTerminator) -> None:
        self._way_out = way_out
        self._jvm = os.getppid()
        self._leadership: Leadership | None = None
        self._followed = threading.Event()

    def start(self) -> None:
        """Begin to watch."""
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def follow(self, leadership: Leadership) -> None:
        """From now on, also watch over this leadership."""
        self._leadership = leadership
        self._followed.set()

    def _watch(self) -> None:
        try:
            while True:
                self._look()
                self._followed.wait(self._pause())
                self._followed.clear()
        except BaseException as error:  # noqa: BLE001  # a driver without its watchdog could outlive its JVM
            self._way_out.thread_failed(error)

    def _look(self) -> None:
        if os.getppid() != self._jvm:
            self._way_out.jvm_gone(f"the JVM (pid {self._jvm}) is gone")
        doubt = self._leadership.doubt() if self._leadership is not None else ""  # guard: lease-ends-unwatched
        if doubt:
            self._way_out.leadership_lost(doubt)

    def _pause(self) -> float:
        """Return the seconds until the next check: no later than just after the end of the lease."""
        left = self._leadership.lease_left() if self._leadership is not None else 0.0
        return min(LOOK_SECONDS, left + _JUST_AFTER) if left > 0 else LOOK_SECONDS
