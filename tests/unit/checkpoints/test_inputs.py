"""How much input a restore reads again, from the recorded boundaries."""

from __future__ import annotations

import json

import pytest

from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.plan_model import SourceInput, Verdict
from airflow_provider_ha.checkpoints.sinks.sink_type import RestoreFindings
from airflow_provider_ha.checkpoints.sources.kafka_offsets import PartitionOffsets
from airflow_provider_ha.checkpoints.sources.source_registry import inputs_of, judge_inputs, kafka_topics
from airflow_provider_ha.checkpoints.sources.source_type import CountedSource, SourceFacts
from airflow_provider_ha.checkpoints.spark.places import LOCAL


def entry(batch: int, *offsets: object, version: int = 1, files: dict[str, int] | None = None) -> BatchEntry:
    lines = [offset if isinstance(offset, str) else json.dumps(offset) for offset in offsets]
    sources = {name: ("a line",) * count for name, count in (files or {}).items()}
    return BatchEntry(batch=batch, offsets="\n".join([f"v{version}", "{}", *lines]), sources=sources)


def test_files_are_counted_per_source() -> None:
    replay = [
        entry(5, {"logOffset": 3}, {"logOffset": 8}, files={"0": 2}),
        entry(6, {"logOffset": 4}, {"logOffset": 9}, files={"0": 1, "1": 4}),
    ]

    assert inputs_of(entry(4, {"logOffset": 2}, {"logOffset": 8}), replay, SourceFacts(asked=LOCAL)) == (
        SourceInput(source="0", unit="files", amount=3, gone=0),
        SourceInput(source="1", unit="files", amount=4, gone=0),
    )


def test_rows_of_kafka_are_what_was_read_since_the_cut() -> None:
    cut = entry(4, {"orders": {"0": 100, "1": 50}})
    replay = [entry(5, {"orders": {"0": 110, "1": 50}}), entry(6, {"orders": {"0": 125, "1": 60, "2": 7}})]

    assert inputs_of(cut, replay) == (SourceInput(source="0", unit="rows", amount=25 + 10 + 7),)


def test_named_sources_are_told_apart_by_their_names() -> None:
    cut = entry(4, 'b:{"t": {"0": 5}}', 'a:{"t": {"0": 1}}', version=2)
    replay = [entry(5, 'a:{"t": {"0": 3}}', 'b:{"t": {"0": 6}}', version=2)]

    assert inputs_of(cut, replay) == (
        SourceInput(source="a", unit="rows", amount=2),
        SourceInput(source="b", unit="rows", amount=1),
    )


def test_what_only_the_source_understands_has_no_figure_unless_it_has_read_nothing() -> None:
    replay = [entry(5, 17, {"position": {"file": "x"}}, "-", "{}")]

    nothing = (SourceInput(source="2", amount=0, gone=0), SourceInput(source="3", amount=0, gone=0))
    assert inputs_of(None, replay) == (SourceInput(source="0"), SourceInput(source="1"), *nothing)


@pytest.mark.parametrize(
    "offset",
    [
        {"version": 1, "snapshot_id": 8_000_001, "position": 3, "scan_all_files": False},
        {"shardId-000000000000": {"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": "1"}},
        {"page": 3},
        {"offset": 20, "timestamp": 1000},
        "[1, 2]",
        '"LSN 0/16B3748"',
    ],
)
@pytest.mark.parametrize("is_replayed", [True, False])
def test_a_source_that_cannot_be_asked_is_unknown_with_a_replay_and_without(offset: object, is_replayed: bool) -> None:
    judgement = RestoreFindings("q")

    judge_inputs(inputs_of(entry(4, offset), [entry(5, offset)] if is_replayed else [], SourceFacts({})), judgement)

    assert [finding.verdict for finding in judgement.findings] == [Verdict.LOSS_POSSIBLE]
    assert "source 0" in judgement.unknown[0]


def test_without_a_replay_nothing_is_read_again() -> None:
    assert inputs_of(entry(4, {"logOffset": 2}), []) == ()


def test_a_record_that_cannot_be_read_has_no_figure() -> None:
    assert inputs_of(None, [BatchEntry(batch=5, offsets="garbage")]) == ()


def test_files_that_are_gone_are_counted_and_a_distant_one_is_not_known_to_be_there() -> None:
    near = BatchEntry(batch=5, offsets='v1\n{}\n{"logOffset":3}', sources={"0": ('{"path":"file:///in/5"}',)})
    far = BatchEntry(batch=5, offsets='v1\n{}\n{"logOffset":3}', sources={"0": ('{"path":"hdfs://host/in/5"}',)})

    (gone,) = inputs_of(None, [near], SourceFacts(missing={5: ("/in/5",)}, asked=LOCAL))
    (unknown,) = inputs_of(None, [far], SourceFacts())

    assert (gone.amount, gone.gone) == (1, 1)
    assert (unknown.amount, unknown.gone) == (1, None)


def test_brokers_report_the_remaining_offsets_also_without_a_replay() -> None:
    cut = entry(4, {"orders": {"0": 100}}, {"clicks": {"0": 7}})
    held = {("orders", 0): PartitionOffsets(103, 110), ("clicks", 0): PartitionOffsets(0, 9)}

    orders, clicks = inputs_of(cut, [], SourceFacts(kafka=held))

    assert (orders.amount, orders.gone, clicks.gone) == (0, 3, 0)
    assert [(each.topic, each.unread) for each in (*orders.partitions, *clicks.partitions)] == [
        ("orders", 7),
        ("clicks", 2),
    ]


def test_before_the_first_batch_a_source_begins_where_it_says_it_began() -> None:
    replay = [entry(0, {"orders": {"0": 110}})]

    (orders,) = inputs_of(
        None,
        replay,
        SourceFacts(initial={"0": '{"orders":{"0":100}}'}, kafka={("orders", 0): PartitionOffsets(0, 110)}),
    )

    assert (orders.amount, orders.partitions[0].start) == (10, 100)


def test_a_generator_is_told_from_a_socket_by_the_note_of_its_beginning() -> None:
    cut, replay = entry(4, 10), [entry(5, 14)]

    (rate,) = inputs_of(cut, replay, SourceFacts(initial={"0": "1795307983407"}))
    (socket,) = inputs_of(cut, replay, SourceFacts(initial={}))

    assert (rate.unit, rate.amount, rate.gone, CountedSource().judges(rate)) == ("seconds", 4, 0, False)
    assert (socket.unit, socket.amount, socket.gone, CountedSource().judges(socket)) == ("rows", 4, 4, True)


def test_topics_of_every_recorded_batch_are_asked_for() -> None:
    entries = [entry(4, {"orders": {"0": 1}}), entry(5, {"logOffset": 3}), BatchEntry(batch=6, offsets="garbage")]

    assert kafka_topics(entries, {"1": '{"clicks":{"0":0}}', "2": "17"}) == {"orders", "clicks"}
