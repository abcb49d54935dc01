"""The input files of batches that are executed again: there, gone, replaced, or on a file system that is not asked."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.restore.query_records import merge
from airflow_provider_ha.checkpoints.sinks.sink_type import RestoreFindings
from airflow_provider_ha.checkpoints.sources.input_files import (
    MEASURED_AT_MOST,
    judge_files,
    judge_unasked,
    look_for,
    measure,
)
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from tests.support.checkpoints.portable_helpers import changed_at


def entry(path: str, timestamp: int | None, length: int | None = None) -> BatchEntry:
    line = {"path": path, "batchId": 0} | ({} if timestamp is None else {"timestamp": timestamp})
    lengths = {} if length is None else {"0": (length,)}
    return BatchEntry(batch=0, offsets="", sources={"0": (json.dumps(line),)}, lengths=lengths)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "a b.json"
    found.write_text("{}")
    return found


def test_a_file_with_its_time_is_the_one_that_was_read(file: Path) -> None:
    found = look_for([entry(file.as_uri(), changed_at(file)), entry(str(file), None)])

    assert (found.missing, found.replaced, found.error) == ({}, frozenset(), None)


def test_a_file_that_one_record_has_measured_and_another_has_not_is_the_same(file: Path) -> None:
    time = changed_at(file)
    records = [entry(file.as_uri(), time, 2), entry(file.as_uri(), time).model_copy(update={"batch": 1})]

    found = look_for(records)

    assert (found.missing, found.replaced, found.error) == ({}, frozenset(), None)


def test_a_clock_of_whole_seconds_replaces_nothing(file: Path) -> None:
    os.utime(file, ns=(0, 1_700_000_000_250_000_000))

    assert not look_for([entry(file.as_uri(), 1_700_000_000_000)]).missing


@pytest.mark.parametrize("timestamp", [1_700_000_000_251, 1_699_999_999_000, 1_700_000_001_000])
def test_a_file_that_was_replaced_is_impossible_to_replay_as_one_that_is_gone(file: Path, timestamp: int) -> None:
    os.utime(file, ns=(0, 1_700_000_000_250_000_000))
    recorded = entry(file.as_uri(), timestamp)
    found, judgement = look_for([recorded]), RestoreFindings("q")

    judge_files(found.missing, [recorded], judgement, found.replaced)

    assert [finding.verdict for finding in judgement.findings] == [Verdict.IMPOSSIBLE]
    assert "was replaced since" in judgement.findings[0].reason


def test_a_file_that_is_gone_is_impossible_to_replay(tmp_path: Path) -> None:
    recorded = entry((tmp_path / "gone.json").as_uri(), 1)
    found, judgement = look_for([recorded]), RestoreFindings("q")

    judge_files(found.missing, [recorded], judgement, found.replaced)

    assert "is gone" in judgement.findings[0].reason


def test_a_file_on_a_name_node_that_is_not_configured_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (name for name in os.environ if "HDFS" in name):
        monkeypatch.delenv(name)

    found = look_for([entry("hdfs://namenode:8020/in/a.json", 1)])

    assert found.error is not None
    assert "hdfs" not in found.asked


@pytest.mark.parametrize("scheme", ["gs", "abfss", "dbfs"])
def test_a_file_on_a_file_system_that_cannot_be_asked_is_unknown(scheme: str) -> None:
    recorded = entry(f"{scheme}://place/in/a.json", 1)
    found, judgement = look_for([recorded]), RestoreFindings("q")

    judge_unasked([recorded], found.asked, judgement)

    assert f"({scheme}:)" in judgement.unknown[0]


def test_a_file_of_the_same_time_and_another_length_was_replaced(file: Path) -> None:
    time = changed_at(file)
    recorded = entry(file.as_uri(), time, file.stat().st_size)
    same = look_for([recorded])
    file.write_text("{}, {}")
    os.utime(file, ns=(0, time * 1_000_000))
    found, judgement = look_for([recorded]), RestoreFindings("q")

    judge_files(found.missing, [recorded], judgement, found.replaced)

    assert not same.missing
    assert "was replaced since" in judgement.findings[0].reason
    assert not look_for([entry(file.as_uri(), time)]).missing, "without a length the time decides"


def test_a_batch_is_measured_where_its_files_are_those_that_spark_has_seen(file: Path, tmp_path: Path) -> None:
    lines = [
        *entry(file.as_uri(), changed_at(file)).sources["0"],
        *entry(file.as_uri(), 1).sources["0"],
        *entry((tmp_path / "gone.json").as_uri(), 1).sources["0"],
    ]

    found = measure(BatchEntry(batch=0, offsets="", sources={"0": tuple(lines), "1": ()}), StorageAccess())

    assert found == {"0": (2, None, None), "1": ()}


def test_a_batch_of_very_many_files_is_not_measured(file: Path) -> None:
    line = entry(file.as_uri(), changed_at(file)).sources["0"]

    assert measure(BatchEntry(batch=0, offsets="", sources={"0": line * (MEASURED_AT_MOST + 1)}), StorageAccess()) == {}


def test_a_record_without_lengths_takes_those_of_another_record_of_its_batch() -> None:
    bare, measured = entry("/a", 1), entry("/a", 1, 7)

    assert bare.measured_as(measured) == measured
    assert bare.measured_as(entry("/b", 1, 7)) == bare
    assert entry("/a", 1, 8).measured_as(measured).lengths == {"0": (8,)}
    assert merge({1: [measured], 2: [bare]}) == {0: measured}
