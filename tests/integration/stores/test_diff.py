"""``spark-ha checkpoint diff`` of a job whose checkpoints lie in the directories of two epochs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.retention.pointers import lease_name
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.leases import active
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.checkpoints.layered_files import FIRST, SECOND
from tests.support.checkpoints.recorded_in_store import files_of, take_over
from tests.support.clusters.coordination_helpers import JOB
from tests.support.spark.recorded_job import QUERY


pytestmark = pytest.mark.timeout(300)
SAME, DIFFERENT, UNREAD = 0, 1, 2
BEFORE, LAST = 9, 13


@pytest.fixture(autouse=True)
def checkpoints(job: Job, area: WorkArea) -> None:
    """Checkpoint 1 in the directory of the first epoch, 2 and 3 in that of the second, and a savepoint of that."""
    take_over(area)
    for number, directory, batch in ((1, FIRST, BEFORE), (2, SECOND, BEFORE), (3, SECOND, LAST)):
        made = job.checkpoint(number, batch, pin=False).model_copy(update={"directory": directory})
        job.checkpoints.add(job.leadership, made)
    job.savepoints.create(job.leadership.commit, job.request("s1", LAST), area.tree(SECOND))


def test_two_batches_differ_by_their_values(spark_ha: Any) -> None:
    code, out, _ = spark_ha("checkpoint", "diff", JOB, "2", "3", "--json")

    found = json.loads(out)["queries"][QUERY]
    values = {item["what"]: (item["a"], item["b"]) for item in found["values"]}
    assert (code, values["batch"]) == (DIFFERENT, (BEFORE, LAST))


def test_what_a_new_epoch_inherits_is_the_same(spark_ha: Any) -> None:
    code, out, _ = spark_ha("checkpoint", "diff", JOB, "1", "2", "--json")

    found = json.loads(out)["queries"][QUERY]
    assert code == SAME
    assert found["state"]["shared"] > 0
    assert (FIRST in found["a"]["directory"], SECOND in found["b"]["directory"]) == (True, True)


def test_a_savepoint_is_the_same_as_the_checkpoint_that_it_was_taken_of(job: Job, spark_ha: Any) -> None:
    assert spark_ha("checkpoint", "diff", JOB, "3", "s1")[0] == SAME
    for name in (lease_name(3), "savepoint-s1"):
        assert not active(job.coordinator, job.paths, name, SystemClock())


def test_a_file_of_the_earlier_epoch_that_is_gone_leaves_no_answer(config: HaConfig, spark_ha: Any) -> None:
    files_of(config).delete(f"{FIRST}/{QUERY}/offsets/{LAST}")

    code, _, stderr = spark_ha("checkpoint", "diff", JOB, "2", "3")

    assert code == UNREAD
    assert f"offsets/{LAST}" in stderr
