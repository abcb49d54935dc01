"""The log of a Delta table is read alike on a mounted file system, S3 and HDFS."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.sinks.table_sinks import DeltaLog
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import RestoreUnknownError
from tests.support.hdfs.hdfs_server import Hdfs
from tests.support.s3.s3_server import S3Access


MINE = "24845b55-79d9-45e9-9ff6-418f303faf6e"
Write = Callable[[str, bytes], None]
Table = tuple[DeltaLog, Write]


@pytest.fixture(params=["mounted", "s3", pytest.param("hdfs", marks=pytest.mark.long)])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """A table without a log, and what adds a file to that."""
    if request.param == "mounted":

        def put(name: str, data: bytes) -> None:
            path = tmp_path / "_delta_log" / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)

        return DeltaLog(tmp_path), put
    place, reach = _elsewhere(request)
    files = reach.files(place.replace("s3a:", "s3:"))
    return DeltaLog(place, reach), lambda name, data: files.create(f"_delta_log/{name}", data)


def _elsewhere(request: pytest.FixtureRequest) -> tuple[str, StorageAccess]:
    if request.param == "s3":
        s3: S3Access = request.getfixturevalue("real")
        return f"s3a://{s3.new_bucket()}/table", StorageAccess(s3=s3.options())
    hdfs: Hdfs = request.getfixturevalue("hdfs")
    return f"{hdfs.uri}/{new_id()}", StorageAccess(hdfs=hdfs.options())


def commit(version: int, batch: int, query: str = MINE) -> tuple[str, bytes]:
    action = {"txn": {"appId": query, "version": batch, "lastUpdated": 0}}
    return f"{version:020d}.json", json.dumps(action).encode() + b"\n"


def test_a_table_that_is_not_there_has_nothing(table: Table) -> None:
    log, _ = table

    assert (log.exists(), log.last_batch(MINE)) == (False, -1)


def test_the_newest_commit_that_names_the_query_decides(table: Table) -> None:
    log, write = table
    for version, batch, query in ((0, 6, MINE), (1, 7, MINE), (2, 99, "another")):
        write(*commit(version, batch, query))

    assert (log.exists(), log.last_batch(MINE)) == (True, 7)


def test_a_checkpoint_stands_for_the_commits_before_it(table: Table) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    log, write = table
    content = io.BytesIO()
    parquet.write_table(pa.table({"txn": [{"appId": MINE, "version": 7}]}), content)
    write(f"{10:020d}.checkpoint.parquet", content.getvalue())
    write(*commit(11, 99, "another"))

    assert log.last_batch(MINE) == 7


def test_a_commit_that_cannot_be_read_is_not_guessed(table: Table) -> None:
    log, write = table
    write(commit(0, 6)[0], b"{")

    with pytest.raises(RestoreUnknownError, match=r"00\.json cannot be read"):
        log.last_batch(MINE)
