"""Working directory on layered storage, its past, and names that a script may start."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.work_area import Successor
from airflow_provider_ha.checkpoints.areas.working_records import StartedQueries, StartedQueryRecord
from airflow_provider_ha.checkpoints.model import QuerySink, QuerySources, SinkKind
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan, Verdict
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, fence_at, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.checkpointing.start_point import FallBack, prepare_start, start_from_fallback
from airflow_provider_ha.driver.queries.query_naming import StartLedger, check_new_name
from airflow_provider_ha.errors import ApplicationRefusedError, RestoreRefusedError
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.model import Fallback, Generation, Run, StartKind, StartPoint
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.storage.local_store import LocalStore
from tests.support.checkpoints.layered_files import FIRST, JOB, SECOND, THIRD, LayeredFiles
from tests.support.checkpoints.portable_helpers import QUERY


NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
PATHS = ClusterPaths("spark-ha", "default").job(JOB.job_id)
SINK = QuerySink(kind=SinkKind.FOREACH_BATCH)


@pytest.fixture
def job(tmp_path: Path) -> LayeredFiles:
    files = LayeredFiles(tmp_path / "work")
    files.run(FIRST)
    return files


def start(
    job: LayeredFiles,
    key: str,
    *,
    lost: str | None,
    plan: RestorePlan | None = None,
    before: int = 1,
    now: int = 1,
    refusal: str = "",
    fall_back: FallBack | None = None,
) -> Origin:
    store = LocalStore(job.root.parent / "store")
    begin = StartPoint()
    if plan is not None:
        sha256, size = put_blob(store, plan.to_bytes())
        begin = StartPoint(kind=StartKind.CHECKPOINT, source_id="1", plan=Blob(sha256=sha256, size=size))
    run = Run(number=now, graph=Blob(sha256="0" * 64, size=1), start=begin, request_id="r", created_at=NOW)
    previous = Generation(run=before, epoch=1, directory=lost) if lost is not None else None
    by = Successor(2, "s-2")
    return prepare_start(store, job.area, PATHS, run, previous, key=key, by=by, refusal=refusal, fall_back=fall_back)


def test_the_next_epoch_goes_on_with_the_planned_batch_and_the_old_driver_does_not(job: LayeredFiles) -> None:
    job.plan(FIRST, 3)

    origin = start(job, SECOND, lost=FIRST)

    assert (origin.kind, origin.location) == (OriginKind.RECOVERY, job.area.uri(SECOND))
    assert progress(origin.directory / QUERY) == Progress(3, 2)
    record = fence_at(job.area.tree(FIRST) / QUERY, "commits/3")
    assert record is not None
    assert (record.epoch, record.submission) == (2, "s-2")


def test_losses_in_a_row_lose_no_batch_and_no_record(job: LayeredFiles) -> None:
    StartLedger(job.area.tree(FIRST)).note(QUERY, SINK)
    second = start(job, SECOND, lost=FIRST)
    job.commit(SECOND, 3)

    third = start(job, THIRD, lost=SECOND)

    assert progress(third.directory / QUERY) == Progress(3, 3)
    assert [entry.batch for entry in third.carried[QUERY]] == [0, 1, 2, 3]
    assert StartLedger(second.directory).names == StartLedger(third.directory).names == {QUERY}


def test_a_takeover_that_died_half_way_is_made_again_elsewhere(job: LayeredFiles) -> None:
    start(job, SECOND, lost=FIRST)  # made, and never current: its leader died before it had written that

    origin = start(job, THIRD, lost=FIRST)

    assert progress(origin.directory / QUERY) == Progress(2, 2)


def plan_of(directory: str, *, batch: int) -> RestorePlan:
    return RestorePlan(
        job_id=JOB.job_id,
        source_job=JOB.job_id,
        source="checkpoint",
        source_id="1",
        directory=directory,
        verdict=Verdict.SAFE,
        queries={QUERY: QueryPlan(batch=batch, sink=SINK)},
        age_seconds=0,
        created_at=NOW,
        same_output=True,
    )


def test_a_directory_that_spark_refused_is_left_for_a_cut_of_it(job: LayeredFiles) -> None:
    plan = plan_of(FIRST, batch=1)
    fallback = Fallback(
        source=plan.name,
        plan=Blob(sha256="0" * 64, size=1),
        lost=FIRST,
        reason="Spark refused it",
        epoch=2,
        cut={QUERY: 1},
        again={QUERY: 1},
        at=NOW,
    )

    def fall_back(*_: object) -> Origin:
        run = Run(number=1, graph=Blob(sha256="0" * 64, size=1), start=StartPoint(), request_id="r", created_at=NOW)
        return start_from_fallback(job.area, PATHS, run, (fallback, plan), key=THIRD)

    origin = start(job, SECOND, lost=FIRST, refusal="EOFException", fall_back=fall_back)

    assert (origin.kind, progress(origin.directory / QUERY)) == (OriginKind.FALLBACK, Progress(1, 1))
    assert not job.files.names(f"{SECOND}/"), "no remains under the key that was not used"


def test_a_restore_starts_at_a_cut_of_a_directory_that_went_on(job: LayeredFiles) -> None:
    """A retained checkpoint is a directory and a batch: nothing was pinned."""
    origin = start(job, SECOND, lost=FIRST, plan=plan_of(FIRST, batch=1), now=2)

    assert (origin.kind, progress(origin.directory / QUERY)) == (OriginKind.RESTORE, Progress(1, 1))
    assert (origin.directory / QUERY).names("offsets") == ["0", "1"]


def before(*names: str, complete: bool = True) -> StartedQueries:
    return StartedQueries(queries=tuple(StartedQueryRecord(name=name, sink=SINK) for name in names), complete=complete)


def test_a_name_that_changes_with_every_start_is_refused_after_a_loss() -> None:
    with pytest.raises(
        ApplicationRefusedError, match="it had 'a', 'q_1', and 'q_1' has not been started again"
    ) as all_:
        check_new_name("q_2", before("a", "q_1"), expected=["a", "q_1"], begun=["a"])

    assert "allow_new_queries" in all_.value.next_step


@pytest.mark.parametrize(
    ("known", "expected", "begun", "complete"),
    [
        (["a"], ["a"], ["a"], True),  # the script was lost before it came to "b"
        (["a"], ["a"], [], False),  # the same, and its starts come in another order
        (["a"], ["a", "b"], [], True),  # the run was restored with it
        (["a", "b"], ["a"], [], True),  # it was lost before its first batch
        ([], [], [], False),  # the first epoch of a run
    ],
)
def test_a_query_that_only_comes_later_is_not_refused(
    known: list[str], expected: list[str], begun: list[str], complete: bool
) -> None:
    check_new_name("b", before(*known, complete=complete), expected=expected, begun=begun)


def test_the_next_epoch_reads_what_this_one_noted(tmp_path: Path) -> None:
    ledger = StartLedger(LocalTree(tmp_path))
    ledger.note("z", SINK)
    ledger.note("a", SINK)
    assert not StartLedger(LocalTree(tmp_path)).before.complete

    ledger.complete()

    assert StartLedger(LocalTree(tmp_path)).before == before("z", "a")
    assert ledger.before == StartedQueries()


def test_queries_for_a_look_at_rows_may_come_and_go() -> None:
    look = StartedQueryRecord(name="look_1", sink=QuerySink(kind=SinkKind.OTHER, format="console"))
    known = before("a").model_copy(update={"queries": (*before("a").queries, look), "complete": True})

    check_new_name("look_2", known, expected=["a", "look_1"], begun=["a"])


def test_a_topic_keeps_the_id_that_it_had_when_the_run_began_to_read_it(tmp_path: Path) -> None:
    ledger = StartLedger(LocalTree(tmp_path))
    ledger.note("a", SINK, QuerySources(brokers="kafka:9092"))
    ledger.note_topics("a", {"orders": "first"})

    again = StartLedger(LocalTree(tmp_path))
    again.note("a", SINK, QuerySources(brokers="other:9092"))
    again.note_topics("a", {"orders": "second", "late": "third"})

    assert again.sources("a") == QuerySources(brokers="other:9092", topics={"orders": "first", "late": "third"})


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


def test_a_query_without_an_adopted_checkpoint_is_refused_if_another_query_has_one() -> None:
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
