"""An hour of random schedules of candidates, zombies, readers and collectors on the fake ensemble."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from lab.suite import Proof
from tests.fake.chaos import CANDIDATES, READERS, STEPS
from tests.fake.random_schedules import play_for


_SITTING = 60.0  # seconds; at most so much is done again after an interruption


class Progress(BaseModel):
    """What was played so far.

    :param broken: Each schedule that broke an invariant, with its seed.
    """

    seconds: float = 0.0
    schedules: int = 0
    counts: dict[str, int] = {}
    broken: list[str] = []


class Schedules:
    """Random schedules, one after the other.

    :param seconds: How long they go on, all sittings together.
    :param sitting: Seconds after which what was counted is written down.
    """

    name = "schedules"
    title = "Random schedules"

    def __init__(self, seconds: float = 3600.0, sitting: float = _SITTING) -> None:
        self._seconds, self._sitting = seconds, sitting

    @property
    def about(self) -> str:
        """What is done and what has to hold."""
        return (
            f"For {self._seconds:,.0f} s random schedules of {STEPS} steps run on the fake ensemble: {CANDIDATES}"
            f" candidates and {READERS} readers, real code, with requests and answers that are lost or late, sessions"
            " that expire, processes that are frozen, killed or go on as zombies, and members that are cut off. After"
            " each step every invariant of leadership and of checkpoints holds."
        )

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Play what is left of the time."""
        logging.disable(logging.CRITICAL)  # every loss is logged, and losing is what these schedules are about
        file = folder / "progress.json"
        progress = Progress.model_validate_json(file.read_bytes()) if file.exists() else Progress()
        while progress.seconds < self._seconds:
            seconds = min(self._sitting, self._seconds - progress.seconds)
            try:
                counts, schedules = play_for(seconds, folder / "work")
            except AssertionError as error:
                progress.broken.append(str(error))
            else:
                progress.schedules += schedules
                progress.counts = dict(Counter(progress.counts) + counts)
            progress.seconds += seconds
            file.write_text(progress.model_dump_json(indent=2), encoding="utf-8")
            tell(f"{progress.schedules:,} schedules in {progress.seconds:.0f} s, {len(progress.broken)} broken")
        return Proof(
            ("event", "number"), rows(progress), progress.broken, f"{progress.schedules:,} schedules were played."
        )


def rows(progress: Progress) -> list[tuple[str, str]]:
    """Return how often each event occurred. Pure."""
    return [(event, f"{number:,}") for event, number in sorted(progress.counts.items())]
