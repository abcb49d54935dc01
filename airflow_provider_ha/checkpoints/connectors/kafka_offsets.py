"""Kafka's part of a restore: the rows after the cut, and those that the brokers no longer have.

Spark's offset log is authoritative for the rows read: consumer groups are not used. An offset there is the next one to
read, so a partition whose earliest offset equals it has lost no row, and unread rows are not part of the replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter, ValidationError

from airflow_provider_ha.checkpoints.model import KafkaPartition


Partition = tuple[str, int]
"""Topic and number."""

# {"topic": {"0": 17}}: written by Kafka's source, and by no other that we know.
_OFFSETS: TypeAdapter[dict[str, dict[Annotated[str, StringConstraints(pattern=r"^[0-9]+$")], int]]] = TypeAdapter(
    dict[str, dict[Annotated[str, StringConstraints(pattern=r"^[0-9]+$")], int]]
)


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """Offsets of a partition at the brokers.

    :param earliest: Its first offset.
    :param latest: Offset of its next row.
    :param topic_id: Id of its topic; empty where the brokers have no ids.
    """

    earliest: int
    latest: int
    topic_id: str = ""


def parse_kafka_offset(offset: str | None) -> dict[Partition, int] | None:
    """Return partition -> next offset of a recorded Kafka offset; ``None`` for another source's."""
    try:
        topics = _OFFSETS.validate_json(offset or "null")
    except ValidationError:
        return None
    return {(topic, int(number)): reached for topic, of in topics.items() for number, reached in of.items()} or None


def partitions_after(
    start: Mapping[Partition, int],
    end: Mapping[Partition, int],
    held: Mapping[Partition, PartitionOffsets],
    ids: Mapping[str, str] | None = None,
) -> tuple[KafkaPartition, ...]:
    """Return the rows of each partition that are needed after the cut, and the existing ones.

    :param start: Next offset at the cut, by partition.
    :param end: Next offset after the replay, by partition; the same as *start* without a replay.
    :param held: The brokers' offsets of the existing partitions. Spark reads a new partition from its beginning, which
        must be offset 0.
    :param ids: Topic ids at the time the rows were read, by topic.
    """
    known = sorted({*start, *end, *(partition for partition in held if partition not in end)})
    return tuple(
        _after(each, start.get(each, 0), end.get(each, start.get(each, 0)), held.get(each), (ids or {}).get(each[0]))
        for each in known
    )


def rows_between(start: Mapping[Partition, int], end: Mapping[Partition, int]) -> int:
    """Return the number of rows between two recorded offsets."""
    return sum(max(0, reached - start.get(partition, 0)) for partition, reached in end.items())


def _after(
    partition: Partition, start: int, end: int, held: PartitionOffsets | None, had: str | None
) -> KafkaPartition:
    topic, number = partition
    replayed = max(0, end - start)
    replaced: bool | None = False
    if held is None:
        # The recorded rows are gone with the partition; the rows that were never read can no longer be counted.
        earliest = latest = None
        gone, unread = replayed, 0
    else:
        earliest, latest = held.earliest, held.latest
        if had is not None:
            replaced = held.topic_id != had if held.topic_id else None  # guard: topics-are-known-by-their-length
        gone = max(0, earliest - start) if latest >= end and not replaced else replayed
        unread = max(0, latest - max(end, earliest))
    return KafkaPartition(
        topic=topic,
        partition=number,
        start=start,
        end=end,
        earliest=earliest,
        latest=latest,
        replayed=replayed,
        gone=gone,
        unread=unread,
        replaced=replaced,
    )
