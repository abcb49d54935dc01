"""What the driver notes of the streams that a query reads; Spark's own plan is stood in for (``test_lake_tables``)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySources
from airflow_provider_ha.driver.queries.script_reads_and_writes import sources_of
from tests.unit.driver.test_iceberg_table import table_of


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


def noted(*leaves: Any, text: str = "") -> tuple[QuerySources, frozenset[str]]:
    plan = SimpleNamespace(toString=lambda: text, collectLeaves=lambda: Leaves(leaves))
    execution = SimpleNamespace(analyzed=lambda: plan)
    return sources_of(SimpleNamespace(_df=SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: execution))))


STATIC = SimpleNamespace(getClass=named("LocalRelation"))


def test_tables_are_noted_by_the_position_of_their_source(tmp_path: Path) -> None:
    delta = first("delta", path=f"file:{tmp_path}/orders", failOnDataLoss="false")
    iceberg = second(table_of(f"{tmp_path}/lake/t"))

    found, topics = noted(first("json", path="/in"), STATIC, delta, iceberg)

    assert found.tables == {"1": f"{tmp_path}/orders", "2": f"{tmp_path}/lake/t"}
    assert (found.tolerant, found.brokers, topics) == (("1",), "", frozenset())


def test_a_source_with_a_name_is_noted_by_it(tmp_path: Path) -> None:
    assert noted(first("delta", "orders", path=str(tmp_path)))[0].tables == {"orders": str(tmp_path)}


def test_brokers_and_topics_are_those_that_the_reader_names() -> None:
    one = second(kafka_bootstrap_servers="a:9092,b:9092", subscribe="orders, returns")
    two = second(kafka_bootstrap_servers="a:9092,b:9092", assign='{"late": [0]}')

    found, topics = noted(one, two)

    assert (found.brokers, sorted(topics)) == ("a:9092,b:9092", ["late", "orders", "returns"])


def test_brokers_of_two_clusters_are_none_that_can_be_asked_for_all() -> None:
    assert noted(second(kafka_bootstrap_servers="a:9092"), second(kafka_bootstrap_servers="b:9092"))[0].brokers == ""


def test_brokers_that_ask_for_a_login_are_left_to_who_names_them_with_it() -> None:
    stream = second(kafka_bootstrap_servers="a:9092", kafka_security_protocol="SASL_SSL", subscribe="orders")

    assert noted(stream) == (QuerySources(), frozenset({"orders"}))


@pytest.mark.parametrize(
    "stream", [second(table_of("/lake/t", "RESTTableOperations")), second(table_of("/lake/t"), branch="audit")]
)
def test_a_table_whose_catalog_alone_knows_its_state_is_not_recorded(stream: Any) -> None:
    assert noted(stream)[0] == QuerySources()


def test_streams_that_spark_may_read_more_than_once_have_no_position(tmp_path: Path) -> None:
    assert noted(first("delta", path=str(tmp_path)), text="CTERelationRef 1")[0] == QuerySources()


def test_a_plan_that_cannot_be_read_leaves_everything_unknown() -> None:
    assert sources_of(SimpleNamespace()) == (QuerySources(), frozenset())
