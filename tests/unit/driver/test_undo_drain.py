"""What an unfinished drain wrote is taken back, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.directories.sinks import FileSinkLog
from airflow_provider_ha.driver.origin import Origin, OriginKind
from airflow_provider_ha.driver.undo_drain import undo_drain


def stands_at(directory: Path, planned: int) -> None:
    (directory / "offsets").mkdir(parents=True)
    for batch in range(planned + 1):
        (directory / "offsets" / str(batch)).touch()


@pytest.mark.parametrize(("planned", "left"), [(2, 2), (3, 3)], ids=["of-the-drain", "of-an-ordinary-batch"])
def test_only_a_batch_that_was_planned_in_the_drain_alone_is_set_aside(tmp_path: Path, planned: int, left: int) -> None:
    stands_at(tmp_path / "e2" / "q", planned)
    stands_at(tmp_path / "e1.drain" / "q", 3)
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(4):
        (log / str(batch)).write_text("v1")

    undo_drain(Origin(OriginKind.RECOVERY, "e2", tmp_path / "e2", drain=tmp_path / "e1.drain"), "q", tmp_path / "out")

    assert FileSinkLog(tmp_path / "out").max_batch() == left
