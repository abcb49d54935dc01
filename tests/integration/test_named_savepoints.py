"""The commands of savepoints: the beginning of an id, or a label, in place of the id; and the warning of the list."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.cli import savepoint
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.spark.recorded_job import recorded_job


def test_every_command_takes_the_beginning_of_an_id_or_a_label(source: Job, spark_ha: Any) -> None:
    for number, label in (("one", "before the upgrade"), ("two", "")):
        request = replace(source.request(f"nightly-{number}", 9), label=label)
        source.savepoints.create(source.leadership.commit, request, LocalTree(recorded_job() / "live"))

    shown = json.loads(spark_ha("savepoint", "show", "flights", "nightly-o", "--json")[1])
    verified, document, _ = spark_ha("savepoint", "verify", "flights", "before the upgrade", "--json")
    planned = json.loads(spark_ha("checkpoint", "plan", "flights", "--start-from", "savepoint-nightly-t", "--json")[1])
    code, _, stderr = spark_ha("savepoint", "dispose", "flights", "nightly", "--yes")
    unasked, stdout, advice = spark_ha("savepoint", "dispose", "flights", "nightly-o")

    assert (unasked, stdout, "Add --yes" in advice) == (64, "", True)
    assert shown["savepoint_id"] == "nightly-one"
    assert (verified, json.loads(document)["savepoint_id"]) == (0, "nightly-one")
    assert planned["source_id"] == "nightly-two"
    assert code == 64
    assert "'nightly' may name 2 savepoints of job 'flights': nightly-two, nightly-one" in stderr
    assert {pointer.savepoint_id for pointer in source.savepoints.list()} == {"nightly-one", "nightly-two"}


def test_a_list_warns_of_the_oldest_savepoint_when_very_many_records_are_kept(
    source: Job, spark_ha: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.savepoints.create(source.leadership.commit, source.request("old", 9), LocalTree(recorded_job() / "live"))
    before = spark_ha("savepoint", "list", "flights")
    monkeypatch.setattr(savepoint, "MANY", 0)

    code, _, stderr = spark_ha("savepoint", "list", "flights")

    assert (code, before[2]) == (0, "")
    assert "the records of 1 checkpoints are kept for exact replay, by savepoint old" in stderr
