"""``spark-ha job show`` names what the run had and its script has not started yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.driver.resting import RestingQuery
from airflow_provider_ha.jobs.jobs import create_job
from tests.support.checkpoints.portable_helpers import checkpoint
from tests.support.clusters.rebuild_helpers import drive, job, submit


def test_a_query_that_is_not_started_yet_is_named_with_where_it_rests(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path
) -> None:
    context = job(config, coordinator, "flights")
    driver = drive(context, submit(context, tmp_path))
    directory = checkpoint(tmp_path / "live" / "late")
    late = RestingQuery("late", LocalTree(directory), QuerySink(kind=SinkKind.FILE, path="/data/late"))
    driver.writer._registry.expect([late], complete=True)

    driver.writer.publish_status(None)

    code, shown, _ = spark_ha("job", "show", "flights")
    assert code == 0
    assert next(line.split() for line in shown.splitlines() if "late" in line) == [
        "late", "not", "yet", "2", "2", "/data/late",
    ]  # fmt: skip
    document = json.loads(spark_ha("job", "show", "flights", "--json")[1])
    assert document["not_started"] == {"late": {"planned": 2, "committed": 2, "sink": "/data/late", "replayed": 0}}
    driver.leadership.release()


def test_a_job_of_which_only_the_epoch_is_left_has_no_run_and_no_state(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator
) -> None:
    context = job(config, coordinator, "erased")
    create_job(coordinator, context.paths)

    listed = json.loads(spark_ha("job", "list", "--json")[1])
    shown = json.loads(spark_ha("job", "show", "erased", "--json")[1])

    assert [(each["job_id"], each["state"], each["run"]) for each in listed["jobs"]] == [("erased", "NO_RUN", None)]
    assert (shown["state"], shown["run"]) == ("NO_RUN", None)
