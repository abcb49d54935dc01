"""Tables: what the driver asks Iceberg, and which tables a query may read and write."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySources
from airflow_provider_ha.checkpoints.sinks.sink_registry import query_memory, type_of_format
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.driver.queries.catalog_tables import full_name, table_directory, write_to_table
from airflow_provider_ha.driver.queries.checked_writer import check_writer
from airflow_provider_ha.driver.queries.query_naming import name_query
from airflow_provider_ha.driver.queries.script_reads_and_writes import sources_of
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


class Leaves(list[Any]):
    """A sequence of Scala's."""

    def size(self) -> int:
        return len(self)

    def apply(self, at: int) -> Any:
        return self[at]


def named(name: str) -> Any:
    return lambda: SimpleNamespace(getName=lambda: f"org.apache.{name}")


def some(value: str | None) -> Any:
    """Return an option of Scala's."""
    return SimpleNamespace(isDefined=lambda: value is not None, get=lambda: value)


def first(kind: str, source: str = "", **options: str) -> Any:
    """Return a stream of Spark's first interface."""
    given = SimpleNamespace(get=lambda name: some(options.get(name)))
    made = SimpleNamespace(className=lambda: kind, options=lambda: given)
    return SimpleNamespace(getClass=named("StreamingRelation"), dataSource=lambda: made, **called(source))


def second(table: Any = None, source: str = "", **options: str) -> Any:
    """Return a stream of Spark's second interface."""
    given = SimpleNamespace(get={name.replace("_", "."): value for name, value in options.items()}.get)
    held = SimpleNamespace(getClass=named("iceberg.spark.source.SparkTable" if table else "Kafka"), table=lambda: table)
    return SimpleNamespace(
        getClass=named("StreamingRelationV2"), extraOptions=lambda: given, table=lambda: held, **called(source)
    )


def called(source: str) -> dict[str, Any]:
    word = f"name={source or '<Unassigned>'}"
    return {"sourceIdentifyingName": lambda: SimpleNamespace(toString=lambda: word)}


def sources_read(*leaves: Any, text: str = "") -> tuple[QuerySources, frozenset[str]]:
    plan = SimpleNamespace(toString=lambda: text, collectLeaves=lambda: Leaves(leaves))
    execution = SimpleNamespace(analyzed=lambda: plan)
    return sources_of(SimpleNamespace(_df=SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: execution))))


STATIC = SimpleNamespace(getClass=named("LocalRelation"))


def test_tables_are_noted_by_the_position_of_their_source(tmp_path: Path) -> None:
    delta = first("delta", path=f"file:{tmp_path}/orders", failOnDataLoss="false")
    iceberg = second(table_of(f"{tmp_path}/lake/t"))

    found, topics = sources_read(first("json", path="/in"), STATIC, delta, iceberg)

    assert found.tables == {"1": f"{tmp_path}/orders", "2": f"{tmp_path}/lake/t"}
    assert (found.tolerant, found.brokers, topics) == (("1",), "", frozenset())


def test_a_source_with_a_name_is_noted_by_it(tmp_path: Path) -> None:
    assert sources_read(first("delta", "orders", path=str(tmp_path)))[0].tables == {"orders": str(tmp_path)}


def test_brokers_and_topics_are_those_that_the_reader_names() -> None:
    one = second(kafka_bootstrap_servers="a:9092,b:9092", subscribe="orders, returns")
    two = second(kafka_bootstrap_servers="a:9092,b:9092", assign='{"late": [0]}')

    found, topics = sources_read(one, two)

    assert (found.brokers, sorted(topics)) == ("a:9092,b:9092", ["late", "orders", "returns"])


def test_brokers_of_two_clusters_are_none_that_can_be_asked_for_all() -> None:
    assert (
        sources_read(second(kafka_bootstrap_servers="a:9092"), second(kafka_bootstrap_servers="b:9092"))[0].brokers
        == ""
    )


def test_brokers_that_ask_for_a_login_are_left_to_who_names_them_with_it() -> None:
    stream = second(kafka_bootstrap_servers="a:9092", kafka_security_protocol="SASL_SSL", subscribe="orders")

    assert sources_read(stream) == (QuerySources(), frozenset({"orders"}))


@pytest.mark.parametrize(
    "stream", [second(table_of("/lake/t", "RESTTableOperations")), second(table_of("/lake/t"), branch="audit")]
)
def test_a_table_whose_catalog_alone_knows_its_state_is_not_recorded(stream: Any) -> None:
    assert sources_read(stream)[0] == QuerySources()


def test_streams_that_spark_may_read_more_than_once_have_no_position(tmp_path: Path) -> None:
    assert sources_read(first("delta", path=str(tmp_path)), text="CTERelationRef 1")[0] == QuerySources()


def test_a_plan_that_cannot_be_read_leaves_everything_unknown() -> None:
    assert sources_of(SimpleNamespace()) == (QuerySources(), frozenset())


def writer_to(provider: str | None = None, source: str | None = None) -> Any:
    """Return a writer whose session has one table, of another catalog.

    :param provider: As ``DESCRIBE TABLE EXTENDED`` says it; ``None`` for no table.
    :param source: What the script says of the format.
    """
    writer = writer_of("", Path("/managed"))
    session = session_of(catalog="other", **writer._spark.conf)

    def described(_: str) -> Any:
        if provider is None:
            raise RuntimeError("TABLE_OR_VIEW_NOT_FOUND")
        rows = [{"col_name": "Catalog", "data_type": "other"}]
        rows += [{"col_name": "Provider", "data_type": provider}] if provider else []
        return SimpleNamespace(collect=lambda: rows)

    session.sql, writer._spark = described, session
    notes(writer).name, notes(writer).sink = None, source
    return writer


@pytest.mark.parametrize(
    ("provider", "source", "recorded"),
    [("cassandra", None, "cassandra"), ("", None, "table"), (None, "mongodb", "mongodb"), ("kudu", "kudu", "kudu")],
)
def test_a_table_of_another_catalog_that_takes_every_batch_is_left_to_spark(
    provider: str | None, source: str | None, recorded: str
) -> None:
    writer = writer_to(provider, source)

    assert write_to_table(writer, "other.db.orders") is None

    assert (notes(writer).table, notes(writer).sink) == ("other.db.orders", recorded)
    assert name_query(writer, None).startswith("other.db.orders-")


@pytest.mark.parametrize("provider", ["delta", "DELTA", "iceberg", "hudi", "parquet", "json"])
def test_one_that_skips_batches_by_their_numbers_is_refused(provider: str) -> None:
    with pytest.raises(
        ApplicationRefusedError, match=rf"'db.orders' of {provider} in another catalog: such a table skips"
    ):
        write_to_table(writer_to(provider), "db.orders")


def test_what_a_table_of_hudi_has_is_unknown_to_a_plan() -> None:
    hudi = type_of_format("Hudi")

    assert (hudi.table, query_memory(hudi.sink("Hudi", "/data/t"), StorageAccess())) == ("Hudi table", None)
