"""A checkpoint that ended its job shows that nothing came after it: only while no later run or epoch has worked."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointKind, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.restore.query_records import LastDirectory, read_records
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from tests.support.clusters.jobs_helpers import NOON


CUT = QueryCut(batch=9, sink=QuerySink(kind=SinkKind.FOREACH_BATCH))
CHOSEN = RestoreSource("savepoint", "s", "savepoints/s", {"q": CUT}, 3, 5, "graph", "4.2.0", NOON)
STOPPED = Checkpoint(
    job_id="orders",
    number=4,
    run=3,
    epoch=5,
    reason=CheckpointKind.STOP,
    created_at=NOON,
    queries={"q": CUT},
    directory="live/e5-x",
    pin="pins/4",
    graph="graph",
    spark_version="4.2.0",
)


@pytest.mark.parametrize(("last_run", "complete"), [(None, True), (3, True), (4, False)])
def test_of_a_deleted_job_a_stop_is_the_end_only_of_its_last_run(last_run: int | None, complete: bool) -> None:
    found = read_records(CHOSEN, [STOPPED], None, last_run)

    assert found["q"].complete is complete


@pytest.mark.parametrize(("epoch", "complete"), [(5, True), (6, False)])
def test_when_the_last_directory_is_gone_a_stop_is_the_end_only_of_its_epoch(
    tmp_path: Path, epoch: int, complete: bool
) -> None:
    gone = LastDirectory(LinkedWorkArea(tmp_path), f"jobs/orders/checkpoints/live/e{epoch}-x", epoch, 3)

    assert read_records(CHOSEN, [STOPPED], gone)["q"].complete is complete


@pytest.mark.parametrize(
    ("last_run", "unrecorded", "known"), [(None, False, True), (3, False, True), (3, True, False), (4, False, False)]
)
def test_a_directory_of_the_next_life_says_nothing_of_the_one_before(
    tmp_path: Path, last_run: int | None, unrecorded: bool, known: bool
) -> None:
    key = "jobs/orders/checkpoints/live/e7-x"
    (tmp_path / key).mkdir(parents=True)
    last = LastDirectory(LinkedWorkArea(tmp_path), key, 7, 4)

    found = read_records(CHOSEN, [STOPPED], last, last_run, unrecorded=unrecorded)["q"]

    assert found.complete is known
    assert found.epochs == (frozenset({7}) if known else frozenset({0, 7}))
