"""Half an hour of leaders that are killed, frozen and cut off, on a real ensemble: three soaks, each whole."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import BaseModel

from lab.soak.soak import CONTENDERS, Endured, endure
from lab.suite import Proof
from tests.support.leadership.checker import Invariant, counts


COLUMNS = ("seed", "seconds", "faults", "elections", "commits", "no leader, median s", "longest, s", "excused")


class Leg(BaseModel):
    """One soak.

    :param faults: Number of faults, of all kinds.
    :param elections: How often a process was granted the lead.
    :param commits: Checkpoints that were committed.
    :param median: Seconds without a leader between two leaders, median.
    :param longest: The same, longest.
    :param excused: Violations that only members of ZooKeeper that disagree with each other explain.
    :param violations: What is wrong.
    """

    seed: int
    seconds: float
    faults: int
    elections: int
    commits: int
    median: float
    longest: float
    excused: int
    violations: list[str]


class Progress(BaseModel):
    """The soaks that are complete."""

    legs: list[Leg] = []


class LeadershipSoak:
    """Soaks one after the other; one that was interrupted is done again with another seed.

    :param legs: How many.
    :param seconds: How long each lasts.
    """

    name = "soak"
    title = "Leaders that are killed, frozen and cut off"

    def __init__(self, legs: int = 3, seconds: float = 600.0) -> None:
        self._legs, self._seconds = legs, seconds

    @property
    def about(self) -> str:
        """What is done and what has to hold."""
        return (
            f"{self._legs} times for {self._seconds:.0f} s {CONTENDERS} processes contend for one job on an ensemble of"
            " three ZooKeepers, while processes and servers are killed, frozen and cut off. One of the three never"
            " doubts that it leads, so that the fence is tested without the lease. A checker reads the histories: "
            + "; ".join(invariant.value for invariant in Invariant)
            + "."
        )

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Do the soaks that are left."""
        file = folder / "progress.json"
        progress = Progress.model_validate_json(file.read_bytes()) if file.exists() else Progress()
        while len(progress.legs) < self._legs:
            work = folder / f"leg-{len(progress.legs) + 1}"
            shutil.rmtree(work, ignore_errors=True)  # of a soak that was interrupted
            work.mkdir()
            progress.legs.append(leg(endure(work, self._seconds, random.randrange(2**32))))
            file.write_text(progress.model_dump_json(indent=2), encoding="utf-8")
            tell(f"{len(progress.legs)} of {self._legs}: {', '.join(row(progress.legs[-1]))}")
        return Proof(COLUMNS, [row(one) for one in progress.legs], untrue(progress.legs))


def leg(endured: Endured) -> Leg:
    """Return the figures of a soak. Pure."""
    number, gaps = counts(endured.history), endured.gaps
    return Leg(
        seed=endured.seed,
        seconds=endured.seconds,
        faults=sum(count for name, count in number.items() if name.startswith("fault: ")),
        elections=number["acquired"],
        commits=number["committed"],
        median=gaps[len(gaps) // 2] if gaps else 0.0,
        longest=gaps[-1] if gaps else 0.0,
        excused=len(endured.excused),
        violations=[f"{found.invariant.value}: {found.what}" for found in endured.violations],
    )


def row(one: Leg) -> tuple[str, ...]:
    """Return a line of the table. Pure."""
    return (
        str(one.seed),
        f"{one.seconds:.0f}",
        str(one.faults),
        str(one.elections),
        f"{one.commits:,}",
        f"{one.median:.2f}",
        f"{one.longest:.2f}",
        str(one.excused),
    )


def untrue(legs: Sequence[Leg]) -> list[str]:
    """Return what does not hold. Pure."""
    found = [f"With seed {one.seed}: {violation}." for one in legs for violation in one.violations]
    return found + [f"With seed {one.seed} nothing was committed." for one in legs if not one.commits]
