"""The collector on a directory, on S3 and on HDFS: one job that goes on, is taken over and is collected."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.layered.garbage import (
    GarbageReason,
    GarbageSearch,
    note_needs,
    remove,
    time_of,
)
from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.layered.needs import is_table
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.storage.hdfs_store import HdfsStore
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.s3_store import S3Store
from tests.support.checkpoints.collected import FIRST, KEPT, SECOND, THIRD
from tests.support.checkpoints.executed import JOB, execute, take_over
from tests.support.hdfs.hdfs_server import Hdfs
from tests.support.s3.s3_server import S3Access
from tests.support.spark.recorded_job import QUERY


# The cached job is made by Spark when it is not there yet.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(params=["directory", *(pytest.param(name, marks=pytest.mark.long) for name in ("s3", "hdfs"))])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    """An empty store."""
    if request.param == "directory":
        yield LocalStore(tmp_path / "root", new=True)
    elif request.param == "hdfs":
        hdfs: Hdfs = request.getfixturevalue("hdfs")
        yield HdfsStore(hdfs.new_root(), hdfs.options())
    else:
        real: S3Access = request.getfixturevalue("real")
        yield S3Store(f"s3://{real.new_bucket()}/prefix", real.options())


def search(files: ObjectStore) -> GarbageSearch:
    """Search as if every file were old: their times are the storage's own."""
    found = GarbageSearch(files, JOB.live, {}, SECOND, time_of(files) + 10_000, kept=KEPT)
    found.grace = timedelta(hours=-1)
    for _ in found.steps():
        pass
    return found


def test_a_job_that_was_taken_over_is_collected_and_goes_on(files: ObjectStore) -> None:
    area = LayeredWorkArea(files)
    execute(area, files.write, FIRST, 4)
    take_over(area, FIRST, SECOND)
    execute(area, files.write, SECOND, 9)
    late = f"{FIRST}/{QUERY}/state/0/0/20_late.zip"
    files.write(late, b"of a zombie")
    area.remove(FIRST)

    found = search(files)
    gone = {item.key for item in remove(files, found.garbage, lambda: None)}

    assert late in gone
    assert {item.why for item in found.garbage} == {GarbageReason.OVER, GarbageReason.PURGED}
    here = LayeredWorkArea(files).tree(SECOND) / QUERY
    assert (progress(here), verify(here).startable) == (Progress(9, 9), True)
    assert all(files.info(entry.place) for name, entry in here.entries().items() if not is_table(name))
    execute(area, files.write, SECOND, 10)
    assert verify(LayeredWorkArea(files).tree(SECOND) / QUERY).startable
    note_needs(files, search(files).known, lambda: None)
    take_over(area, SECOND, THIRD)
    third = LayeredWorkArea(files).tree(THIRD) / QUERY
    assert "commits/3" in here.entries()
    assert "commits/3" not in third.entries()
    assert verify(third).startable
    assert abs(time_of(files) - time.time() * 1000) < 60_000
