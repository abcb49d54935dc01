"""What an unfinished drain wrote is taken back, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.connectors.file_sink import FileSink
from airflow_provider_ha.checkpoints.connectors.file_sink_log import FileSinkLog
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.driver.origin import Origin, OriginKind
from airflow_provider_ha.driver.resting import RestingQuery
from airflow_provider_ha.driver.undo_drain import undo_drain, undo_drains


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

    undo_drains(origin, [RestingQuery("q", LocalTree(tmp_path / "e2" / "q"), sink=None, sink_log=tmp_path / "out")])

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
