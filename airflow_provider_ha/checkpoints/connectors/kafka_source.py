"""Kafka's source: it records the offsets of each partition, and the brokers report the available ones."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ha.checkpoints.connectors.kafka_offsets import (
    Partition,
    parse_kafka_offset,
    partitions_after,
    rows_between,
)
from airflow_provider_ha.checkpoints.connectors.sink_connector import Findings
from airflow_provider_ha.checkpoints.connectors.source_type import Reading, SourceType
from airflow_provider_ha.checkpoints.model import KafkaPartition, SourceInput, Verdict


_NAMED = 3  # partitions named in a reason; the plan has all
_NEW_QUERY = "let the script read the new topic with a new query: start it fresh"
_WAYS = (
    "restore a newer cut, if there is one: it needs fewer of the old rows",
    "accept LOSS_POSSIBLE by name; unless the reader has failOnDataLoss=false, Spark fails instead of going on without",
)


class KafkaSource(SourceType):
    """Topics."""

    label = "Kafka"
    asked = (
        "the id of each topic, which is compared with the recorded one, and its partitions with their first and last "
        "offsets, at the offsets of the cut"
    )
    silence = (
        "`unknown`: brokers are not named or do not answer, the client is not installed, or brokers report no id "
        "although an id is recorded; without a recorded id, a recreated topic is recognised while it is shorter"
    )

    def takes(self, reading: Reading) -> bool:
        """Match offsets of partitions."""
        return parse_kafka_offset(reading.end) is not None

    def input(self, reading: Reading) -> SourceInput:
        """Return the rows between two offsets, with each partition once the brokers have answered."""
        end: Mapping[Partition, int] = parse_kafka_offset(reading.end) or {}
        start = (parse_kafka_offset(reading.before) or {}) if reading.is_replayed else end
        amount = rows_between(start, end)
        if reading.facts.kafka is None:
            return SourceInput(source=reading.name, unit="rows", amount=amount)
        topics = {topic for topic, _ in end}
        held = {partition: offsets for partition, offsets in reading.facts.kafka.items() if partition[0] in topics}
        partitions = partitions_after(start, end, held, reading.facts.topics)
        gone = sum(each.gone for each in partitions)
        return SourceInput(source=reading.name, unit="rows", amount=amount, gone=gone, partitions=partitions)

    def judges(self, source: SourceInput) -> bool:
        """Match sources with offsets from the brokers."""
        return bool(source.partitions)

    def judge(self, source: SourceInput, findings: Findings) -> None:
        """Note missing partitions, recreated topics, and rows removed by retention."""
        lost = [each for each in source.partitions if each.earliest is None]
        if lost:
            rows = sum(each.gone for each in lost)
            findings.add(
                Verdict.LOSS_POSSIBLE,
                f"source {source.source}: {_names(lost)} {_are(lost)} gone, with {rows} rows that were read after the "
                "cut and all unread rows",
                *_WAYS,
            )
        again = [each for each in source.partitions if each.replaced]
        if again:
            findings.add(
                Verdict.LOSS_POSSIBLE,
                f"source {source.source}: {_topics(again)} made again under the same name since: other rows "
                "stand at the offsets that were read, and those before them would be passed over",
                _NEW_QUERY,
                *_WAYS,
            )
        untold = [each for each in source.partitions if each.replaced is None]
        if untold:
            findings.add_unknown(
                f"source {source.source}: the brokers do not say the id of a topic that had one: {_names(untold)}",
                "ask brokers that keep ids of topics (Kafka 2.8 and later)",
            )
        shorter = [
            each
            for each in source.partitions
            if each.latest is not None and each.latest < each.end and not each.replaced
        ]
        if shorter:
            findings.add(
                Verdict.LOSS_POSSIBLE,
                f"source {source.source}: {_names(shorter)} {_ends(shorter)} before the offsets that were read: made "
                "again under its old name, so other rows stand there now",
                _NEW_QUERY,
                *_WAYS,
            )
        named = {*lost, *again, *shorter}
        expired = [each for each in source.partitions if each.gone and each not in named]
        if expired:
            rows = sum(each.gone for each in expired)
            findings.add(
                Verdict.LOSS_POSSIBLE,
                f"source {source.source}: {rows} rows after the cut were removed by retention, of {_names(expired)}",
                *_WAYS,
            )


def _topics(partitions: list[KafkaPartition]) -> str:
    topics = sorted({each.topic for each in partitions})
    return f"topic {topics[0]} was" if len(topics) == 1 else f"topics {', '.join(topics)} were"


def _names(partitions: list[KafkaPartition]) -> str:
    told = ", ".join(f"{each.topic}-{each.partition}" for each in partitions[:_NAMED])
    more = len(partitions) - _NAMED
    return f"{told} and {more} more" if more > 0 else told


def _are(partitions: list[KafkaPartition]) -> str:
    return "are" if len(partitions) > 1 else "is"


def _ends(partitions: list[KafkaPartition]) -> str:
    return "end" if len(partitions) > 1 else "ends"
