"""What a comparison says that Spark refuses, Spark refuses; and what it does not, Spark goes on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.comparison.compare import compare_query
from airflow_provider_ha.checkpoints.comparison.side import read_side
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from tests.support.spark import corpus
from tests.support.spark.spark_judge import judge


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
METADATA, SCHEMA = "state/0/_metadata/metadata", "state/0/0/_metadata/schema"
# What is changed in the state -> file, old bytes, new bytes of the same length where the file counts them.
CHANGES = {
    "operator": (METADATA, b"stateStoreSave", b"dedupe"),
    "partitions": (METADATA, b'"numPartitions":2', b'"numPartitions":3'),
    "key type": (SCHEMA, b'"type":"string"', b'"type":"double"'),
    "value type": (SCHEMA, b'"type":"long"', b'"type":"date"'),
    "key name": (SCHEMA, b'"name":"key"', b'"name":"kex"'),
}


def test_spark_refuses_what_the_comparison_says(tmp_path: Path) -> None:
    said, cases = {}, []
    query = read_side(LocalTree(corpus.corpus() / "hdfs" / "checkpoint"))
    for number, (what, (name, old, new)) in enumerate(CHANGES.items()):
        state = corpus.checkpoint_copy("hdfs", tmp_path / str(number))
        path = state / name
        path.write_bytes(path.read_bytes().replace(old, new))
        path.with_name(f".{path.name}.crc").unlink()
        said[what] = compare_query(read_side(LocalTree(state)), query).refused
        cases.append(("hdfs", state))

    answers = judge(cases, tmp_path)

    assert said == {what: answer != "right" for what, answer in zip(CHANGES, answers, strict=True)}
    assert set(said.values()) == {True, False}
