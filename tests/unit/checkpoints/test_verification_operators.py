"""In which partitions an operator must have state: an operator without keys has it in the first one only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify


PARTITIONS = 3
KEYED = b'\x00\x02v2{"type":"struct","fields":[{"name":"key","type":"string"}]}{"type":"struct","fields":[]}'
GLOBAL = b'\x00\x02v2{"type":"struct","fields":[]}{"type":"struct","fields":[{"name":"count","type":"long"}]}'
NULL_KEY = b'\x00\x02v2{"type":"struct","fields":[{"name":"key","type":"void"}]}{"type":"struct","fields":[]}'


def write_state(directory: Path, *, found: int, schema: bytes | None = None, operator: str | None = None) -> Path:
    """Write a checkpoint with one committed batch of a query with one operator, as Spark lays it out.

    :param found: How many partitions have state.
    :param schema: Written by 3.1 and later.
    :param operator: Name in the operator's metadata, written by 4.0 and later.
    """
    for log in ("offsets", "commits"):
        (directory / log).mkdir(parents=True)
    (directory / "metadata").write_text('{"id":"8c0b2ae1-7f3d-4c8e-9d0a-5f1e2d3c4b5a"}')
    conf = {"spark.sql.shuffle.partitions": str(PARTITIONS)}
    (directory / "offsets" / "0").write_text(f"v1\n{json.dumps({'conf': conf})}\n0")
    (directory / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    for partition in range(found):
        store = directory / "state" / "0" / str(partition)
        store.mkdir(parents=True)
        (store / "1.delta").write_bytes(b"not looked into at this depth")
    if schema is not None:
        place = directory / "state" / "0" / "0" / "_metadata"
        place.mkdir()
        (place / "schema").write_bytes(schema)
    if operator is not None:
        store_info = [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": PARTITIONS}]
        info = {"operatorInfo": {"operatorId": 0, "operatorName": operator}, "stateStoreInfo": store_info}
        place = directory / "state" / "0" / "_metadata"
        place.mkdir()
        (place / "metadata").write_text(f"v1\n{json.dumps(info)}")
    return directory


@pytest.mark.parametrize(
    ("schema", "operator"),
    [(GLOBAL, "stateStoreSave"), (NULL_KEY, "globalLimit"), (GLOBAL, None), (None, "globalLimit"), (None, None)],
    ids=["aggregation", "limit", "aggregation before 4.0", "limit without schema", "before 3.1"],
)
def test_an_operator_without_keys_needs_the_first_partition_only(
    schema: bytes | None, operator: str | None, tmp_path: Path
) -> None:
    report = verify(LocalTree(write_state(tmp_path / "c", found=1, schema=schema, operator=operator)), depth="quick")

    assert (report.startable, report.restorable, report.findings) == (True, [0], ())


@pytest.mark.parametrize(
    ("found", "schema", "operator"),
    [(1, KEYED, "stateStoreSave"), (1, KEYED, None), (1, None, "stateStoreSave"), (2, None, None)],
    ids=["with keys", "with keys before 4.0", "schema lost", "before 3.1"],
)
def test_a_partition_of_an_operator_with_keys_is_missed(
    found: int, schema: bytes | None, operator: str | None, tmp_path: Path
) -> None:
    report = verify(
        LocalTree(write_state(tmp_path / "c", found=found, schema=schema, operator=operator)), depth="quick"
    )

    missing = [f"state/0/{partition}/1.delta" for partition in range(found, PARTITIONS)]
    assert report.startable is False
    assert [finding.path for finding in report.findings] == missing
    assert [reason.path for reason in report.batches[0].reasons] == missing


def test_all_partitions_are_enough(tmp_path: Path) -> None:
    report = verify(
        LocalTree(write_state(tmp_path / "c", found=PARTITIONS, schema=KEYED, operator="dedupe")), depth="quick"
    )

    assert (report.startable, report.findings) == (True, ())
