"""Holds the gate of the JVM open while this process leads.

The JVM does not know ZooKeeper: the driver sends it the end of the lease. When this process is frozen, the JVM gets no
further updates, and the gate closes on its own; when the machine is suspended, the gate's clock counts that time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any


_UPTIME = Path("/proc/uptime")  # read by the gate, too: in a container it may differ from CLOCK_BOOTTIME
_RESOLUTION = 0.01  # seconds: the file's two decimals are cut off, not rounded


class GateKeeper:
    """Prolongs the lease of the JVM in a separate thread, which ends with the process.

    :param gate: The component's class ``Gate``, through py4j.
    :param lease_left: Seconds for which this process may act as the leader, counted from before the request to
        ZooKeeper.
    :param interval: Seconds between two prolongations.
    :param failed: Called when the thread cannot continue.
    """

    def __init__(
        self, gate: Any, lease_left: Callable[[], float], interval: float, failed: Callable[[BaseException], None]
    ) -> None:
        self._gate = gate
        self._lease_left = lease_left
        self._interval = interval
        self._failed = failed
        self._over = threading.Event()

    def open(self, job: str, epoch: int, directory: str) -> None:
        """From now on, pass entries of this epoch's queries.

        :param directory: URI of the working directory, as Spark sees it.
        """
        self._gate.bind(job, epoch, directory)
        self._prolong()
        threading.Thread(target=self._keep, name="gate-keeper", daemon=True).start()

    def follow(self, job: str, epoch: int, directory: str) -> None:
        """Pass only entries of another directory of the same epoch from now on."""
        self._gate.bind(job, epoch, directory)
        self._prolong()

    def close(self, reason: str) -> None:
        """Block all entries from now on."""
        self._over.set()
        self._gate.close(reason)

    def _keep(self) -> None:
        try:
            while not self._over.wait(self._interval) and self._prolong():
                pass
        except BaseException as error:  # noqa: BLE001  # a gate without its keeper would end the queries one by one
            if not self._over.is_set():
                self._failed(error)

    def _prolong(self) -> bool:
        """Send the end of the lease to the JVM; returns whether there is one."""
        before = uptime()
        left = self._lease_left()
        if left <= 0:  # guard: gate-stays-open-after-the-lease
            self._gate.close("the lease of this process is over")
            return False
        self._gate.extend(int((before + left - _RESOLUTION) * 1000))
        return True


def uptime() -> float:
    """Return the seconds since boot, time of suspension included."""
    return float(_UPTIME.read_text(encoding="ascii").split()[0])
