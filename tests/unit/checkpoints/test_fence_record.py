"""The record of a takeover: it ends a log, and it is no damage."""

from __future__ import annotations

import pytest

from airflow_provider_ha.checkpoints.areas.working_records import record
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import FenceRecord, Progress, parse_fence, progress
from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.checkpoints.layered_files import FIRST, LayeredFiles
from tests.support.checkpoints.portable_helpers import QUERY


RECORD = FenceRecord(8, "s-1", "5e1c", "2026-01-01T00:00:00+00:00")


def trees(job: LayeredFiles) -> list[Tree]:
    """Return the same query directory as it is read in the area, and as a plain directory."""
    return [job.area.tree(FIRST) / QUERY, LocalTree(job.query(FIRST))]


def test_a_record_comes_back_as_it_was_written() -> None:
    assert parse_fence(RECORD.to_bytes()) == RECORD


@pytest.mark.parametrize("data", [b"", b"v1\n{}\n", b"spark-ha-base 1 {}\n", b"spark-ha-fenc"])
def test_another_entry_is_no_record(data: bytes) -> None:
    assert parse_fence(data) is None


@pytest.mark.parametrize("data", [b"spark-ha-fence ", b"spark-ha-fence 1 {", b'spark-ha-fence 2 {"later": 1}\n'])
def test_a_record_that_cannot_be_read_is_still_a_fence(data: bytes) -> None:
    assert parse_fence(data) == FenceRecord()


@pytest.mark.parametrize("planned", [False, True], ids=["at-rest", "in-flight"])
def test_a_record_is_no_progress(job: LayeredFiles, planned: bool) -> None:
    if planned:
        job.plan(FIRST, 3)
    before = progress(job.area.tree(FIRST) / QUERY)

    job.area.fence(FIRST)

    assert before == (Progress(3, 2) if planned else Progress(2, 2))
    assert progress(job.area.tree(FIRST) / QUERY) == before


@pytest.mark.parametrize("planned", [False, True], ids=["at-rest", "in-flight"])
def test_a_fenced_checkpoint_is_called_fenced_and_not_damaged(job: LayeredFiles, planned: bool) -> None:
    if planned:
        job.plan(FIRST, 3)
    job.area.fence(FIRST)

    reports = [verify(tree, spark_version="4.2.0") for tree in trees(job)]

    for report in reports:
        found = {finding.code: finding.path for finding in report.findings}
        assert found.pop(Code.FENCED) == ("commits/3" if planned else "offsets/3")
        assert found.keys() <= {Code.STATE_UNKNOWN}, "the query has no state, and nothing says so"
        assert (report.startable, report.restorable, report.committed) == (False, [0, 1, 2], 2)


def test_a_fenced_checkpoint_has_the_closures_and_the_records_that_it_had(job: LayeredFiles) -> None:
    tree = job.area.tree(FIRST) / QUERY
    before = closure(tree, 2, with_planned=True), record(tree, after=-1)

    job.area.fence(FIRST)

    tree = job.area.tree(FIRST) / QUERY
    assert (closure(tree, 2, with_planned=True), record(tree, after=-1)) == before
