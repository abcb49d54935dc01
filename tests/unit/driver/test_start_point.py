"""What a driver makes its working directory of, with real directories and no Spark."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan, Verdict
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import read_query_id
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.checkpointing.start_point import check_facts, prepare_start
from airflow_provider_ha.driver.queries.query_naming import StartLedger
from airflow_provider_ha.errors import CheckpointMissingError, RestoreRefusedError
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.model import Generation, Run, StartKind, StartPoint
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.local_store import LocalStore
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint, write_batch


NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
PATHS = ClusterPaths("spark-ha", "default").job("j")
FIRST, SECOND = JobKeys("j").working_directory(1, "a"), JobKeys("j").working_directory(2, "b")


def start(root: Path, plan: RestorePlan, previous: Generation | None = None, key: str = FIRST) -> Origin:
    store = LocalStore(root / "store")
    sha256, size = put_blob(store, plan.to_bytes())
    begin = StartPoint(kind=StartKind.CHECKPOINT, source_id="1", plan=Blob(sha256=sha256, size=size))
    run = Run(number=1, graph=Blob(sha256="0" * 64, size=1), start=begin, request_id="r", created_at=NOW)
    return prepare_start(store, LinkedWorkArea(root / "work"), PATHS, run, previous, key=key)


def start_from_plan(root: Path, *, same_output: bool) -> Origin:
    """Start from a plan whose source's output has gone on by one batch since it was made."""
    source_job, out = "j" if same_output else "another", root / "out"
    pin = JobKeys(source_job).pin(1, 1)
    (root / "work" / pin / "q").mkdir(parents=True)
    (root / "work" / pin / "q" / "metadata").write_text('{"id":"00000000-0000-4000-8000-000000000000"}')
    (out / "_spark_metadata").mkdir(parents=True)
    (out / "_spark_metadata" / "0").write_text("v1")
    sink = QuerySink(kind=SinkKind.FILE, format="json", path=str(out), max_batch=-1)
    plan = RestorePlan(
        job_id="j",
        source_job=source_job,
        source="checkpoint",
        source_id="1",
        directory=pin,
        verdict=Verdict.SAFE,
        queries={"q": QueryPlan(batch=-1, sink=sink)},
        age_seconds=0,
        created_at=NOW,
        same_output=same_output,
    )
    return start(root, plan)


def test_restore_into_an_output_of_its_own_does_not_mind_what_the_source_writes_meanwhile(tmp_path: Path) -> None:
    """The source's stream goes on while it is copied: looked at, its output would refuse every copy."""
    origin = start_from_plan(tmp_path, same_output=False)

    assert origin.kind is OriginKind.RESTORE
    assert (origin.directory / "q").has("metadata")


def test_restore_into_the_same_output_is_refused_when_somebody_wrote_to_it_meanwhile(tmp_path: Path) -> None:
    with pytest.raises(RestoreRefusedError, match="Plan the restore again"):
        start_from_plan(tmp_path, same_output=True)

    assert not (tmp_path / "work" / FIRST).exists()


def test_the_next_epoch_knows_what_the_one_before_has_started(tmp_path: Path) -> None:
    work = tmp_path / "work"
    checkpoint(work / FIRST / QUERY)
    ledger = StartLedger(LocalTree(work / FIRST))
    ledger.note(QUERY, QuerySink(kind=SinkKind.FOREACH_BATCH))
    ledger.complete()
    run = Run(number=1, graph=Blob(sha256="0" * 64, size=1), start=StartPoint(), request_id="r", created_at=NOW)
    previous = Generation(run=1, epoch=1, directory=FIRST)

    origin = prepare_start(LocalStore(tmp_path / "store"), LinkedWorkArea(work), PATHS, run, previous, key=SECOND)

    before = StartLedger(origin.directory).before
    assert (set(before.sinks), before.complete) == ({QUERY}, True)


def test_the_logs_of_the_restored_sinks_outlive_the_pin_that_they_were_kept_in(tmp_path: Path) -> None:
    """A script may start the query when the pin is gone: its new output needs the old log."""
    pin = tmp_path / "work" / JobKeys("another").pin(1, 1)
    kept = pin / "sinks" / "q" / "_spark_metadata"
    kept.mkdir(parents=True)
    (kept / "0").write_text("v1")
    first = start_from_plan(tmp_path, same_output=False)
    shutil.rmtree(pin)
    assert first.plan is not None

    second = start(tmp_path, first.plan, Generation(run=1, epoch=1, directory=FIRST), SECOND)

    log = second.sink_log("q")
    assert log is not None
    assert log.read("0") == b"v1"
    assert str(log).startswith(f"{second.directory}/")


def test_an_adopted_checkpoint_is_refused_after_its_query_has_continued(tmp_path: Path) -> None:
    """Between the plan and the driver's start a user has started it where it was: two would write to one output."""
    elsewhere = checkpoint(tmp_path / "elsewhere" / QUERY)
    adopted = AdoptedCheckpoint(
        path=str(elsewhere), query_id=read_query_id(LocalTree(elsewhere)), planned=2, committed=2
    )
    plan = RestorePlan(
        job_id="j",
        source_job="j",
        source="path",
        source_id=str(elsewhere),
        directory="",
        verdict=Verdict.SAFE,
        queries={QUERY: QueryPlan(batch=2, sink=QuerySink(kind=SinkKind.OTHER))},
        age_seconds=0,
        created_at=NOW,
        adopted={QUERY: adopted},
    )
    write_batch(elsewhere, 3)

    with pytest.raises(RestoreRefusedError, match="has changed since the restore was planned"):
        start(tmp_path, plan)


def test_a_lost_epoch_without_its_directory_is_not_begun_from_nothing(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    run = Run(number=1, graph=Blob(sha256="0" * 64, size=1), start=StartPoint(), request_id="r", created_at=NOW)
    previous = Generation(run=1, epoch=1, directory=FIRST)

    with pytest.raises(CheckpointMissingError, match=r"directory of epoch 1 .* is gone.*latest checkpoint"):
        prepare_start(LocalStore(tmp_path / "store"), LinkedWorkArea(work), PATHS, run, previous, key=SECOND)

    assert not (work / SECOND).exists()


def test_a_new_run_does_not_need_the_directory_of_the_run_before(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    run = Run(number=2, graph=Blob(sha256="0" * 64, size=1), start=StartPoint(), request_id="r", created_at=NOW)
    previous = Generation(run=1, epoch=1, directory=FIRST)

    origin = prepare_start(LocalStore(tmp_path / "store"), LinkedWorkArea(work), PATHS, run, previous, key=SECOND)

    assert origin.kind is OriginKind.FRESH


def table_with(directory: Path, batch: int) -> RestorePlan:
    """Return a plan of query ``q`` whose table had batch 3 of it; the table has *batch* by now."""
    cut, log = directory / "cut" / "q", directory / "table" / "_delta_log"
    cut.mkdir(parents=True)
    (cut / "metadata").write_text('{"id":"00000000-0000-4000-8000-000000000000"}')
    log.mkdir(parents=True)
    entry = {"txn": {"appId": "00000000-0000-4000-8000-000000000000", "version": batch, "lastUpdated": 0}}
    (log / f"{0:020}.json").write_text(json.dumps(entry) + "\n")
    sink = QuerySink(kind=SinkKind.OTHER, format="delta", table=str(directory / "table"), max_batch=3)
    return RestorePlan(
        job_id="j",
        source_job="j",
        source="checkpoint",
        source_id="1",
        directory="d",
        verdict=Verdict.SAFE,
        queries={"q": QueryPlan(batch=3, sink=sink)},
        age_seconds=0,
        created_at=NOW,
    )


def test_a_table_that_has_a_batch_more_than_the_plan_knew_refuses_the_restore(tmp_path: Path) -> None:
    check_facts(table_with(tmp_path / "as planned", 3), LocalTree(tmp_path / "as planned" / "cut"), StorageAccess())

    with pytest.raises(RestoreRefusedError, match=r"table\) has batches up to 4; the restore was planned with 3"):
        check_facts(table_with(tmp_path / "since", 4), LocalTree(tmp_path / "since" / "cut"), StorageAccess())


def test_a_table_that_cannot_be_read_now_keeps_no_restore_from_its_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan = table_with(tmp_path, 4)
    (tmp_path / "table" / "_delta_log" / f"{0:020}.json").write_text("{")

    check_facts(plan, LocalTree(tmp_path / "cut"), StorageAccess())

    assert "the restore continues, but the content of table" in caplog.text
