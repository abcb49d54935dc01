"""Logs with gaps: what the verdict says about them, and what Spark does."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.checkpoints.damage import remove
from tests.support.spark.async_judge import judge
from tests.support.spark.corpus import ROWS_PER_FILE, checkpoint_copy


# The first test makes the corpus, which takes half a minute of two idle cores.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


def sparse_copy(target: Path, *, offsets: set[int], commits: set[int]) -> Path:
    """Copy the checkpoint of the query without state, batches 0 to 8, and leave only these entries."""
    copy = checkpoint_copy("stateless", target)
    for log, kept in (("offsets", offsets), ("commits", commits)):
        for batch in set(range(9)) - kept:
            remove(f"{log}/{batch}")(copy)
    return copy


@pytest.mark.hours
@pytest.mark.long
def test_spark_agrees_on_gaps(tmp_path: Path) -> None:
    """One input file is left to read, and each of the corpus was one batch."""
    legal = {"offsets": {0, 2, 5, 8}, "commits": {0, 2, 5, 8}}
    in_flight = {"offsets": {0, 2, 5, 8}, "commits": {0, 2, 5}}
    lost = {"offsets": {0, 2, 8}, "commits": {0, 2, 5}}
    copies = {
        name: sparse_copy(tmp_path / name, **kept)
        for name, kept in {"legal": legal, "strict": legal, "in flight": in_flight, "lost": lost}.items()
    }
    reports = {name: verify(LocalTree(copy), spark_version="4.2.0") for name, copy in copies.items()}

    assert {name: report.startable for name, report in reports.items()} == {
        "legal": True, "strict": True, "in flight": True, "lost": False,
    }  # fmt: skip
    assert "OFFSETS_SPARSE" in {finding.code.value for finding in reports["legal"].findings}

    answers = judge([(copy, name != "strict") for name, copy in copies.items()], tmp_path)
    legally, strictly, in_flight_answer, lost_answer = answers
    assert legally == {"error": None, "rows": ROWS_PER_FILE}
    # As the finding says: only a query with asynchronous progress tracking can go on.
    assert "batch 7 doesn't exist" in strictly["error"]
    assert in_flight_answer == {"error": None, "rows": 4 * ROWS_PER_FILE}
    # Batch 5 was committed, and Spark executes its files once more: that is no start.
    assert lost_answer == {"error": None, "rows": 7 * ROWS_PER_FILE}
