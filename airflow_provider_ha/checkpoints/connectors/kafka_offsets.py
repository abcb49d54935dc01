"""Kafka's part of a restore: which rows come after the cut, and which of them the brokers no longer have.

Spark's offset log is the truth about what was read: consumer groups are not used. An offset there is the next one to be
read, so a partition whose earliest offset equals it has lost nothing, and rows that were never read are not part of the
replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter, ValidationError

from airflow_provider_ha.checkpoints.model import KafkaPartition


Partition = tuple[str, int]
"""Topic and number."""

# {"topic": {"0": 17}}: what Kafka's source writes, and no other that we know.
_OFFSETS: TypeAdapter[dict[str, dict[Annotated[str, StringConstraints(pattern=r"^[0-9]+$")], int]]] = TypeAdapter(
    dict[str, dict[Annotated[str, StringConstraints(pattern=r"^[0-9]+$")], int]]
)


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """What the brokers have of one partition.

    :param earliest: Its first offset.
    :param latest: The offset that its next row will get.
    :param topic_id: Of its topic; empty where the brokers have none.
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
    """Return what is needed of each partition after the cut, and what of it is there.

    :param start: Partition -> next offset at the cut.
    :param end: Partition -> next offset after the replay; the same as *start* when nothing is replayed.
    :param held: What the brokers have, of the partitions that are there. One that no record knows yet is read by Spark
        from its beginning, which has to be offset 0.
    :param ids: Topic -> the id that it had when its rows were read.
    """
    known = sorted({*start, *end, *(partition for partition in held if partition not in end)})
    return tuple(
        _after(each, start.get(each, 0), end.get(each, start.get(each, 0)), held.get(each), (ids or {}).get(each[0]))
        for each in known
    )


def rows_between(start: Mapping[Partition, int], end: Mapping[Partition, int]) -> int:
    """Return how many rows lie between two recorded offsets."""
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
