"""What is known of the queries that a working directory was made with, before the script has started them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.working_records import StartedQueries, StartedQueryRecord
from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan, Verdict
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.files import read
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.ending.stop_job import undrainable
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery, expected_queries
from airflow_provider_ha.errors import CheckpointError
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.local_store import LocalStore


OLD = QuerySink(kind=SinkKind.FILE, format="json", path="/data/old", max_batch=7)
NEW = QuerySink(kind=SinkKind.FILE, format="json", path="/data/new")


def directory_of(root: Path, name: str, planned: int, committed: int) -> Path:
    for log, last in (("offsets", planned), ("commits", committed)):
        (root / name / log).mkdir(parents=True)
        for batch in range(last + 1):
            (root / name / log / str(batch)).touch()
    return root / name


def origin_of(
    root: Path, kind: OriginKind, *, same_output: bool = True, sink_gone: bool = False, planned: bool = True
) -> Origin:
    query = QueryPlan(batch=3, sink=OLD, sink_gone=sink_gone)
    plan = RestorePlan(
        job_id="j",
        source_job="j",
        source="checkpoint",
        source_id="1",
        directory="pins/1",
        verdict=Verdict.SAFE,
        queries={"late": query},
        age_seconds=0,
        created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        same_output=same_output,
    )
    return Origin(kind, "live/e2", LocalTree(root), plan=plan if planned else None, sinks=LocalTree(root / "pin"))


def the_only(origin: Origin, started: StartedQueries | None = None) -> RestingQuery:
    (query,) = expected_queries(origin, started or StartedQueries())
    return query


def test_the_order_is_that_of_the_first_start_and_names_without_a_directory_are_left_out(tmp_path: Path) -> None:
    for name in ("a", "m", "z"):
        directory_of(tmp_path, name, 1, 1)
    noted = tuple(StartedQueryRecord(name=name, sink=NEW) for name in ("z", "never-planned", "a"))
    origin = origin_of(tmp_path, OriginKind.RECOVERY, planned=False)

    found = expected_queries(origin, StartedQueries(queries=noted))

    assert [(query.name, query.sink) for query in found] == [("z", NEW), ("a", NEW), ("m", None)]


def test_what_the_run_has_started_itself_counts_more_than_the_plan_of_its_restore(tmp_path: Path) -> None:
    directory_of(tmp_path, "late", 4, 3)
    started = StartedQueries(queries=(StartedQueryRecord(name="late", sink=NEW),))

    found = the_only(origin_of(tmp_path, OriginKind.RECOVERY), started)

    assert (found.sink, found.sink_log) == (NEW, LocalTree(Path("/data/new") / LOG))


def test_a_restored_query_writes_where_the_cut_says_until_its_script_starts_it(tmp_path: Path) -> None:
    directory_of(tmp_path, "late", 3, 3)

    found = the_only(origin_of(tmp_path, OriginKind.RESTORE))

    assert (found.sink, found.sink_log) == (OLD, LocalTree(Path("/data/old") / LOG))


def test_the_output_of_another_job_is_not_that_of_the_restored_one(tmp_path: Path) -> None:
    """A restore of its checkpoint would judge, and set aside, what the other job writes."""
    directory_of(tmp_path, "late", 3, 3)

    found = the_only(origin_of(tmp_path, OriginKind.RESTORE, same_output=False))

    assert found.sink == QuerySink(kind=SinkKind.FILE, format="json")
    assert found.sink_log == LocalTree(tmp_path / "pin" / "sinks" / "late" / LOG)


def test_the_log_of_an_output_that_is_gone_is_the_one_that_was_kept_with_the_cut(tmp_path: Path) -> None:
    directory_of(tmp_path, "late", 3, 3)

    found = the_only(origin_of(tmp_path, OriginKind.RESTORE, sink_gone=True))

    assert found.sink_log == LocalTree(tmp_path / "pin" / "sinks" / "late" / LOG)


def test_a_log_that_is_kept_elsewhere_is_read_there(tmp_path: Path) -> None:
    """Where a work area is no directory of this host."""
    area = LayeredWorkArea(LocalStore(tmp_path / "work", new=True))
    kept = area.create(f"{JobKeys('j').live}e2-x")
    kept.write("late/metadata", b"{}")
    kept.write("sinks/late/_spark_metadata/3", b"v1")
    origin = replace(origin_of(tmp_path, OriginKind.RESTORE, sink_gone=True), directory=kept, sinks=kept)

    log = the_only(origin).sink_log

    assert log is not None
    assert read(log.fresh(), "3") == b"v1"


def test_a_query_of_which_nothing_tells_where_it_writes_is_in_no_cut(tmp_path: Path) -> None:
    directory_of(tmp_path, "late", 3, 3)
    (found,) = expected_queries(origin_of(tmp_path, OriginKind.RECOVERY, planned=False), StartedQueries())

    with pytest.raises(CheckpointError, match="query 'late' has not been started yet"):
        found.sink_now()


@pytest.mark.parametrize(
    ("planned", "committed", "recorded_to", "pending"), [(3, 3, -1, False), (4, 3, -1, True), (3, 3, 5, True)]
)
def test_a_query_whose_sink_may_be_ahead_of_it_is_not_drained(
    tmp_path: Path, planned: int, committed: int, recorded_to: int, pending: bool
) -> None:
    directory = directory_of(tmp_path, "late", planned, committed)

    assert bool(undrainable([RestingQuery("late", LocalTree(directory), OLD, None, recorded_to)])) is pending


def test_the_replay_of_a_restore_is_pending(tmp_path: Path) -> None:
    directory_of(tmp_path, "late", 3, 3)
    origin = origin_of(tmp_path, OriginKind.RESTORE)
    assert origin.plan is not None
    replay = (BatchEntry(batch=4, offsets="v1"),)
    origin.plan.queries["late"] = origin.plan.queries["late"].model_copy(update={"replay": replay})

    assert the_only(origin).pending
