"""Verdicts on damaged copies, compared with what Spark does."""

from __future__ import annotations

import importlib.metadata
from collections import defaultdict
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.integration.checkpoints.test_verify_sink import CASES
from tests.support.checkpoints.damage import DAMAGES, Damage
from tests.support.spark.corpus import checkpoint_copy
from tests.support.spark.sink_corpus import sink_copy
from tests.support.spark.spark_judge import judge


pytestmark = pytest.mark.timeout(900)


# Code -> the only answers that a checkpoint with this finding has, and why there is no other.
ONE_SIDED: dict[Code, tuple[set[bool], str]] = {
    Code.METADATA_MISSING: ({False}, "another query id is no start, and 4.2 refuses"),
    Code.METADATA_CORRUPT: ({False}, "every start reads it"),
    Code.OFFSETS_MISSING: ({False}, "an old entry that is gone was purged: only one that is needed is found"),
    Code.COMMITS_AHEAD: ({False}, "the next commit always meets the one that is there"),
    Code.SOURCE_LOG_CORRUPT: ({False}, "only entries that are needed are read, and input is lost or read twice"),
    Code.SOURCE_LOG_MISSING: ({False}, "the same"),
    Code.STATE_FALLBACK: ({True}, "it is said only where this release goes on"),
    Code.REPARTITION_UNFINISHED: ({False}, "4.2 refuses, and older releases lack the state of the new partitions"),
    Code.SINK_UNPLANNED: ({False}, "the sink skips the next batches, with any content"),
    Code.SINK_BEHIND: ({False}, "the next compaction misses the entries"),
    Code.SINK_LOG_MISSING: ({False}, "the same"),
    Code.SINK_LOG_CORRUPT: ({False}, "the next compaction reads them all"),
}

# Not said of any damage of the tables, and why: what holds them instead.
ELSEWHERE: dict[Code, str] = {
    Code.EMPTY: "test_verify: there is nothing to damage, and Spark begins",
    Code.NOT_A_CHECKPOINT: "test_verify: there is nothing to start from",
    Code.UNREADABLE: "test_verify: whether Spark, under another user, can read it is not known",
    Code.OFFSETS_SPARSE: "test_verify_sparse: may leave the answer open; Spark is asked with and without the option",
    Code.CONF_REFUSED: "unit test_verification_rules_logs: blocks in the newest entry only",
    Code.COMMITS_MISSING: "test_verify: a reason of a batch, never a finding about the start",
    Code.BASE_CORRUPT: "unit test_layered_tree: only storage without links has such a file",
    Code.FENCED: "unit test_fence_record: no damage, and never a start: no release parses the record",
    Code.STATE_STALE: "test_verify, and the releases: wrong a few starts later, not at the next one",
    Code.STATE_UNKNOWN: "test_verify: leaves the answer open; only who knows the query can tell",
    Code.SINK_FILE_MISSING: "unit test_verification_sinks: never blocks, Spark does not look at its output again",
    Code.SINK_FILE_SIZE: "the same",
    Code.LOAD_REFUSED: "test_prove and test_prove_shapes: it is Spark's own answer",
    Code.START_REFUSED: "the same",
    Code.NOT_PROVEN: "test_prove: never blocks, Spark could not be asked",
    Code.NOT_LOOKED_INTO: "test_verify: never blocks, and says that nothing is known",
}


def answers(tmp_path: Path) -> dict[Code, set[bool]]:
    """Return, for each code, whether checkpoints with this finding can be started from, over all damages."""
    found: dict[Code, set[bool]] = defaultdict(set)
    for damage in DAMAGES:
        copy = checkpoint_copy(damage.shape, tmp_path / damage.id)
        damage.apply(copy)
        for finding in verify(LocalTree(copy), spark_version="4.2.0").findings:
            found[finding.code].add(damage.startable)
    for case in CASES:
        place = sink_copy(case.shape, tmp_path / f"sink-{case.id}")
        case.apply(place)
        for finding in verify(
            LocalTree(place / "checkpoint"), sink=LocalTree(place / "out"), spark_version="4.2.0"
        ).findings:
            found[finding.code].add(case.startable)
    return found


@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.long
def test_every_code_has_a_case_that_spark_starts_and_one_that_it_does_not(tmp_path: Path) -> None:
    found = answers(tmp_path)
    found.pop(Code.STATE_UNKNOWN, None)  # the query without state of the corpus says it of every damage
    expected = {code: ONE_SIDED[code][0] if code in ONE_SIDED else {True, False} for code in Code}
    assert found == {code: sides for code, sides in expected.items() if code not in ELSEWHERE}


# One of each kind; all of them are the long test.
ESSENTIAL = (
    "rocksdb2-in-flight",
    "rocksdb2-zip-half",
    "rocksdb2-offsets-before-last-removed",
    "hdfs-source-compact-cut",
    "hdfs-snapshot-half",
    "rocksdb1-changelog-sst-removed",
)


def disagreements(damages: list[Damage], tmp_path: Path) -> list[str]:
    """Return the damages on which Spark and the verdict differ."""
    cases, verdicts = [], []
    for damage in damages:
        copy = checkpoint_copy(damage.shape, tmp_path / damage.id)
        damage.apply(copy)
        verdicts.append(verify(LocalTree(copy)).startable)
        cases.append((damage.shape, copy))
    outcomes = judge(cases, tmp_path)
    return [
        f"{damage.id}: verified {verdict}, Spark: {outcome}"
        for damage, verdict, outcome in zip(damages, verdicts, outcomes, strict=True)
        if verdict is not (outcome == "right")
    ]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_agrees_on_one_damage_of_each_kind(tmp_path: Path) -> None:
    assert disagreements([damage for damage in DAMAGES if damage.id in ESSENTIAL], tmp_path) == []


@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(not importlib.metadata.version("pyspark").startswith("4.2"), reason="the table is that of 4.2")
def test_spark_agrees_on_every_damage(tmp_path: Path) -> None:
    assert disagreements(list(DAMAGES), tmp_path) == []
