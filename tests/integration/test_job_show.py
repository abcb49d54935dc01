"""``spark-ha job show`` names what the run had and its script has not started yet."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.cli import session
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery
from airflow_provider_ha.jobs.move.move_records import MoveRecord
from airflow_provider_ha.jobs.observe import create_job
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
        "late", "not", "yet", "2", "2", "-", "-", "-", "/data/late",
    ]  # fmt: skip
    document = json.loads(spark_ha("job", "show", "flights", "--json")[1])
    shown_query = document["not_started"]["late"]
    assert {name: value for name, value in shown_query.items() if value is not None} == {
        "planned": 2,
        "committed": 2,
        "sink": "/data/late",
        "replayed": 0,
    }
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


@pytest.mark.parametrize(
    ("run", "sentence"),
    [(None, "is being moved to cluster zk:2181/spark-ha/s3 (s3://bucket/s3)"), (3, "(s3://bucket/s3) on 2026-11-21")],
    ids=["on-its-way", "there"],
)
def test_a_job_that_was_moved_is_shown_with_its_place(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator, run: int | None, sentence: str
) -> None:
    context = job(config, coordinator, "gone")
    create_job(coordinator, context.paths)
    moved = MoveRecord(
        move_id="move-1",
        cluster="zk:2181/spark-ha/s3",
        place="s3://bucket/s3",
        run=run,
        by="me",
        at=datetime(2026, 11, 21, 12, tzinfo=timezone.utc),
    )
    coordinator.commit(Create(context.paths.moved, moved.to_bytes()))

    shown = spark_ha("job", "show", "gone")[1]
    document = json.loads(spark_ha("job", "show", "gone", "--json")[1])

    assert sentence in next(line for line in shown.splitlines() if line.startswith("moved"))
    assert document["moved"] == {
        "cluster": "zk:2181/spark-ha/s3",
        "place": "s3://bucket/s3",
        "move_id": "move-1",
        "run": run,
        "by": "me",
        "at": "2026-11-21T12:00:00Z",
    }


def test_a_watch_shows_the_jobs_again_until_ctrl_c(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second look sees what was made after the first one."""
    looks: list[float] = []

    def wait(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt
        create_job(coordinator, job(config, coordinator, "late").paths)

    # In this module only: a thread of another test may sleep as well, and would get the interrupt.
    monkeypatch.setattr(session, "sleep", wait)

    code, out, _ = spark_ha("job", "list", "--watch", "3")

    assert (code, looks) == (0, [3.0, 3.0])
    assert out.splitlines()[0] == "no job is known in this cluster"
    assert "late" in out
