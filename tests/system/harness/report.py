"""What a demo found: as JSON with the proof of each fault, and as a table for people."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.system.harness.compare import Comparison
from tests.system.harness.faults import Damage, Kill, Recovery, as_json
from tests.system.harness.losses import Loss


# Columns. Of 100, this leaves 57 for what was found: more than the longest path with its UUID left out.
_PHASE_WIDTH = 26
_UUID = re.compile(r"(?P<first>[0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def short(path: str) -> str:
    """Return a path of Spark's for people: of a UUID the first eight digits. The facts of the phase have all of it."""
    return _UUID.sub(r"\g<first>…", path)


@dataclass
class Phase:
    """One step of the run.

    :param found: What was found, in one line.
    """

    title: str
    seconds: float = 0.0
    found: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Report:
    """Collects what the phases find."""

    phases: list[Phase] = field(default_factory=list)
    kills: list[tuple[Kill, Recovery]] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    damage: Damage | None = None
    comparisons: list[Comparison] = field(default_factory=list)
    checkpoints: int = 0
    rows_replayed: int = 0
    error: str = ""
    started: float = field(default_factory=time.time)

    @contextmanager
    def phase(self, title: str) -> Iterator[Phase]:
        """Time one step; it is in the report even when it fails."""
        phase = Phase(title)
        self.phases.append(phase)
        start = time.monotonic()
        try:
            yield phase
        finally:
            phase.seconds = time.monotonic() - start

    @property
    def verdict(self) -> bool:
        """Whether the run came to its end, every fault is proven and every comparison holds."""
        return (
            not self.error
            and bool(self.comparisons)
            and all(result.holds for result in self.comparisons)
            and all(kill.in_flight and recovery.epoch > kill.epoch for kill, recovery in self.kills)
            and all(loss.holds for loss in self.losses)
        )

    def as_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "verdict": "OK" if self.verdict else "FAILED",
            "error": self.error,
            "seconds": time.time() - self.started,
            "phases": [asdict(phase) for phase in self.phases],
            "checkpoints_taken": self.checkpoints,
            "rows_replayed_by_the_restore": self.rows_replayed,
            "kills": [_kill(kill, recovery) for kill, recovery in self.kills],
            "losses": [asdict(loss) | {"holds": loss.holds} for loss in self.losses],
            "damage": as_json(self.damage) if self.damage else None,
            "comparisons": [asdict(result) | {"holds": result.holds} for result in self.comparisons],
        }

    def write(self, path: Path) -> None:
        """Write the report as JSON."""
        path.write_text(json.dumps(self.as_json(), indent=2, default=str) + "\n")

    def show(self, console: Console) -> None:
        """Print the tables."""
        phases = Table(title="What happened", title_justify="left")
        phases.add_column("phase", max_width=_PHASE_WIDTH, overflow="fold")
        phases.add_column("seconds", justify="right")
        phases.add_column("found", overflow="fold")
        for phase in self.phases:
            phases.add_row(phase.title, f"{phase.seconds:.1f}", phase.found)
        console.print(phases)
        for table in self._facts():
            console.print(table)
        compared = sum(result.expected for result in self.comparisons)
        console.print(
            f"{self.checkpoints} checkpoints, {self.rows_replayed:,} rows replayed by the restore, {compared:,} rows "
            f"compared: [bold]{'every comparison holds' if self.verdict else 'FAILED'}[/bold]",
            soft_wrap=True,
        )

    def _facts(self) -> Iterator[Table]:
        if self.kills:
            headings = ("killed", "in the middle of", "epoch", "leader after", "first commit after", "rows replayed")
            kills = Table(*headings, title="Recovery")
            for kill, recovery in self.kills:
                batches = ", ".join(f"{query} {kill.progress[query].planned}" for query in kill.in_flight)
                kills.add_row(
                    kill.victim,
                    batches,
                    f"{kill.epoch} -> {recovery.epoch}",
                    f"{recovery.leader_seconds:.1f} s",
                    f"{recovery.seconds:.1f} s",
                    f"{recovery.rows_replayed:,}",
                )
            yield kills
        if self.losses:
            losses = Table("lost", "processes", "death proven by", "epoch", "driver on", "next commit", title="Losses")
            for loss in self.losses:
                losses.add_row(
                    loss.victim,
                    str(len(loss.gone)),
                    loss.proof,
                    " -> ".join(map(str, loss.epochs)),
                    " -> ".join(loss.hosts),
                    f"{loss.seconds:.1f} s",
                )
            yield losses
        if self.comparisons:
            rows = Table("result", "rows expected", "rows found", "verdict", title="Compared with the truth")
            for result in self.comparisons:
                rows.add_row(result.name, f"{result.expected:,}", f"{result.found:,}", result.verdict)
            yield rows


def _kill(kill: Kill, recovery: Recovery) -> Mapping[str, Any]:
    return {
        **as_json(kill),
        "in_flight": kill.in_flight,
        "epoch_before": kill.epoch,
        "epoch_after": recovery.epoch,
        "recovery": as_json(recovery),
    }
