"""The page of the releases says what the corpus of the tests really records."""

from __future__ import annotations

from pathlib import Path

from tests.support.checkpoints.old_formats import RELEASES
from tests.support.releases.installed import SPARKS
from tests.support.releases.shapes import SHAPES


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "releases.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]


def test_each_shape_has_its_row_and_says_who_recorded_it() -> None:
    shapes = ROWS[ROWS.index(["Shape", "Content", "Recorded with"]) :]
    told = {row[0].strip("`"): row[2] for row in shapes if row[0].startswith("`") and len(row) == len(shapes[0])}
    expected = {}
    for shape in SHAPES:
        made = [spark.version for spark in SPARKS if shape.recorded_by(spark)]
        expected[shape.name] = f"{made[0]} to {made[-1]}" if shape.core else f"{made[0]}, {made[-1]}"
    assert told == expected


def test_each_release_has_its_row() -> None:
    releases = {row[0]: row for row in ROWS if len(row) == 5}
    for spark in SPARKS:
        assert releases[".".join(map(str, spark.short))][1].count(spark.version) == 1
    for release in RELEASES:
        assert releases[release.rpartition(".")[0]][4] == release
