"""``make matrix``: unit, operator and install tests, and a real Airflow, in the environments of ``.ci/matrix.toml``.

Every cell has its own environment with the wheel, and a tree in which ``airflow_provider_ha`` is what the wheel
installed. What passed is not run again until the wheel or the tests change, so a run that was interrupted, or whose
time was over, goes on when it is started again. Exit code 0 only when every chosen cell has passed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lab.matrix.cells import Cell, Matrix
from lab.matrix.environment import ROOT, Environment, NotHereError, digest_of_tests
from tests.support.wheel import wheel


PLACE = ROOT / "build" / "matrix"
RESULTS = PLACE / "results.json"
MINUTES = 60.0

PASSED = "passed"
NOT_RUN = "not run"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen cells."""
    parser = argparse.ArgumentParser(prog="make matrix", description="Test the wheel in other environments")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="cells to run: 'py3.13-*'")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="after them no cell is started any more")
    parser.add_argument("--workers", default="2", help="test processes of one cell")
    parser.add_argument("--list", action="store_true", help="only show them")
    given = parser.parse_args(arguments)
    console, until = Console(highlight=False), time.monotonic() + given.minutes * 60
    cells = [cell for cell in Matrix.read().cells if fnmatch(cell.name, given.only)]
    made = wheel()
    digest = digest_of_tests(made)
    for cell in cells if not given.list else []:
        if outcome(cell, digest) != PASSED and time.monotonic() < until:
            console.print(f"{cell.name}: begins")
            remember(cell, digest, *_tried(cell, made, given.workers))
            console.print(f"{cell.name}: {outcome(cell, digest)}")
    console.print(_table(cells, digest))
    return 0 if cells and all(outcome(cell, digest) == PASSED for cell in cells) else 1


def _tried(cell: Cell, made: Path, workers: str) -> tuple[str, float]:
    began = time.monotonic()
    environment = Environment(cell, PLACE / cell.name)
    try:
        environment.make(made)
    except NotHereError as missing:
        return str(missing), time.monotonic() - began
    failed = [suite for suite in environment.SUITES if not environment.passes(suite, made, workers)]
    if not failed:
        shutil.rmtree(environment.place)  # what failed stays, to be looked into
    return (f"failed: {', '.join(failed)}" if failed else PASSED), time.monotonic() - began


def outcome(cell: Cell, digest: str, file: Path = RESULTS) -> str:
    """Return how the last run of a cell ended with this wheel and these tests."""
    found = _recalled(file).get(cell.name, {})
    return str(found["outcome"]) if found.get("digest") == digest else NOT_RUN


def remember(cell: Cell, digest: str, ended: str, seconds: float, file: Path = RESULTS) -> None:
    """Add a result to the earlier ones."""
    told = _recalled(file) | {cell.name: {"digest": digest, "outcome": ended, "seconds": round(seconds)}}
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    fresh.replace(file)


def _recalled(file: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def _table(cells: Sequence[Cell], digest: str) -> Table:
    table = Table("Python", "Airflow", "PySpark", "all else", "result", "seconds")
    known = _recalled(RESULTS)
    for cell in cells:
        ended = outcome(cell, digest)
        seconds = "" if ended == NOT_RUN else str(known[cell.name]["seconds"])
        else_ = "lowest" if cell.lowest else "newest"
        style = "" if ended == PASSED else "red"
        table.add_row(cell.python, cell.airflow, cell.pyspark, else_, ended, seconds, style=style)
    return table


if __name__ == "__main__":
    sys.exit(main())
