"""Verdicts on a checkpoint together with its file sink, compared with what Spark does with both.

Spark goes on with every damaged copy, over the next compaction of the sink's log; its output has to be the truth where
the verdict is yes, and must not be where it is no.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import batches, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.checkpoints.damage import Damage
from tests.support.spark.sink_corpus import LOG, judge, sink_copy


# The first test makes the corpus, which takes a minute of two idle cores.
pytestmark = pytest.mark.timeout(600)


def remove(*paths: Path) -> None:
    for path in paths:
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def last(place: Path) -> int:
    return progress(LocalTree(place / "checkpoint")).planned


def nothing(_place: Path) -> None:
    """Leave it as it is."""


def kill_before_the_commit(place: Path) -> None:
    """What a kill between the sink's log and the commit leaves."""
    remove(place / "checkpoint" / "commits" / str(last(place)))


def kill_before_state_and_commit(place: Path) -> None:
    """The same, and the state of the batch is lost as well."""
    remove(*(place / "checkpoint" / "state" / "0").glob(f"*/{last(place) + 1}.delta"))
    kill_before_the_commit(place)


def older_checkpoint(place: Path) -> None:
    """The checkpoint is a batch older than the output; with format 1 its stale state is gone as well."""
    remove(*(place / "checkpoint" / "state").glob(f"0/*/{last(place) + 1}.delta"))
    kill_before_the_commit(place)
    remove(place / "checkpoint" / "offsets" / str(last(place)))


def lose_last_entry(place: Path) -> None:
    remove(place / "out" / LOG / str(last(place)))


def lose_log(place: Path) -> None:
    remove(place / "out" / LOG)


def lose_compact(place: Path) -> None:
    remove(place / "out" / LOG / "3.compact")


def lose_entry_between(place: Path) -> None:
    remove(place / "out" / LOG / "4")


def empty_entry(place: Path) -> None:
    (place / "out" / LOG / "4").write_bytes(b"")


def cut_entry(place: Path) -> None:
    path = place / "out" / LOG / "4"
    path.write_text(path.read_text()[:-9])


def lose_state(place: Path) -> None:
    remove(place / "checkpoint" / "state")


CASES = (
    Damage("stateless", "none", nothing, startable=True, code=None),
    Damage("hdfs", "none", nothing, startable=True, code=None),
    Damage("rocksdb2", "none", nothing, startable=True, code=None),
    Damage("stateless", "ahead", kill_before_the_commit, startable=True, code="SINK_AHEAD"),
    Damage("hdfs", "ahead", kill_before_the_commit, startable=True, code="SINK_AHEAD"),
    Damage("hdfs", "ahead-without-state", kill_before_state_and_commit, startable=False, code="SINK_AHEAD"),
    Damage("rocksdb2", "ahead", kill_before_the_commit, startable=False, code="SINK_AHEAD"),
    # Its last batch had no input and waited for the watermark: the logs are those of a query with state.
    Damage("hdfs", "no-state", lose_state, startable=False, code="STATE_MISSING"),
    Damage("stateless", "unplanned", older_checkpoint, startable=False, code="SINK_UNPLANNED"),
    Damage("hdfs", "unplanned", older_checkpoint, startable=False, code="SINK_UNPLANNED"),
    Damage("rocksdb2", "unplanned", older_checkpoint, startable=False, code="SINK_UNPLANNED"),
    Damage("stateless", "behind", lose_last_entry, startable=False, code="SINK_BEHIND"),
    Damage("rocksdb2", "behind", lose_last_entry, startable=False, code="SINK_BEHIND"),
    Damage("stateless", "no-log", lose_log, startable=False, code="SINK_LOG_MISSING"),
    Damage("stateless", "no-compact", lose_compact, startable=False, code="SINK_LOG_MISSING"),
    Damage("rocksdb2", "hole", lose_entry_between, startable=False, code="SINK_LOG_MISSING"),
    Damage("stateless", "empty-entry", empty_entry, startable=False, code="SINK_LOG_CORRUPT"),
    Damage("stateless", "cut-entry", cut_entry, startable=False, code="SINK_LOG_CORRUPT"),
)
ESSENTIAL = ("stateless-ahead", "rocksdb2-ahead", "stateless-unplanned", "stateless-behind", "stateless-none")


@pytest.mark.spark
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_verdict_and_its_reason(case: Damage, tmp_path: Path) -> None:
    place = sink_copy(case.shape, tmp_path / "copy")
    case.apply(place)
    report = verify(LocalTree(place / "checkpoint"), sink=LocalTree(place / "out"), spark_version="4.2.0")

    codes = {finding.code.value for finding in report.findings} - {"STATE_UNKNOWN"}
    assert report.startable is case.startable, report.findings
    assert codes == ({case.code} if case.code else set())


@pytest.mark.spark
def test_a_sink_that_is_ahead_leaves_every_committed_batch_restorable(tmp_path: Path) -> None:
    place = sink_copy("rocksdb2", tmp_path / "copy")
    kill_before_the_commit(place)

    report = verify(LocalTree(place / "checkpoint"), sink=LocalTree(place / "out"))
    assert report.restorable == batches(LocalTree(place / "checkpoint"), "commits")


def disagreements(cases: list[Damage], tmp_path: Path) -> list[str]:
    """Return the cases on which Spark and the verdict differ."""
    places = [sink_copy(case.shape, tmp_path / case.id) for case in cases]
    for case, place in zip(cases, places, strict=True):
        case.apply(place)
    verdicts = [verify(LocalTree(place / "checkpoint"), sink=LocalTree(place / "out")).startable for place in places]
    outcomes = judge([(case.shape, place) for case, place in zip(cases, places, strict=True)], tmp_path)
    return [
        f"{case.id}: verified {verdict}, Spark: {outcome}"
        for case, verdict, outcome in zip(cases, verdicts, outcomes, strict=True)
        if verdict is not (outcome == "right")
    ]


@pytest.mark.hours
@pytest.mark.long
@pytest.mark.spark
def test_spark_agrees_on_one_case_of_each_kind(tmp_path: Path) -> None:
    assert disagreements([case for case in CASES if case.id in ESSENTIAL], tmp_path) == []


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.hours
@pytest.mark.timeout(900)
def test_spark_agrees_on_every_case(tmp_path: Path) -> None:
    assert disagreements(list(CASES), tmp_path) == []
