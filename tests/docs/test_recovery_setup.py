"""Who copies a DAG that starts or follows a job also reads how the job comes back without its task."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of


ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "docs" / "tutorial.md", *(ROOT / "docs" / "how-to").glob("*.md")])
WITH_A_DAG = [page for page in PAGES if any("with DAG(" in block.text for block in blocks_of(page))]


def test_there_are_pages_to_look_at() -> None:
    assert len(WITH_A_DAG) >= 6


@pytest.mark.parametrize("page", WITH_A_DAG, ids=lambda page: page.name)
def test_page_with_a_dag_shows_what_recovers_a_job_without_its_task(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert "recover_jobs" in text
    assert "spark-ha recover --watch" in text


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "tutorial.md"], ids=lambda page: page.name)
def test_first_pages_show_the_whole_dag(page: Path) -> None:
    shown = [block.text for block in blocks_of(page) if block.language == "python"]

    assert any("SparkHaRecoverJobsOperator(" in text and "SparkHaClusterTrigger(" in text for text in shown)
