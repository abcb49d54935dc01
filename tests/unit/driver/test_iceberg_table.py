"""What the driver asks Iceberg, and what it records of a table: the real one answers in ``test_lake_tables``."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.driver.queries.catalog_tables import full_name, table_directory
from airflow_provider_ha.driver.queries.query_naming import name_query
from airflow_provider_ha.driver.queries.query_start import check_writer
from airflow_provider_ha.driver.queries.writer_notes import WriterNotes, notes, refuse_unfenced
from airflow_provider_ha.errors import ApplicationRefusedError
from tests.support.checkpoints.writer_helpers import Conf, writer_of


LAKE = {
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.other": "org.example.Catalog",
}
HADOOP = "HadoopTableOperations"


class Parts(list[str]):
    """A sequence of Scala's."""

    def size(self) -> int:
        return len(self)

    def apply(self, at: int) -> str:
        return self[at]


def table_of(location: str, operations: str = HADOOP) -> Any:
    """Return a table as Iceberg loads it."""
    of_class = SimpleNamespace(getSimpleName=lambda: operations)
    return SimpleNamespace(location=lambda: location, operations=lambda: SimpleNamespace(getClass=lambda: of_class))


def session_of(table: Any = None, catalog: str = "spark_catalog", **conf: str) -> Any:
    """Return a session whose Iceberg loads *table*, by any name; without one it raises."""

    def load(_: Any, name: str) -> Any:
        if table is None:
            raise RuntimeError(f"no table {name}")
        return table

    util = SimpleNamespace(loadIcebergTable=load)
    spark = SimpleNamespace(iceberg=SimpleNamespace(spark=SimpleNamespace(Spark3Util=util)))
    parser = SimpleNamespace(parseMultipartIdentifier=lambda said: Parts(said.split(".")))
    state = SimpleNamespace(sqlParser=lambda: parser)
    return SimpleNamespace(
        conf=Conf({**LAKE, **conf}),
        catalog=SimpleNamespace(currentCatalog=lambda: catalog, currentDatabase=lambda: "db"),
        _jvm=SimpleNamespace(org=SimpleNamespace(apache=spark)),
        _jsparkSession=SimpleNamespace(sessionState=lambda: state),
    )


def noted(path: str = "lake.db.t", **options: str) -> WriterNotes:
    return WriterNotes(sink="iceberg", options={"path": path, **options})


@pytest.mark.parametrize(
    ("name", "catalog", "full"),
    [
        ("lake.db.t", "spark_catalog", "lake.db.t"),
        ("db.t", "lake", "lake.db.t"),
        ("t", "lake", "lake.db.t"),
        ("lake.db.t-1", "spark_catalog", "lake.db.`t-1`"),
        ("db.t", "spark_catalog", None),
        ("other.db.t", "lake", None),
    ],
)
def test_a_name_gets_its_catalog_when_that_is_one_of_icebergs(name: str, catalog: str, full: str | None) -> None:
    assert full_name(session_of(catalog=catalog), name) == full


def test_a_query_is_recorded_with_the_directory_of_its_table() -> None:
    writer = writer_of("q", Path("/managed"))
    session = session_of(table_of("file:///lake/db/t"))
    session.conf |= writer._spark.conf
    writer._spark, notes(writer).sink = session, "iceberg"

    assert check_writer(writer, "lake.db.t", "file:///managed", frozenset()).sink.table == "/lake/db/t"


def test_a_table_that_is_named_by_its_path_needs_no_catalog() -> None:
    assert table_directory(session_of(), "q", noted("s3a://bucket/t/")) == "s3://bucket/t"


def test_the_directory_of_a_table_whose_catalog_alone_knows_its_version_is_not_recorded() -> None:
    assert table_directory(session_of(table_of("/lake/db/t", "RESTTableOperations")), "q", noted()) is None


def test_a_table_that_iceberg_does_not_find_is_left_to_spark() -> None:
    assert table_directory(session_of(), "q", noted()) is None


@pytest.mark.parametrize(
    ("path", "options", "conf"),
    [
        ("lake.db.t", {"branch": "audit"}, {}),
        ("lake.db.t.branch_audit", {}, {}),
        ("lake.db.t", {}, {"spark.wap.branch": "audit"}),
        ("lake.db.t", {}, {"spark.wap.id": "1"}),
    ],
)
def test_rows_that_are_not_written_to_the_current_snapshot_are_not_looked_for_there(
    path: str, options: dict[str, str], conf: dict[str, str]
) -> None:
    assert table_directory(session_of(table_of("/lake/db/t"), **conf), "q", noted(path, **options)) is None


def test_a_table_of_a_hadoop_catalog_on_s3_needs_a_lock_for_two_drivers() -> None:
    lock = "spark.sql.catalog.lake.lock-impl"
    table = table_of("s3a://bucket/db/t")

    for conf in ({}, {lock: "org.apache.iceberg.util.LockManagers$InMemoryLockManager"}):
        with pytest.raises(ApplicationRefusedError, match=r"query 'q' writes to the Iceberg table s3a://bucket/db/t"):
            table_directory(session_of(table, **conf), "q", noted())
    locked = session_of(table, **{lock: "org.apache.iceberg.aws.dynamodb.DynamoDbLockManager"})
    assert table_directory(locked, "q", noted()) == "s3://bucket/db/t"


@pytest.mark.parametrize("path", ["s3a://bucket/t", "s3://bucket/t"])
def test_a_table_on_s3_that_is_named_by_its_path_is_refused(path: str) -> None:
    with pytest.raises(ApplicationRefusedError, match="that two drivers can overwrite on S3"):
        refuse_unfenced("q", noted(path), "parquet", LAKE.get)
    for other in ("/data/t", "hdfs://names:8020/t", "lake.db.t"):
        refuse_unfenced("q", noted(other), "parquet", LAKE.get)


@pytest.mark.parametrize("location", ["warehouse/t", "{here}/warehouse/t"])
def test_a_table_in_the_working_directory_of_the_attempt_is_refused(location: str) -> None:
    session = session_of(table_of(location.format(here=Path.cwd())))

    with pytest.raises(ApplicationRefusedError, match="to another directory in every other attempt"):
        table_directory(session, "q", noted())


def test_a_query_without_a_name_is_named_after_its_table() -> None:
    def named(path: str) -> str:
        writer = writer_of("", Path("/managed"))
        notes(writer).name, notes(writer).sink = None, "iceberg"
        return name_query(writer, path)

    assert named("lake.db.orders").startswith("lake.db.orders-")
    assert named("/data/orders") == named("file:///data/x/../orders")
