"""The cells of ``.ci/matrix.toml``: ``python -m lab.matrix.cells`` prints them as JSON, for a workflow.

Only the standard library, so that any Python 3.11 can print them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it along


FILE = Path(__file__).parents[2] / ".ci" / "matrix.toml"


@dataclass(frozen=True, order=True)
class Cell:
    """One environment: releases of Python, Airflow and PySpark.

    :param lowest: Whether everything else that ``pyproject.toml`` names is of the lowest release that it admits, in
        place of the newest.
    """

    python: str
    airflow: str
    pyspark: str
    lowest: bool = False

    @property
    def name(self) -> str:
        """Name of the cell, for people and for a folder."""
        return f"py{self.python}-airflow{self.airflow}-pyspark{self.pyspark}{'-lowest' if self.lowest else ''}"


@dataclass(frozen=True)
class Missing:
    """Cells that are not tried.

    :param python: Releases of Python that it is about; empty for all. The others likewise.
    :param reason: One sentence.
    """

    reason: str
    python: tuple[str, ...] = ()
    airflow: tuple[str, ...] = ()
    pyspark: tuple[str, ...] = ()

    def covers(self, cell: Cell) -> bool:
        """Whether it says why this cell is missing."""
        return all(
            not wanted or found in wanted
            for wanted, found in (
                (self.python, cell.python),
                (self.airflow, cell.airflow),
                (self.pyspark, cell.pyspark),
            )
        )


@dataclass(frozen=True)
class Beside:
    """What a release of Airflow needs beside it, and does not say itself: its own constraints do.

    :param airflow: Releases of Airflow.
    :param packages: Requirements, for the installer.
    :param reason: One sentence.
    """

    airflow: tuple[str, ...]
    packages: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Matrix:
    """All releases that the package claims, which of their combinations are tried, and why the others are not."""

    python: tuple[str, ...]
    airflow: tuple[str, ...]
    pyspark: tuple[str, ...]
    cells: tuple[Cell, ...]
    missing: tuple[Missing, ...]
    beside: tuple[Beside, ...] = ()

    @classmethod
    def read(cls, file: Path = FILE) -> Matrix:
        """Read the file."""
        told = tomllib.loads(file.read_text(encoding="utf-8"))
        axes = {name: tuple(releases) for name, releases in told["axes"].items()}
        return cls(
            **axes,
            cells=tuple(Cell(**cell) for cell in told["cell"]),
            missing=tuple(_missing(entry) for entry in told["missing"]),
            beside=tuple(
                Beside(tuple(entry["airflow"]), tuple(entry["packages"]), entry["reason"]) for entry in told["beside"]
            ),
        )

    def packages_beside(self, cell: Cell) -> list[str]:
        """Return the requirements that the environment of a cell has as well."""
        return [package for entry in self.beside if cell.airflow in entry.airflow for package in entry.packages]

    def absent(self) -> list[Cell]:
        """Return the combinations that are not tried."""
        every = (Cell(*releases) for releases in product(self.python, self.airflow, self.pyspark))
        tried = {replace(cell, lowest=False) for cell in self.cells}
        return [cell for cell in every if cell not in tried]

    def unexplained(self) -> list[Cell]:
        """Return the combinations that are not tried without a reason."""
        return [cell for cell in self.absent() if not any(entry.covers(cell) for entry in self.missing)]


def as_json(cells: Iterable[Cell]) -> str:
    """Return what a workflow's job takes as its matrix."""
    return json.dumps([{"name": cell.name} | asdict(cell) for cell in cells])


def _missing(entry: dict[str, Any]) -> Missing:
    releases = {name: tuple(map(str, entry[name])) for name in ("python", "airflow", "pyspark") if name in entry}
    return Missing(str(entry["reason"]), **releases)


if __name__ == "__main__":
    print(as_json(Matrix.read().cells))
