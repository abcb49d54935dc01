"""``spark-ha checkpoint diff`` of a managed job: its checkpoints by number, its savepoints by id, under leases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.comparison.compare import compare
from airflow_provider_ha.checkpoints.retention.pointers import lease_name
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.working.pins import pin
from airflow_provider_ha.cli import checkpoint_diff
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.leases import active
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.clusters.coordination_helpers import JOB
from tests.support.spark.recorded_job import QUERY, copy_live


SAME, DIFFERENT, UNREAD = 0, 1, 2


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Iterator[Job]:
    """A job with the checkpoints 1 (batch 8) and 2 (batch 9), and a savepoint of batch 9."""
    live = copy_live(tmp_path / "live")
    with led_job(config, coordinator) as led:
        for number, batch in ((1, 8), (2, 9)):
            pin(live, led.pin_path(number), {QUERY: batch})
            led.checkpoints.add(led.leadership, led.checkpoint(number, batch))
        led.savepoints.create(led.leadership.commit, led.request("s1", 9), LocalTree(live))
        yield led


def test_checkpoints_and_savepoints_of_a_job_are_compared_under_leases(
    job: Job, spark_ha: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = []

    def looking(*sides: Any) -> Any:
        names = (lease_name(1), lease_name(2), "savepoint-s1")
        held.append([bool(active(job.coordinator, job.paths, name, SystemClock())) for name in names])
        return compare(*sides)

    monkeypatch.setattr(checkpoint_diff, "compare", looking)

    code, out, _ = spark_ha("checkpoint", "diff", JOB, "1", "2", "--json")

    values = {item["what"]: (item["a"], item["b"]) for item in json.loads(out)["queries"][QUERY]["values"]}
    assert (code, values["batch"], held) == (DIFFERENT, (8, 9), [[True, True, False]])
    assert spark_ha("checkpoint", "diff", JOB, "2", "s1")[0] == SAME
    assert held[1:] == [[False, True, True]]
    for name in (lease_name(2), "savepoint-s1"):
        assert not active(job.coordinator, job.paths, name, SystemClock())


@pytest.mark.parametrize("words", [(JOB, "1", "7"), (JOB, "1", "nothing"), ("no-such-job", "1", "2")], ids=" ".join)
def test_what_a_job_does_not_have_is_unknown(job: Job, spark_ha: Any, words: tuple[str, ...]) -> None:
    code, _, stderr = spark_ha("checkpoint", "diff", *words)

    assert code == UNREAD
    assert "has no" in stderr
    assert job.coordinator.find(f"{job.paths.cluster.base}/no-such-job") is None
