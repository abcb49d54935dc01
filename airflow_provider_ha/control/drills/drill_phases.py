"""The phases of a drill: each is timed, and told to the person who waits when it begins."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_ha.control.drills.stopwatch import Stopwatch
from airflow_provider_ha.control.verification.prove import Progress


class Phases:
    """One phase at a time. Not safe for several threads.

    :param watch: Measures them.
    :param tell: Is given one line for each, when it begins.
    """

    def __init__(self, watch: Stopwatch, tell: Callable[[str], None]) -> None:
        self._watch = watch
        self._tell = tell
        self._told = ""

    def begin(self, step: str, what: str) -> None:
        """End the phase that goes on and begin another one; the same one just goes on."""
        self._watch.begin(step)
        line = f"{step}: {what}"
        if line != self._told:
            self._told = line
            self._tell(line)

    def of_proof(self, now: Progress) -> None:
        """Follow the proof of one query of the cut."""
        self.begin(now.step.value, f"query {now.query!r}, {now.doing}")
