"""What a proof is: a run of hours that goes on where it was interrupted, and a dated table at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Proof:
    """What a suite found.

    :param columns: Heads of the table.
    :param rows: Its rows.
    :param untrue: One sentence for each promise that does not hold; empty when all do.
    :param remark: What a reader has to know beside the table.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    untrue: Sequence[str]
    remark: str = ""


class Suite(Protocol):
    """One suite of `make proof`."""

    @property
    def name(self) -> str:
        """What follows ``SUITE=``."""

    @property
    def title(self) -> str:
        """Heading of its section."""

    @property
    def about(self) -> str:
        """What is done and what has to hold, one paragraph."""

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Do what is left and return the whole.

        :param folder: Keeps everything between two calls; one that is complete is not done again.
        :param tell: Shows progress, one line each.
        """
