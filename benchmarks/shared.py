"""What the measurements share: their options, and how they say what they found."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table


_WIDTH = 140  # of a table in a log


def quick(description: str) -> bool:
    """Read the command line; returns whether to measure a little only, to see that it works."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="measure a little only")
    return bool(parser.parse_args().quick)


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    """Return the value that one in a hundred exceeds; the greatest when there are fewer."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    console.print(table)
