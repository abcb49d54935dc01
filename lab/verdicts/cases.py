"""Every case: a release, a shape that it recorded, and a damage to it."""

from __future__ import annotations

import fnmatch
import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.verdicts.damages import ENDLESS, EVERY, Damage, controls
from lab.verdicts.log_damages import log_topics
from lab.verdicts.restored_damages import restored_damages
from lab.verdicts.stale_damages import stale_damages
from lab.verdicts.state_damages import state_topics
from lab.verdicts.steps import apply, moved
from tests.support.releases.corpus import inputs, place_of
from tests.support.releases.installed import BY_VERSION, SPARKS, Spark
from tests.support.releases.shapes import BY_NAME, Shape
from tests.support.spark.corpus import NEXT_FILE


@dataclass(frozen=True)
class Case:
    """One case."""

    release: str
    shape: str
    damage: Damage

    @property
    def name(self) -> str:
        """How it is called."""
        return f"{self.release} {self.shape}: {self.damage.name}"

    @property
    def place(self) -> Path:
        """Where its shape was recorded."""
        return place_of(BY_VERSION[self.release], BY_NAME[self.shape])

    @property
    def digest(self) -> str:
        """Names the recording and what is done to it: another one needs another answer of Spark."""
        return hashlib.sha256(f"{self.place.name} {self.damage.digest}".encode()).hexdigest()[:8]

    @property
    def old_files(self) -> range:
        """Which input files the logs know."""
        return range(BY_NAME[self.shape].files - self.damage.rewound)

    @property
    def newest(self) -> int:
        """The newest batch that the logs know."""
        return len(self.old_files) - 1

    @property
    def again(self) -> int:
        """How many of them are read again, because their batch was not committed."""
        return min(self.damage.open, 1)

    def new_files(self, start: int) -> list[int]:
        """Return which input files a start reads for the first time; 0 for the first start."""
        return [NEXT_FILE + start]

    def inputs(self) -> list[str]:
        """Return the path of the input of each start."""
        known = list(self.old_files)
        return [
            inputs(self.place, [*known, *range(NEXT_FILE, NEXT_FILE + start + 1)])
            for start in range(self.damage.starts)
        ]

    def damaged(self, copy: Path, recording: Path | None = None) -> Path:
        """Make a damaged copy; raises :class:`~lab.verdicts.steps.NothingToDamageError`.

        :param recording: The checkpoint, where it does not lie in the cache.
        """
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(recording or self.place / "checkpoint", copy)
        moved(copy)
        apply(copy, self.damage.steps)
        return copy


def shapes_of(spark: Spark) -> list[Shape]:
    """Return what a release is recorded with for this proof."""
    names = (*EVERY, *ENDLESS)
    return [BY_NAME[name] for name in names if BY_NAME[name].since <= spark.short]


def topics() -> list[tuple[str, list[Damage]]]:
    """Return what the damages are about, each with its damages; controls first."""
    stale = ("State above the committed batch", stale_damages())
    damaged = [*log_topics(), *state_topics()]
    restored = restored_damages([damage for _, some in damaged for damage in some])
    return [("Nothing wrong", controls()), *damaged, stale, ("Restored to a batch of the list", restored)]


def damages() -> list[Damage]:
    """Return every damage, controls first."""
    return [damage for _, some in topics() for damage in some]


def cases(only: Sequence[str] = ()) -> list[Case]:
    """Return every case, or those whose name fits one of the patterns *only*, with the controls that they need.

    :param only: Patterns such as ``4.2.0*metadata*``.
    """
    every = [
        Case(spark.version, shape, damage)
        for spark in SPARKS
        for damage in damages()
        for shape in damage.shapes
        if BY_NAME[shape].since <= spark.short
    ]
    if not only:
        return every
    chosen = {case for case in every if any(fnmatch.fnmatchcase(case.name, one) for one in only)}
    controlled = {(case.release, case.shape, case.damage.control) for case in chosen}
    return [case for case in every if case in chosen or (case.release, case.shape, case.damage.name) in controlled]
