"""Time and randomness, injected.

Decisions are pure functions over snapshots; what they need to know about time and new names comes through these seams,
so that a test can hold the clock and name the uuids.
"""

from __future__ import annotations

import time
import uuid
from datetime import datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one for leases, one for people."""

    def lease_time(self) -> float:
        """Seconds on a clock that goes on while the machine is suspended and never jumps."""

    def now(self) -> datetime:
        """Wall-clock time with its zone (UTC); for records and messages, never for decisions between hosts."""


class SystemClock:
    """The real clocks.

    ``CLOCK_BOOTTIME`` counts suspended time, ``CLOCK_MONOTONIC`` does not: a lease measured with the latter outlives
    its session when a virtual machine sleeps.
    """

    def lease_time(self) -> float:
        """Seconds since boot, suspended time included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(timezone.utc)


def new_id() -> str:
    """Return 32 hex digits that nobody else has."""
    return uuid.uuid4().hex
