"""What the measurements share: their options, and how they say what they found."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


_WIDTH = 140  # of a table in a log


@dataclass(frozen=True)
class Effort:
    """How much a script measures.

    :param pairs: Rounds; each of them measures every side once.
    :param quick: Whether to measure small things only, to see that the script works.
    """

    pairs: int
    quick: bool


def command(description: str | None) -> argparse.ArgumentParser:
    """Return a command line with the options of all scripts."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="measure a little only")
    parser.add_argument("--pairs", type=_positive, metavar="N", help="rounds; each of them measures every side once")
    return parser


def effort(given: argparse.Namespace | str | None, pairs: int, few: int = 1) -> Effort:
    """Return how much to measure, by the options of :func:`command`.

    :param given: Parsed options, or the description of a script that has no other options.
    :param pairs: Rounds by default.
    :param few: Rounds by default with ``--quick``.
    """
    options = given if isinstance(given, argparse.Namespace) else command(given).parse_args()
    return Effort(options.pairs or (few if options.quick else pairs), options.quick)


def repeat(description: str | None, measure: Callable[[bool], None]) -> None:
    """Measure, and print a table, once for each of ``--pairs``; once by default.

    :param measure: Gets whether to measure a little only.
    """
    given = effort(description, pairs=1)
    for _ in range(given.pairs):
        measure(given.quick)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def ratio(base: Sequence[float], ours: Sequence[float]) -> float:
    """Return the median of the ratios of the pairs."""
    return median([second / first for first, second in zip(base, ours, strict=True)])


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
