"""Virtual time: it moves only when a caller moves it, and then exactly as far as asked."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone


_BEGIN = datetime(2013, 1, 1, tzinfo=timezone.utc)


class VirtualClock:
    """Both clocks of :class:`airflow_provider_ha.clock.Clock`, moved by the ensemble.

    Counts whole milliseconds: sums of floats would let two equal schedules differ.

    :ivar milliseconds: Time since the ensemble was made. It begins above 0, so that nothing looks like "never".
    """

    def __init__(self) -> None:
        self.milliseconds = 1_000_000

    def lease_time(self) -> float:
        """Return the seconds on the clock of the leases."""
        return self.milliseconds / 1000

    def now(self) -> datetime:
        """Return the wall-clock time; here it never jumps."""
        return _BEGIN + timedelta(milliseconds=self.milliseconds)


def to_milliseconds(seconds: float) -> int:
    """Return *seconds* as the clock counts them."""
    return round(seconds * 1000)
