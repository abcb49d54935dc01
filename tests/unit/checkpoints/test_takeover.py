"""The record of a takeover: it ends a log, and it is no damage.

The search for cycles is off within a block, and as it was before after it.

Which files of a fenced query directory its successor inherits.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from airflow_provider_ha.checkpoints.areas.layered.takeover import InheritedCut, belongs, is_own, paused_gc
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


@pytest.fixture(autouse=True)
def on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_is_off_within_the_block_and_on_after_it() -> None:
    with paused_gc():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_it_is_on_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="broken"), paused_gc():
        raise ValueError("broken")

    assert gc.isenabled()


def test_it_stays_off_until_the_last_of_several_blocks_is_over() -> None:
    first, second = paused_gc(), paused_gc()
    first.__enter__()
    second.__enter__()

    first.__exit__(None, None, None)
    assert not gc.isenabled()

    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_what_was_off_before_stays_off() -> None:
    gc.disable()

    with paused_gc():
        pass

    assert not gc.isenabled()


CUT = InheritedCut(planned=9, committed=8, logged={"sources/0": 12})


@pytest.mark.parametrize(
    ("name", "inherited"),
    [
        ("metadata", True),
        ("offsets/9", True),
        ("offsets/10", False),
        ("offsets/x", False),
        ("commits/8", True),
        ("commits/9", False),
        ("sources/0/12", True),
        ("sources/0/9.compact", True),
        ("sources/0/13", False),
        ("sources/0/19.compact", False),
        ("sources/1/0", True),
        ("sources/1/77", True),
        ("state/0/3/9.zip", True),
        ("state/0/3/10.zip", False),
        ("state/0/3/9.delta.crc", True),
        ("state/0/3/10.delta.crc", False),
        ("state/0/3/9_5e1c.changelog", True),
        ("state/0/3/10_5e1c.changelog", False),
        ("state/0/3/left-keyToNumValues/10.snapshot", False),
        ("state/0/3/SSTs/000099-5e1c.sst", True),
        ("state/0/_metadata/metadata", True),
        ("state/0/_metadata/v2/8", True),
        ("state/0/_metadata/v2/9", False),
        ("state/0/_stateSchema/default/0_5e1c", True),
        ("state/0/_stateSchema/default/9_5e1c", False),
        ("state/0/3/_metadata/schema", True),
        ("state/0/3/.9.zip.5e1c.tmp", False),
        ("offsets/.9.crc", False),
        ("_ha_base", False),
        ("_ha_removed", False),
        ("strange", False),
    ],
)
def test_a_file_is_inherited_when_it_belongs_to_the_cut(name: str, inherited: bool) -> None:
    assert belongs(name, CUT) is inherited


@pytest.mark.parametrize("name", ["state/0/_metadata/metadata", "state/0/3/1.zip", "commits/0", "offsets/1"])
def test_of_a_query_that_has_committed_nothing_no_state_is_inherited(name: str) -> None:
    assert not belongs(name, InheritedCut(planned=0, committed=-1))


def test_of_a_query_that_has_planned_nothing_only_its_id_is_inherited() -> None:
    names = ["metadata", "offsets/0", "commits/0", "sources/0/0", "state/0/0/1.zip"]

    assert [name for name in names if belongs(name, InheritedCut(planned=-1, committed=-1))] == ["metadata"]


@pytest.mark.parametrize(
    ("name", "own"),
    [("state/0/_metadata/v2/8", True), ("state/0/_metadata/v2/8.crc", True), ("state/0/_metadata/metadata", False)],
)
def test_files_with_absolute_paths_are_written_again(name: str, own: bool) -> None:
    assert is_own(name) is own
