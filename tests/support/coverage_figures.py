"""Coverage by folder: ``make coverage`` keeps the figures (``--keep``), ``make test`` shows the last ones.

They are measured apart from ``make test`` because the tracer that sees branches costs more time than that may take.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any


PLACE = Path(__file__).parents[2] / "build" / "coverage"
MEASURED = PLACE / "coverage.json"  # as coverage.py writes it
KEPT = PLACE / "figures.json"

_PACKAGE = "airflow_provider_ha"


@dataclass(frozen=True)
class Figure:
    """Coverage of one folder.

    :param possible: Lines and branches.
    :param covered: Those of them that a test executes.
    :param missing_lines: Lines that no test executes.
    """

    folder: str
    possible: int
    covered: int
    missing_lines: int

    @property
    def percent(self) -> float:
        """Share of lines and branches that a test executes."""
        return 100.0 * self.covered / self.possible if self.possible else 100.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Keep the figures of the last measurement, or show what was kept."""
    parser = argparse.ArgumentParser(prog="coverage_figures")
    parser.add_argument("--keep", action="store_true", help="take them from what was just measured")
    if parser.parse_args(arguments).keep:
        keep(figures(json.loads(MEASURED.read_text(encoding="utf-8"))["files"]), datetime.now(timezone.utc))
    print(shown())


def figures(files: Mapping[str, Any]) -> list[Figure]:
    """Return a figure for each folder of the package, the least covered first.

    :param files: Path -> summary, as in the JSON report of coverage.py.
    """
    by_folder = defaultdict[str, list[Mapping[str, int]]](list)
    for path, file in files.items():
        inside = path.replace("\\", "/").rpartition(f"{_PACKAGE}/")[2]
        by_folder[inside.partition("/")[0] if "/" in inside else "."].append(file["summary"])
    return sorted((_figure(folder, found) for folder, found in by_folder.items()), key=lambda figure: figure.percent)


def _figure(folder: str, summaries: Iterable[Mapping[str, int]]) -> Figure:
    found = list(summaries)
    return Figure(
        folder=folder,
        possible=sum(one["num_statements"] + one.get("num_branches", 0) for one in found),
        covered=sum(one["covered_lines"] + one.get("covered_branches", 0) for one in found),
        missing_lines=sum(one["missing_lines"] for one in found),
    )


def keep(found: Sequence[Figure], moment: datetime, file: Path = KEPT) -> None:
    """Write the figures with their date."""
    told = {"measured": moment.strftime("%Y-%m-%d %H:%M UTC"), "figures": [asdict(figure) for figure in found]}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def shown(file: Path = KEPT) -> str:
    """Return the figures that were kept, as a table."""
    if not file.exists():
        return "Coverage is not measured yet: make coverage"
    told = json.loads(file.read_text(encoding="utf-8"))
    found = [Figure(**figure) for figure in told["figures"]]
    total = Figure(
        "all of it",
        sum(figure.possible for figure in found),
        sum(figure.covered for figure in found),
        sum(figure.missing_lines for figure in found),
    )
    rows = [f"{one.folder:<16}{one.percent:6.1f} %{one.missing_lines:8d} lines missing" for one in (*found, total)]
    return "\n".join([f"Coverage of lines and branches, measured {told['measured']} (make coverage)", *rows])


if __name__ == "__main__":
    main()
