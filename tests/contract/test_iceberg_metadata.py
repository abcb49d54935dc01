"""The metadata of an Iceberg table is read alike on a mounted file system, S3 and HDFS."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.sinks.table_sinks import IcebergMetadata
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.clock import new_id
from tests.support.hdfs.hdfs_server import Hdfs
from tests.support.s3.s3_server import S3Access
from tests.unit.checkpoints.test_iceberg_metadata import MINE, OTHER, document, of


Write = Callable[[str, bytes], object]
Table = tuple[IcebergMetadata, Write]


@pytest.fixture(params=["mounted", "s3", pytest.param("hdfs", marks=pytest.mark.long)])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """A directory without a table, and what adds a file to its metadata."""
    if request.param == "mounted":
        (tmp_path / "metadata").mkdir()
        return IcebergMetadata(tmp_path), lambda name, data: (tmp_path / "metadata" / name).write_bytes(data)
    if request.param == "s3":
        s3: S3Access = request.getfixturevalue("real")
        place, reach = f"s3a://{s3.new_bucket()}/table", StorageAccess(s3=s3.options())
    else:
        hdfs: Hdfs = request.getfixturevalue("hdfs")
        place, reach = f"{hdfs.uri}/{new_id()}", StorageAccess(hdfs=hdfs.options())
    files = reach.files(place.replace("s3a:", "s3:"))
    return IcebergMetadata(place, reach), lambda name, data: files.create(f"metadata/{name}", data)


def test_a_table_that_is_not_there_has_nothing(table: Table) -> None:
    metadata, _ = table

    assert (metadata.exists(), metadata.last_batch(MINE)) == (False, -1)


def test_the_newest_snapshot_that_names_the_query_decides(table: Table) -> None:
    metadata, write = table
    write("v1.metadata.json", json.dumps(document(of(MINE, 6))).encode())
    write("v2.metadata.json", json.dumps(document(of(MINE, 6), of(MINE, 7), of(OTHER, 9))).encode())
    write("version-hint.text", b"2")

    assert (metadata.exists(), metadata.last_batch(MINE)) == (True, 7)
