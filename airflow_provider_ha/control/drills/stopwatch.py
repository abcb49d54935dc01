"""How long each step of something took: one step at a time, and each may come more than once."""

from __future__ import annotations

from airflow_provider_ha.clock import Clock


class Stopwatch:
    """Measures from the first step to the end of the last one. Not safe for several threads.

    :param clock: Where the time comes from.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.lease_time()
        self._step: str | None = None
        self._seconds: dict[str, float] = {}

    @property
    def seconds(self) -> dict[str, float]:
        """Step -> seconds, in the order in which the steps came first; what has not ended is not in it."""
        return {step: round(seconds, 3) for step, seconds in self._seconds.items()}

    @property
    def total(self) -> float:
        """All of it."""
        return round(sum(self._seconds.values()), 3)

    def begin(self, step: str) -> None:
        """End the step that goes on and begin another one; the same one just goes on."""
        if step != self._step:
            self.end()
            self._step = step

    def end(self) -> None:
        """End the step that goes on."""
        now = self._clock.lease_time()
        if self._step is not None:
            self._seconds[self._step] = self._seconds.get(self._step, 0.0) + now - self._since
        self._since, self._step = now, None
