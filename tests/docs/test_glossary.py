"""The glossary defines each term once, in alphabetical order within its table."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_ha.checkpoints.model import Verdict


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "glossary.md"


def tables() -> list[list[str]]:
    """Return the terms of each table."""
    parts = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    return [re.findall(r"^\| ([a-z][a-z, ]*) \|", part, re.MULTILINE) for part in parts]


def test_each_term_is_defined_once() -> None:
    terms = [term for table in tables() for term in table]

    assert len(terms) > 40
    assert len(terms) == len(set(terms))


def test_the_terms_of_a_table_are_in_alphabetical_order() -> None:
    assert [sorted(table) for table in tables()] == tables()


def test_every_verdict_of_a_restore_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert [verdict for verdict in Verdict if f"`{verdict.value}`" not in text] == []
