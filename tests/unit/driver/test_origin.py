"""What a driver knows about the past of its working directory."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.model import QueryPlan, QuerySink, RestorePlan, SinkKind, Verdict
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.errors import RestoreRefusedError


ADOPTED = AdoptedCheckpoint(path="/data/windows", query_id="id", planned=3, committed=2)


def origin(*, adopted: bool, sink: QuerySink) -> Origin:
    plan = RestorePlan(
        job_id="j",
        source_job="j",
        source="path" if adopted else "savepoint",
        source_id="s",
        directory="",
        verdict=Verdict.SAFE,
        queries={"windows": QueryPlan(batch=2, sink=sink)},
        age_seconds=0,
        created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        adopted={"windows": ADOPTED} if adopted else {},
    )
    return Origin(
        OriginKind.RESTORE,
        "live/e1-a",
        LocalTree(Path("/ha/live/e1-a")),
        plan=plan,
        sinks=LocalTree(Path("/ha/savepoint")),
    )


NAMED = QuerySink(kind=SinkKind.FILE, path="/data/out")
UNNAMED = QuerySink(kind=SinkKind.OTHER)


def test_a_query_without_an_adopted_checkpoint_is_refused_beside_one_that_has_it() -> None:
    """It would begin from nothing, and write again what its checkpoint says it has written."""
    made = origin(adopted=True, sink=NAMED)

    made.check_adopted("windows")
    with pytest.raises(RestoreRefusedError, match="starts query 'window'"):
        made.check_adopted("window")


def test_a_query_that_is_new_in_a_restored_run_begins_from_nothing() -> None:
    origin(adopted=False, sink=NAMED).check_adopted("another")


@pytest.mark.parametrize(
    ("adopted", "sink", "log"),
    [
        (False, NAMED, Path("/ha/savepoint/sinks/windows/_spark_metadata")),
        (True, NAMED, Path("/data/out/_spark_metadata")),
        (True, UNNAMED, None),
    ],
)
def test_a_new_output_is_seeded_from_where_the_old_log_lies(adopted: bool, sink: QuerySink, log: Path | None) -> None:
    assert origin(adopted=adopted, sink=sink).sink_log("windows") == (LocalTree(log) if log is not None else None)


def test_a_working_directory_that_nothing_was_restored_into_has_no_log_of_a_sink() -> None:
    directory = Path("/ha/live/e1-a")
    assert Origin(OriginKind.FRESH, "live/e1-a", LocalTree(directory), directory.as_uri()).sink_log("windows") is None
