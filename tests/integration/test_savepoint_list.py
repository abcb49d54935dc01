"""``spark-ha savepoint list``: what it says beside the table."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.cli import savepoint
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.spark.recorded_job import recorded_job


def test_a_list_warns_of_the_oldest_savepoint_when_very_many_records_are_kept(
    source: Job, spark_ha: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.savepoints.create(source.leadership.commit, source.request("old", 9), LocalTree(recorded_job() / "live"))
    before = spark_ha("savepoint", "list", "flights")
    monkeypatch.setattr(savepoint, "MANY", 0)

    code, _, stderr = spark_ha("savepoint", "list", "flights")

    assert (code, before[2]) == (0, "")
    assert "the records of 1 checkpoints are kept for exact replay, by savepoint old" in stderr
