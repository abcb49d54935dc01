"""Rows of a Delta table on the local file system, by its log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def delta_rows(table: Path, columns: list[str]) -> list[dict[str, Any]]:
    """Return the rows that the current version of a table has."""
    from pyarrow import parquet

    files = set[str]()
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, commit.read_text(encoding="utf-8").splitlines()):
            files |= {action["add"]["path"]} if "add" in action else set()
            files -= {action["remove"]["path"]} if "remove" in action else set()
    return [row for file in files for row in parquet.read_table(table / file, columns=columns).to_pylist()]
