"""``python -m lab.run SUITE`` (``make proof SUITE=...``): run a proof to its end, and write its table.

What it has done lies in ``build/proofs/SUITE``, for suites of tests in a file of ``lab``; called again after an
interruption it goes on from there. Exit code 0 only when everything that has to hold held.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType

import psutil
from rich.console import Console
from rich.table import Table

from lab.engines.proof import EngineDeaths
from lab.hours import DYING_STANDBYS, LIVING_STANDBYS, HourTests
from lab.kills import Kills
from lab.outages import Outages
from lab.page import write
from lab.schedules import Schedules
from lab.scripts.proof import Scripts
from lab.sinks import Sinks
from lab.soak.proof import LeadershipSoak
from lab.stores.proof import Stores
from lab.suite import Suite
from lab.verdicts.proof import Verdicts
from lab.year import SimulatedYear
from lab.zombie.proof import Zombies


ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "proofs.md"
SUITES: tuple[Suite, ...] = (
    SimulatedYear(),
    Kills(),
    Outages(),
    Verdicts(),
    Schedules(),
    LeadershipSoak(),
    Zombies(),
    EngineDeaths(),
    Stores(),
    Sinks(),
    Scripts(),
    HourTests(),
    HourTests(selection=DYING_STANDBYS),
    HourTests(selection=LIVING_STANDBYS),
)
_INTERRUPTED = 130  # what a shell says of a program that Ctrl-C ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one suite."""
    suites = {suite.name: suite for suite in SUITES}
    parser = argparse.ArgumentParser(prog="make proof", description="Run a proof of hours; it can be interrupted")
    parser.add_argument("suite", choices=sorted(suites), metavar="SUITE", help=", ".join(sorted(suites)))
    parser.add_argument("--again", action="store_true", help="forget what was done and start again")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "proofs", help="where to keep what was done")
    given = parser.parse_args(arguments)
    suite, folder = suites[given.suite], given.folder / given.suite
    if given.again:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(suite, HourTests):
            suite.forget()
    folder.mkdir(parents=True, exist_ok=True)
    # SIGINT too: a shell that starts a proof in the background has it ignored, and so would the proof's processes.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    console, began = Console(highlight=False, markup=False), time.monotonic()  # a test's id may hold brackets
    try:
        proof = suite.run(folder, lambda line: console.print(f"{time.monotonic() - began:7.0f} s  {line}"))
    except KeyboardInterrupt:
        console.print("interrupted; the same command goes on from here")
        return _INTERRUPTED
    write(PAGE, suite, proof, on=datetime.now(timezone.utc).date(), machine=_machine())
    table = Table(*proof.columns, title=suite.title)
    for row in proof.rows:
        table.add_row(*row)
    console.print(table)
    for sentence in proof.untrue:
        console.print(f"Does not hold: {sentence}")
    console.print(f"{PAGE.relative_to(ROOT)} is written")
    return 1 if proof.untrue else 0


def _machine() -> str:
    return f"{os.cpu_count()} processors, {psutil.virtual_memory().total / 2**30:.0f} GiB"


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
