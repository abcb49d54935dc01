"""What is recorded of a query's batches, when a later run began anew: the batches of which run count for which cut."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, CheckpointKind, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.restore.query_records import LastDirectory, QueryRecords, read_records
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.restore.timeline import RunStart
from tests.support.clusters.jobs_helpers import NOON


SINK = QuerySink(kind=SinkKind.FOREACH_BATCH)
STARTS = {1: RunStart(), 2: RunStart()}


def cut(batch: int, *recorded: int, timeline: str = "first") -> QueryCut:
    entries = tuple(BatchEntry(batch=each, offsets=f"{timeline} {each}", commits="v1\n{}") for each in recorded)
    return QueryCut(batch=batch, sink=SINK, entries=entries)


def payload(number: int, run: int, part: QueryCut) -> Checkpoint:
    """Checkpoint of a run that had one epoch, of the same number."""
    return Checkpoint(
        job_id="orders",
        number=number,
        run=run,
        epoch=run,
        reason=CheckpointKind.PERIODIC,
        created_at=NOON,
        queries={"q": part},
        directory=f"live/e{run}-x",
        pin=f"pins/{number}",
        graph="graph",
        spark_version="4.2.0",
    )


OF_FIRST = payload(4, 1, cut(9, 7, 8, 9, 10))
OF_SECOND = payload(5, 2, cut(2, 0, 1, 2, 3, timeline="second"))


def records(tmp_path: Path, of: Checkpoint, *payloads: Checkpoint, planned: int = -1) -> QueryRecords:
    """What is known for the cut of a payload; the directory of run 2 is there, and plans one batch or none."""
    chosen = RestoreSource(
        "checkpoint", str(of.number), str(of.pin), of.queries, of.run, of.epoch, "graph", "4.2.0", NOON
    )
    directory = tmp_path / "live" / "last" / "q" / "offsets"
    directory.mkdir(parents=True)
    if planned >= 0:
        (directory / str(planned)).write_text("cannot be read")
    last = LastDirectory(LinkedWorkArea(tmp_path), "live/last", 2, 2)
    return read_records(chosen, payloads, last, starts=STARTS)["q"]


def test_a_cut_is_left_by_a_later_run_whose_directory_alone_shows_a_batch(tmp_path: Path) -> None:
    found = records(tmp_path, OF_FIRST, OF_FIRST, planned=0)

    assert found.left_by == 2
    assert found.planned_to == 10, "the sink may have batch 10 of the first run"
    assert not found.history, "batch 10 does not follow what the second run gave the sink"


def test_a_cut_is_not_left_by_a_later_run_that_has_planned_nothing(tmp_path: Path) -> None:
    found = records(tmp_path, OF_FIRST, OF_FIRST)

    assert (found.left_by, sorted(found.history)) == (None, [7, 8, 9, 10])


def test_the_batches_of_the_first_run_do_not_count_for_a_cut_of_the_second(tmp_path: Path) -> None:
    found = records(tmp_path, OF_SECOND, OF_FIRST, OF_SECOND)

    assert (found.left_by, found.planned_to, sorted(found.history)) == (None, 3, [0, 1, 2, 3])
    assert found.epochs == frozenset({2})


def test_a_batch_whose_record_is_gone_was_planned_when_a_cut_is_after_it(tmp_path: Path) -> None:
    later = payload(6, 2, cut(5))

    assert records(tmp_path, OF_SECOND, OF_SECOND, later).planned_to == 5
