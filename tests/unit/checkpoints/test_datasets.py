"""Names of datasets: what OpenLineage's own naming says, and no credentials."""

from __future__ import annotations

import pytest

from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sources.source_registry import (
    DatasetName,
    place_name,
    read_by,
    topic_name,
    written_by,
)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/data/out", ("file", "/data/out")),
        ("file:///data/a%20b", ("file", "/data/a b")),
        ("s3a://lake/tables/stats", ("s3://lake", "tables/stats")),
        ("s3://lake", ("s3://lake", "/")),
        ("s3://lake/odd?name#1", ("s3://lake", "odd?name#1")),
        ("hdfs://namenode:8020/data/out", ("hdfs://namenode:8020", "/data/out")),
        ("s3a://user:word@lake/out", ("s3://lake", "out")),
        ("hdfs://user:word@namenode:8020/out", ("hdfs://namenode:8020", "/out")),
    ],
)
def test_a_place_has_the_name_of_its_file_system(place: str, expected: tuple[str, str]) -> None:
    assert place_name(place) == DatasetName(*expected)


@pytest.mark.parametrize("place", ["abfss://box@account/out", "relative/out", "gs://bucket/out"])
def test_a_place_that_is_not_known_has_no_name(place: str) -> None:
    assert place_name(place) is None


@pytest.mark.parametrize("brokers", ["one:9092,two:9093", "one, two", "PLAINTEXT://one:9092", "user:word@one:9092"])
def test_a_topic_is_named_after_its_first_broker(brokers: str) -> None:
    assert topic_name(brokers, "orders") == DatasetName("kafka://one:9092", "orders")


def test_names_are_those_of_openlineages_client() -> None:
    naming = pytest.importorskip("openlineage.client.naming.dataset")
    made = [
        naming.LocalFileSystem("/data/out"),
        naming.S3("lake", "tables/stats"),
        naming.HDFS("namenode", "8020", "/data/out"),
    ]
    topic = naming.Kafka("one", "9092", "orders")

    ours = [place_name("/data/out"), place_name("s3a://lake/tables/stats"), place_name("hdfs://namenode:8020/data/out")]

    assert ours == [DatasetName(each.get_namespace(), each.get_name()) for each in made]
    assert topic_name("one:9092", "orders") == DatasetName(topic.get_namespace(), topic.get_name())


def test_recorded_batches_tell_topics_and_directories() -> None:
    files = {
        "0": (
            '{"path":"file:///data/in/day=1/hour=2/a.json"}',
            '{"path":"file:///data/in/day=2/b.json"}',
            "garbled",
            '{"path":7}',
        ),
        "1": ('{"path":"s3a://lake/raw%20rows/c.json"}',),
    }
    entry = BatchEntry(batch=1, offsets='v1\n{}\n{"logOffset":0}\n{"orders":{"0":17}}', sources=files)

    assert read_by([entry], "one:9092") == (
        DatasetName("file", "/data/in"),
        DatasetName("kafka://one:9092", "orders"),
        DatasetName("s3://lake", "raw rows"),
    )
    assert DatasetName("kafka://one:9092", "orders") not in read_by([entry], None)


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        (QuerySink(kind=SinkKind.FILE, format="parquet", path="/data/out"), (DatasetName("file", "/data/out"),)),
        (
            QuerySink(kind=SinkKind.OTHER, format="delta", table="s3://lake/t"),
            (DatasetName("s3://lake", "t"),),
        ),
        (QuerySink(kind=SinkKind.FOREACH_BATCH), ()),
        (QuerySink(kind=SinkKind.OTHER, format="kafka"), ()),
    ],
)
def test_a_sink_has_a_dataset_if_its_output_is_recorded(sink: QuerySink, expected: tuple[DatasetName, ...]) -> None:
    assert written_by(sink) == expected
