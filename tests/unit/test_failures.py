"""Where a failure is said to have happened."""

from __future__ import annotations

import pytest

from airflow_provider_ha.jobs.failures import Failure


@pytest.mark.parametrize(
    ("query", "batches", "said"),
    [
        ("rows", {"rows": 4}, "query 'rows' after batch 4"),
        ("rows", {"rows": -1}, "query 'rows' before its first batch"),
        (None, {"rows": 4, "late": -1}, "the script after batch 4 of 'rows'"),
        (None, {}, "the script before any batch"),
        (None, None, "the script before any batch"),
    ],
)
def test_position_names_the_query_and_what_it_has_committed(
    query: str | None, batches: dict[str, int] | None, said: str
) -> None:
    assert Failure(query=query, batches=batches).position == said
