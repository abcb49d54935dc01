"""What is read from Spark's JSON of a trigger."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_provider_ha.driver.figures import read_trigger


# As Spark 4.2 prints it, shortened: a batch, and a trigger without data.
BATCH: dict[str, Any] = {
    "timestamp": "2026-11-24T15:53:38.035Z",
    "batchId": 7,
    "batchDuration": 1520,
    "numInputRows": 40,
    "inputRowsPerSecond": 20.5,
    "processedRowsPerSecond": 26.3,
    "durationMs": {"addBatch": 1175, "commitOffsets": 42, "latestOffset": 137, "triggerExecution": 1520},
    "sources": [{"description": "FileStreamSource[file:/in]", "endOffset": {"logOffset": 1}, "latestOffset": None}],
}
IDLE = BATCH | {"numInputRows": 0, "durationMs": {"latestOffset": 26, "triggerExecution": 30}}


def kafka(**fields: Any) -> dict[str, Any]:
    return {"description": "KafkaV2[Subscribe[flights]]", "endOffset": {"flights": {"0": 10, "1": 20}}} | fields


def lag_of(*sources: dict[str, Any]) -> int | None:
    trigger = read_trigger(json.dumps(BATCH | {"sources": list(sources)}))
    assert trigger is not None
    return trigger.lag


def test_a_batch_is_read_with_its_times_and_rows() -> None:
    trigger = read_trigger(json.dumps(BATCH))

    assert trigger is not None
    assert (trigger.batch, trigger.executed, trigger.seconds, trigger.input_rows) == (7, True, 1.52, 40)
    assert (trigger.input_rate, trigger.processed_rate, trigger.lag) == (20.5, 26.3, None)
    assert trigger.phases["commitOffsets"] == 0.042
    assert trigger.ended_at == datetime(2026, 11, 24, 15, 53, 39, 555000, tzinfo=timezone.utc)


def test_a_trigger_without_data_has_executed_nothing() -> None:
    trigger = read_trigger(json.dumps(IDLE))

    assert trigger is not None
    assert not trigger.executed


def test_the_lag_of_kafka_is_what_each_partition_still_has() -> None:
    assert lag_of(kafka(latestOffset={"flights": {"0": 15, "1": 20, "2": 3}})) == 5 + 0 + 3


def test_a_topic_that_was_made_again_is_not_ahead_of_its_end() -> None:
    assert lag_of(kafka(latestOffset={"flights": {"0": 2, "1": 25}})) == 0 + 5


def test_the_lag_is_that_of_the_metrics_where_the_latest_offsets_are_not_told() -> None:
    assert lag_of(kafka(latestOffset=None, metrics={"avgOffsetsBehindLatest": "2.5"})) == 5


def test_the_lags_of_several_sources_are_added_up_and_those_that_tell_none_are_left_out() -> None:
    behind = kafka(latestOffset={"flights": {"0": 11, "1": 22}})

    assert lag_of(behind, behind, BATCH["sources"][0]) == 6


@pytest.mark.parametrize("infinite", [None, "Infinity", "NaN"])
def test_a_rate_that_is_no_number_is_nothing(infinite: Any) -> None:
    trigger = read_trigger(json.dumps(BATCH | {"inputRowsPerSecond": infinite}))

    assert trigger is not None
    assert trigger.input_rate == 0.0


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"timestamp": 7, "batchId": 1}', '{"timestamp": "today", "batchId": 1}']
)
def test_what_is_no_progress_is_no_trigger(text: str) -> None:
    assert read_trigger(text) is None
