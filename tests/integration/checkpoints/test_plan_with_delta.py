"""What a Delta table has of a query, of a table that Spark wrote; and what Delta does with a batch that it has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.restore.plan_execution import decide_start
from airflow_provider_ha.checkpoints.sinks.table_sinks import DeltaLog
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import read_query_id


pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[3]
IVY = ROOT / "build" / "test-cache" / "ivy"
PACKAGES = "io.delta:delta-spark_4.2_2.13:4.4.0"  # built for the release of Spark that the tests have
BATCHES, LAST = 5, 4
FRESH = "0c0ffee0-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """Return where the steps worked, and what came of each."""
    place = tmp_path_factory.mktemp("delta")
    first, table = str(place / "first"), str(place / "table")
    lost = {"copy_of": first, "forget": LAST}
    steps: list[dict[str, Any]] = [
        {"checkpoint": first, "table": table, "batches": BATCHES},
        {"checkpoint": str(place / "straight"), "table": table, **lost},
        {"checkpoint": str(place / "replayed"), "table": table, "sink": "noop", **lost},
        {"checkpoint": str(place / "replayed"), "table": table},
        {"checkpoint": str(place / "fresh"), "table": table, "query_id": FRESH, **lost},
    ]
    path = place / "steps.json"
    path.write_text(json.dumps(steps), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "apps" / "delta_rows.py"), str(path), str(IVY), PACKAGES],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    if "unresolved dependency" in ran.stderr:
        pytest.skip("Delta's jars could not be resolved")
    assert ran.returncode == 0, ran.stderr[-4000:]
    return place, json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.hours
def test_the_table_names_the_last_batch_of_the_query(done: tuple[Path, list[Any]]) -> None:
    place, (first, *_) = done
    log, query = DeltaLog(place / "table"), read_query_id(LocalTree(place / "first"))

    assert first == {"error": None, "rows": 5 * BATCHES, "distinct": 5 * BATCHES}
    # One more batch came with the replayed copy, which has the same id; the fresh one is counted separately.
    assert (log.exists(), log.last_batch(query), log.last_batch(FRESH)) == (True, LAST + 1, LAST)


@pytest.mark.hours
def test_a_stateful_query_whose_batch_the_table_has_cannot_be_started_as_it_is(done: tuple[Path, list[Any]]) -> None:
    """Delta skips the batch without executing it, so no state is written (spark-facts section 0)."""
    _, (first, straight, *_) = done

    assert straight["error"] is not None
    assert straight["rows"] == first["rows"]


def test_replayed_into_a_sink_that_does_nothing_it_goes_on_without_a_gap_or_a_repeat(
    done: tuple[Path, list[Any]],
) -> None:
    place, (first, _, replayed, continued, _) = done

    (step,) = decide_start(Progress(LAST, LAST - 1), (), LAST, query="q")
    assert step.into == "noop"
    assert (replayed["error"], replayed["rows"]) == (None, first["rows"])
    assert continued == {"error": None, "rows": first["rows"] + 5, "distinct": first["rows"] + 5}
    assert progress(LocalTree(place / "replayed")) == Progress(LAST + 1, LAST + 1)


@pytest.mark.hours
def test_under_a_fresh_id_the_table_takes_the_batch_again(done: tuple[Path, list[Any]]) -> None:
    _, (*_, continued, fresh) = done

    assert fresh == {"error": None, "rows": continued["rows"] + 5, "distinct": continued["distinct"]}


@pytest.mark.hours
def test_a_checkpoint_of_the_log_that_delta_wrote_is_read_where_its_commits_are_gone(
    done: tuple[Path, list[Any]],
) -> None:
    place, _ = done
    log = place / "table" / "_delta_log"
    checkpoints = sorted(log.glob("*.checkpoint*"))
    newest = int(checkpoints[-1].name.split(".")[0])
    for path in log.glob("*.json"):
        if path.stem.isdigit() and int(path.stem) <= newest:
            path.rename(path.with_suffix(".gone"))
    try:
        assert newest >= BATCHES - 2
        assert DeltaLog(place / "table").last_batch("another query") == -1
        assert DeltaLog(place / "table").last_batch(read_query_id(LocalTree(place / "first"))) == LAST + 1
    finally:
        for path in log.glob("*.gone"):
            path.rename(path.with_suffix(".json"))
