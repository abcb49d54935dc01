"""The drawings of the documentation: readable without colors, complete, and from nowhere else."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.jobs.model import JobState


DOCS = Path(__file__).parents[2] / "docs"
IMAGES = DOCS / "images"
DRAWINGS = sorted(IMAGES.glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


def texts(name: str) -> set[str]:
    """Return what is written in a drawing."""
    tree = ET.parse(IMAGES / name)  # noqa: S314  # a file of this repository
    return {node.text for node in tree.iter(f"{SVG}text") if node.text}


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
def test_a_drawing_has_a_title_and_a_description(drawing: Path) -> None:
    root = ET.parse(drawing).getroot()  # noqa: S314  # a file of this repository
    named = {root.find(f"{SVG}{name}") for name in ("title", "desc")}

    assert root.get("role") == "img"
    assert all(node is not None and node.text and node.get("id") for node in named)


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
def test_a_drawing_loads_nothing_and_is_readable_in_the_dark(drawing: Path) -> None:
    text = drawing.read_text(encoding="utf-8")

    assert re.findall(r"(?:href|src)=|@import|url\((?!#)", text) == []
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
def test_a_drawing_is_used(drawing: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in (DOCS.parent / "README.md", *DOCS.rglob("*.md"))]

    assert any(f"images/{drawing.name})" in page for page in pages)


def test_the_states_of_a_run_are_drawn() -> None:
    assert {state.value for state in JobState} - texts("states.svg") == set()


def test_the_verdicts_of_a_plan_are_drawn() -> None:
    assert {verdict.value for verdict in Verdict} - texts("restore.svg") == set()


def test_the_first_page_and_the_readme_show_the_same_picture() -> None:
    readme, home = (DOCS.parent / "README.md").read_text(encoding="utf-8"), (DOCS / "index.md").read_text("utf-8")

    assert "](docs/images/overview.svg)" in readme
    assert "](images/overview.svg)" in home
