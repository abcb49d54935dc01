"""Time and randomness, injected.

Decisions are pure functions over snapshots; time and new names reach them through these seams, so that a test can hold
the clock and name the uuids.
"""

from __future__ import annotations

import time
import uuid
from datetime import datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """Interface to two clocks: one for leases, one for people."""

    def lease_time(self) -> float:
        """Seconds on a clock that continues while the machine sleeps and never jumps.

        While a hypervisor pauses the machine (snapshot, live migration, ``virsh suspend``) it may stop.
        """

    def now(self) -> datetime:
        """Wall-clock time with its zone (UTC).

        For records and messages, and to notice a pause that the lease time did not count; never for decisions between
        hosts.
        """


class SystemClock:
    """Clocks of the system.

    ``CLOCK_BOOTTIME`` counts the time in which the kernel itself was suspended, ``CLOCK_MONOTONIC`` does not. Neither
    counts pauses unknown to the kernel: when a hypervisor stops the virtual processors, the guest's clocks may stop
    with them. The wall clock shows that only once a guest agent or NTP corrects it; the lease checks it
    (``coordination.leadership``).
    """

    def lease_time(self) -> float:
        """Seconds since boot, including time of suspension by the kernel."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)  # guard: lease-clock-stops-with-the-machine

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(timezone.utc)


def new_id() -> str:
    """Return a new, unique id of 32 hex digits."""
    return uuid.uuid4().hex
