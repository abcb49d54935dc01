"""Which queries are for a look at rows only: they are part of no checkpoint."""

from __future__ import annotations

import pytest

from airflow_provider_ha.driver.writer_notes import WriterNotes, begins_anew


@pytest.mark.parametrize(
    ("name", "sink", "mode", "anew"),
    [
        (None, "console", "append", True),
        (None, "Console", "", True),
        (None, "noop", "", True),
        ("seen", "memory", "append", True),
        ("seen", "memory", "", True),
        ("counts", "memory", "Complete", False),
        ("look", "console", "append", False),
        ("rows", "noop", "append", False),
        (None, "json", "append", False),
        (None, "foreachBatch", "append", False),
        (None, None, "", False),
    ],
)
def test_a_query_for_a_look_at_rows_that_spark_or_its_name_cannot_find_again_begins_anew(
    name: str | None, sink: str | None, mode: str, *, anew: bool
) -> None:
    assert begins_anew(WriterNotes(name=name, sink=sink, mode=mode), "parquet") is anew
