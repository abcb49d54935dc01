"""The page about restore plans names every field that a plan has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from airflow_provider_ha.checkpoints.model import GivenBatches, QuerySink
from airflow_provider_ha.checkpoints.plan_model import KafkaPartition, PlanFinding, QueryPlan, SourceInput, Verdict
from tests.docs.source_table import PAGE, TESTS, page


PAGES = Path(__file__).parents[2] / "docs"


def words(page: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", (PAGES / page).read_text(encoding="utf-8")))


@pytest.mark.parametrize("model", [QueryPlan, SourceInput, KafkaPartition, GivenBatches, PlanFinding, QuerySink])
def test_every_field_is_explained(model: type[BaseModel]) -> None:
    assert set(model.model_fields) <= words("reference/restore-plan.md")


@pytest.mark.parametrize("page", ["reference/restore-plan.md", "how-to/restore-plan.md"])
def test_every_verdict_is_explained(page: str) -> None:
    assert {verdict.value for verdict in Verdict} <= words(page)


def test_the_table_of_sources_is_that_of_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("test", sorted({test for tests in TESTS.values() for test in tests}))
def test_every_cell_of_the_table_of_sources_has_its_test(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (PAGES.parent / "tests" / file).read_text(encoding="utf-8")
