"""Every row of the guarantees page names a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "guarantees.md"
PLACES = ROOT / "docs" / "explanation" / "where-a-job-runs.md"
_TEST = re.compile(r"`((?:lab|tests)/[\w/]+\.py)::(\w+)`")


def rows() -> list[str]:
    """Return the rows of the table of failures, without its head."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("| Failure |"))
    return [line for line in lines[head + 2 :] if line.startswith("| ")]


def test_the_table_is_found() -> None:
    assert len(rows()) > 10


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip()[:60])
def test_each_row_names_a_test_that_exists(row: str) -> None:
    named = _TEST.findall(row)

    assert named
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", [PAGE, PLACES], ids=lambda page: page.name)
def test_each_test_that_a_page_names_exists(page: Path) -> None:
    for file, name in _TEST.findall(page.read_text(encoding="utf-8")):
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"
