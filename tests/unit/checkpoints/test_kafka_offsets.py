"""Which rows of Kafka come after a cut, and which of them are gone."""

from __future__ import annotations

import pytest

from airflow_provider_ha.checkpoints.sources.kafka_offsets import (
    PartitionOffsets,
    parse_kafka_offset,
    partitions_after,
)


PLACE = ("orders", 0)


def after(start: int, end: int, held: PartitionOffsets | None) -> tuple[int, int, int]:
    """Return rows that are read again, gone and unread, of one partition."""
    (found,) = partitions_after({PLACE: start}, {PLACE: end}, {PLACE: held} if held else {})
    return found.replayed, found.gone, found.unread


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (PartitionOffsets(0, 20), (10, 0, 0)),
        (PartitionOffsets(0, 25), (10, 0, 5)),
        (PartitionOffsets(10, 25), (10, 0, 5)),
        (PartitionOffsets(11, 25), (10, 1, 5)),
        (PartitionOffsets(20, 25), (10, 10, 5)),
        (PartitionOffsets(23, 25), (10, 13, 2)),
        (PartitionOffsets(25, 25), (10, 15, 0)),
        (PartitionOffsets(0, 7), (10, 10, 0)),
        (None, (10, 10, 0)),
    ],
    ids=[
        "all is there",
        "what no batch has read is no replay",
        "the earliest offset is the next one to be read",
        "one row is gone",
        "the whole replay is gone",
        "rows that no batch had read are gone as well",
        "everything is gone",
        "another topic of this name",
        "no partition",
    ],
)
def test_rows_after_a_cut_at_10_and_a_replay_to_20(
    held: PartitionOffsets | None, expected: tuple[int, int, int]
) -> None:
    assert after(10, 20, held) == expected


@pytest.mark.parametrize(("earliest", "gone"), [(10, 0), (12, 2)])
def test_without_a_replay_only_what_comes_next_matters(earliest: int, gone: int) -> None:
    assert after(10, 10, PartitionOffsets(earliest, 15)) == (0, gone, 15 - max(10, earliest))


@pytest.mark.parametrize(("earliest", "gone"), [(0, 0), (3, 3)])
def test_a_partition_that_no_record_knows_is_read_from_its_beginning(earliest: int, gone: int) -> None:
    new = ("orders", 1)

    _, found = partitions_after(
        {PLACE: 5}, {PLACE: 5}, {PLACE: PartitionOffsets(0, 5), new: PartitionOffsets(earliest, 9)}
    )

    assert (found.partition, found.start, found.gone, found.unread) == (1, 0, gone, 9 - earliest)


@pytest.mark.parametrize("other", [None, "17", '{"logOffset": 3}', '{"orders": {"a": 1}}', "{}"])
def test_the_offset_of_another_source_is_not_taken_for_kafkas(other: str | None) -> None:
    assert parse_kafka_offset(other) is None
