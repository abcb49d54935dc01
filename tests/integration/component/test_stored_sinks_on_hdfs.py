"""Files on HDFS, exactly once, with Spark's own manager: a rename there creates an entry once, or not at all.

Each shape on one side of the entry; both sides of all sinks are ``make proof SUITE=sinks``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_recovery
from airflow_provider_ha.checkpoints.sinks.file_sink import FileSink
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, OFFSETS
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.testing.waiting import wait_until
from java.build_component import build
from tests.support.hdfs.hdfs_server import Hdfs
from tests.support.spark.stored_sinks import QUERY, Request, epoch, truth, write_input


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

JOB = JobKeys("j")
FIRST, NEXT = JOB.working_directory(1, "x"), JOB.working_directory(2, "y")
BATCH = 5  # 5.compact: every third entry is
POLL = 0.002


@dataclass
class Stage:
    """One query, and its output on HDFS."""

    hdfs: Hdfs
    root: Path
    request: Request

    @property
    def sink(self) -> FileSink:
        return FileSink(self.request.output, StorageAccess(hdfs=self.hdfs.options()))

    def recover(self) -> Request:
        area = LinkedWorkArea(self.root / "work")
        fenced = area.fence(FIRST)
        area.create(NEXT)
        prepare_recovery(area, fenced, NEXT)
        return replace(self.request, checkpoint=str(self.root / "work" / NEXT / QUERY))


@pytest.fixture
def stage(hdfs: Hdfs, tmp_path: Path, request: pytest.FixtureRequest) -> Stage:
    write_input(tmp_path / "input")
    LinkedWorkArea(tmp_path / "work").create(FIRST)
    asked = Request(
        shape=str(request.param),
        input=str(tmp_path / "input"),
        checkpoint=str(tmp_path / "work" / FIRST / QUERY),
        output=f"{hdfs.new_root()}/out",
        jars=str(build()),
        conf={"spark.hadoop.dfs.replication": "1", "spark.sql.streaming.checkpointFileManagerClass": ""},
        hdfs=hdfs.options().model_dump(),
    )
    return Stage(hdfs, tmp_path, asked)


def recovered(stage: Stage) -> None:
    with epoch(stage.recover(), stage.root, "next") as running:
        seen = running.answer()
    assert seen["rows"] == truth()
    assert stage.sink.reached() == 7


def planned(stage: Stage) -> bool:
    return (Path(stage.request.checkpoint) / OFFSETS / str(BATCH)).exists()


@pytest.mark.parametrize("stage", ["json", pytest.param("partitioned", marks=pytest.mark.hours)], indirect=True)
def test_a_driver_that_is_killed_before_the_sinks_entry_is_recovered_exactly_once(stage: Stage) -> None:
    with epoch(stage.request, stage.root, "first") as running:
        wait_until(lambda: planned(stage), timeout=400, what="the batch", interval=POLL)
        running.kill()
    assert stage.sink.reached() == BATCH - 1

    recovered(stage)


@pytest.mark.parametrize("stage", ["parquet"], indirect=True)
@pytest.mark.hours
def test_a_query_that_ends_between_the_sinks_entry_and_its_commit_is_recovered_exactly_once(stage: Stage) -> None:
    commit = Path(stage.request.checkpoint) / COMMITS / str(BATCH)
    with epoch(stage.request, stage.root, "first") as running:
        wait_until(lambda: planned(stage), timeout=400, what="the batch", interval=POLL)
        commit.mkdir()  # so that Spark cannot write it
        assert running.process.wait(300) != 0
    commit.rmdir()
    entry = stage.sink.digest(BATCH)
    assert stage.sink.reached() == BATCH

    recovered(stage)

    assert stage.sink.digest(BATCH) == entry
