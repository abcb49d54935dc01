"""What an unfinished drain wrote is taken back, and nothing else."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.file_sink import FileSink
from airflow_provider_ha.checkpoints.sinks.file_sink_log import FileSinkLog
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery, undo_drain, undo_drains
from airflow_provider_ha.errors import RestoreRefusedError


def stands_at(directory: Path, planned: int) -> None:
    (directory / "offsets").mkdir(parents=True)
    for batch in range(planned + 1):
        (directory / "offsets" / str(batch)).touch()


@pytest.mark.parametrize(("planned", "left"), [(2, 2), (3, 3)], ids=["of-the-drain", "of-an-ordinary-batch"])
def test_only_a_batch_that_was_planned_in_the_drain_alone_is_set_aside(tmp_path: Path, planned: int, left: int) -> None:
    origin = after_a_drain(tmp_path, planned)

    undo_drain(origin, "q", FileSink(str(tmp_path / "out")))

    assert FileSinkLog(tmp_path / "out").max_batch() == left


def test_it_is_taken_back_for_queries_that_the_script_has_not_started_yet(tmp_path: Path) -> None:
    """A stop that comes first would drain into a sink that has the batch already."""
    origin = after_a_drain(tmp_path, planned=2)

    sink = QuerySink(kind=SinkKind.FILE, path=str(tmp_path / "out"))
    undo_drains(origin, [RestingQuery("q", LocalTree(tmp_path / "e2" / "q"), sink)])

    assert FileSinkLog(tmp_path / "out").max_batch() == 2


def after_a_drain(tmp_path: Path, planned: int) -> Origin:
    """Return the origin of an epoch that stands at *planned*, after a drain whose batch 3 is in the sink."""
    stands_at(tmp_path / "e2" / "q", planned)
    stands_at(tmp_path / "e1.drain" / "q", 3)
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(4):
        (log / str(batch)).write_text("v1")

    return Origin(OriginKind.RECOVERY, "e2", LocalTree(tmp_path / "e2"), drain=LocalTree(tmp_path / "e1.drain"))


@pytest.mark.parametrize("dead", [True, False])
def test_on_storage_without_renames_it_is_taken_back_when_the_driver_that_wrote_it_is_dead(
    tmp_path: Path, dead: bool
) -> None:
    """A request that is on its way would write the entry again, and the next driver skip its own batch."""

    class Stored(FileSink):
        needs_proof = True

    origin = replace(after_a_drain(tmp_path, planned=2), writers_dead=dead)

    with nullcontext() if dead else pytest.raises(RestoreRefusedError, match="not proven dead"):
        undo_drain(origin, "q", Stored(str(tmp_path / "out")))

    assert FileSinkLog(tmp_path / "out").max_batch() == (2 if dead else 3)
