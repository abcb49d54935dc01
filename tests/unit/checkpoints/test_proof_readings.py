"""What Spark has to read so that it has loaded the whole state, and the batch that it is given without input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.drain import plan_empty_batch
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import read_offsets
from airflow_provider_ha.checkpoints.verify.proof_protocol import StateReading, options, readings, state_by_id
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError


CONF = {"spark.sql.shuffle.partitions": "2"}


def checkpoint(place: Path, *, commit: str = '{"nextBatchWatermarkMs":0}') -> Path:
    """Make the logs of a query that committed batch 4."""
    metadata = json.dumps({"batchWatermarkMs": 7, "batchTimestampMs": 9, "conf": CONF})
    for name, text in (
        ("offsets/4", f'v1\n{metadata}\n{{"logOffset":4}}'),
        ("commits/4", f"v1\n{commit}"),
        ("metadata", '{"id":"aaaaaaaa-0000-4000-8000-000000000000"}'),
    ):
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return place


def operator(place: Path, number: int, stores: list[str], properties: str = "", *, version: int = 1) -> None:
    """Add the directories and the metadata of a stateful operator with two partitions."""
    for partition in range(2):
        for store in stores:
            inner = place / "state" / str(number) / str(partition) / ("" if store == "default" else store)
            inner.mkdir(parents=True)
            (inner / "5.delta").write_bytes(b"x")
    document = {
        "operatorInfo": {"operatorId": number, "operatorName": "anOperator"},
        "stateStoreInfo": [{"storeName": store, "numColsPrefixKey": 0, "numPartitions": 2} for store in stores],
        "operatorPropertiesJson": properties,
    }
    path = place / "state" / str(number) / "_metadata" / ("metadata" if version == 1 else "v2/4")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"v{version}\n{json.dumps(document)}")


def test_a_query_without_state_has_nothing_to_read(tmp_path: Path) -> None:
    assert readings(LocalTree(checkpoint(tmp_path)), 4) == ()


def test_every_store_of_every_operator_is_read(tmp_path: Path) -> None:
    stores = ["left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue"]
    place = checkpoint(tmp_path)
    operator(place, 0, ["default"])
    operator(place, 1, stores)

    found = readings(LocalTree(place), 4)

    assert [(item.operator, item.store) for item in found] == [(0, "default"), *((1, store) for store in stores)]
    assert {(item.operator_name, item.partitions, item.kind) for item in found} == {("anOperator", 2, "store")}


def test_every_variable_of_transform_with_state_is_read_and_its_timers(tmp_path: Path) -> None:
    variables = [
        {"stateName": "count", "stateVariableType": "ValueState", "ttlEnabled": False},
        {"stateName": "seen", "stateVariableType": "ListState", "ttlEnabled": True},
        {"stateName": "$procTimers_keyToTimestamp", "stateVariableType": "TimerState", "ttlEnabled": False},
    ]
    properties = json.dumps({"timeMode": "ProcessingTime", "outputMode": "Update", "stateVariables": variables})
    place = checkpoint(tmp_path)
    operator(place, 0, ["default"], properties, version=2)

    assert [(item.kind, item.title) for item in readings(LocalTree(place), 4)] == [
        ("variable", "count"),
        ("variable", "seen"),
        ("timers", "timers"),
    ]


@pytest.mark.parametrize("content", [None, "", "v1\nnot json"])
def test_releases_that_record_nothing_are_read_by_their_directories(tmp_path: Path, content: str | None) -> None:
    place = checkpoint(tmp_path)
    operator(place, 0, ["default"])
    metadata = place / "state" / "0" / "_metadata" / "metadata"
    metadata.unlink() if content is None else metadata.write_text(content)

    assert readings(LocalTree(place), 4) == (StateReading(operator=0, store="default", partitions=2),)


def test_the_options_name_the_batch_the_operator_and_what_is_read() -> None:
    reading = StateReading(operator=1, store="default", partitions=2)

    assert options(reading, 4) == {"batchId": "4", "operatorId": "1", "storeName": "default"}
    variable = reading.model_copy(update={"kind": "variable", "variable": "count"})
    assert options(variable, 4) == {"batchId": "4", "operatorId": "1", "stateVarName": "count"}
    timers = reading.model_copy(update={"kind": "timers"})
    assert options(timers, 4) == {"batchId": "4", "operatorId": "1", "readRegisteredTimers": "true"}


def test_format_2_is_told_by_the_ids_of_the_commit(tmp_path: Path) -> None:
    assert not state_by_id(LocalTree(checkpoint(tmp_path / "1")), 4)
    assert state_by_id(LocalTree(checkpoint(tmp_path / "2", commit='{"stateUniqueIds":{"0":[["a"],["b"]]}}')), 4)


def test_the_empty_batch_ends_where_the_last_one_ended(tmp_path: Path) -> None:
    place = checkpoint(tmp_path)

    assert plan_empty_batch(place) == 5
    assert read_offsets(LocalTree(place), 5).offsets == read_offsets(LocalTree(place), 4).offsets
    assert read_offsets(LocalTree(place), 5).metadata == read_offsets(LocalTree(place), 4).metadata


def test_no_empty_batch_is_planned_over_one_in_flight(tmp_path: Path) -> None:
    place = checkpoint(tmp_path)
    plan_empty_batch(place)

    with pytest.raises(CheckpointCorruptError, match="not sharp"):
        plan_empty_batch(place)


def test_no_empty_batch_follows_none(tmp_path: Path) -> None:
    with pytest.raises(CheckpointMissingError, match="no committed batch"):
        plan_empty_batch(tmp_path)
