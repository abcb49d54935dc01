"""Records: where they end, of any content and in any pieces."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_ha.checkpoints.spark import state_records
from airflow_provider_ha.checkpoints.spark.byte_stream import StreamCorruptError
from tests.support.checkpoints.state_files import END, pairs


KEYS = st.binary(max_size=6)
VALUES = st.one_of(st.none(), st.binary(max_size=9))
LINE = b'[{"version":3,"checkpointUniqueId":"x"}]'


def typed(kind: int, *items: tuple[bytes, bytes | None]) -> bytes:
    """Write records with a type before each."""
    return b"".join(bytes([kind]) + pairs(item) for item in items)


def in_pieces(content: bytes, size: int) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


def head(version: bytes, line: bytes = b"") -> bytes:
    """Write the head of a changelog."""
    text = struct.pack(">H", len(line)) + line if line else b""
    return struct.pack(">H", len(version)) + version + text


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, VALUES), max_size=40), st.integers(1, 300))
def test_all_records_are_counted_in_whatever_pieces_they_come(items: list[tuple[bytes, bytes]], size: int) -> None:
    assert state_records.check_map(in_pieces(pairs(*items) + END, size)) == len(items)


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, VALUES), max_size=40), st.integers(1, 300))
def test_all_typed_records_are_counted(items: list[tuple[bytes, bytes]], size: int) -> None:
    content = head(b"v2") + typed(0x01, *items) + b"\0"
    assert state_records.check_changelog(in_pieces(content, size)) == len(items)


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(0, 30), st.one_of(st.none(), st.integers(0, 30)), st.integers(0, 3))
def test_runs_of_records_of_one_shape_are_counted(count: int, key: int, value: int | None, others: int) -> None:
    alike = [(b"\xff" * key, None if value is None else b"\xff" * value)] * count
    content = pairs(*alike, *[(b"other", b"shape")] * others, *alike) + END
    assert state_records.check_map([content]) == 2 * count + others


@pytest.mark.parametrize("at", [0, 1, 2, 3, 12, 13, 14, 15])
def test_a_length_that_differs_within_a_run_is_not_passed_over(at: int) -> None:
    content = bytearray(pairs(*[(b"eight by", b"value")] * 100))
    place = 50 * (len(content) // 100) + at
    content[place] ^= 0x40
    with pytest.raises(StreamCorruptError):
        state_records.check_map([bytes(content) + END])


def test_a_type_that_differs_within_a_run_is_not_passed_over() -> None:
    content = bytearray(typed(0x01, *[(b"key", b"value")] * 100))
    content[50 * (len(content) // 100)] = 0x77
    with pytest.raises(StreamCorruptError, match="unknown type 0x77"):
        state_records.check_changelog([head(b"v2") + bytes(content) + b"\0"])


def test_the_end_of_typed_records_within_a_run_is_their_end() -> None:
    run = typed(0x01, *[(b"key", b"value")] * 50)
    assert state_records.check_changelog([head(b"v2") + run + b"\0" + run]) == 50


@pytest.mark.parametrize("lost", [1, 4, 5, 8])
def test_records_without_their_terminator_are_cut(lost: int) -> None:
    with pytest.raises(StreamCorruptError, match="ended prematurely"):
        state_records.check_map([(pairs((b"a", b"1"), (b"b", b"2")) + END)[:-lost]])


def test_a_record_longer_than_the_rest_names_the_remaining_bytes() -> None:
    content = pairs((b"a", b"1")) + struct.pack(">i", 0x7FFFFFFF) + b"abc"
    with pytest.raises(StreamCorruptError, match="2147483647 bytes are claimed at byte 14, 3 are there"):
        state_records.check_map([content])


@pytest.mark.parametrize("content", [struct.pack(">i", -2), pairs((b"", b""))[:4] + struct.pack(">i", -5)])
def test_a_length_below_none_is_impossible(content: bytes) -> None:
    with pytest.raises(StreamCorruptError, match="impossible length"):
        state_records.check_map([content + b"abcdefgh"])


def test_what_follows_the_terminator_is_no_fault() -> None:
    assert state_records.check_map([pairs((b"a", b"1")) + END + b"garbage"]) == 1


@pytest.mark.parametrize("check", [state_records.check_map, state_records.check_changelog])
def test_nothing_behind_the_terminator_is_asked_for(check: Callable[[Iterator[bytes]], int]) -> None:
    def pieces() -> Iterator[bytes]:
        yield END
        raise StreamCorruptError("the stream is broken here")

    assert check(pieces()) == 0


def test_a_version_1_changelog_is_not_taken_for_a_versioned_one() -> None:
    # SPARK-51922: its first two bytes are half a key length.
    assert state_records.check_changelog([pairs((b"v2", b"1")) + END]) == 1


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_versioned_changelog_of_format_2_carries_its_lineage(size: int) -> None:
    content = head(b"v4", LINE) + typed(0x01, (b"a", b"1")) + b"\0"
    assert state_records.lineage(in_pieces(content, size)) == ((3, "x"),)
    assert state_records.check_changelog(in_pieces(content, size)) == 1


def test_a_lineage_that_claims_more_than_is_there_is_cut() -> None:
    with pytest.raises(StreamCorruptError, match="65535 bytes are claimed at byte 6, 10 are there"):
        state_records.lineage([head(b"v4") + b"\xff\xff" + LINE[:10]])


@pytest.mark.parametrize("line", [b"[1]", b"{", b"[" * 60_000, b'[{"version":1e999,"checkpointUniqueId":"x"}]'])
def test_a_lineage_that_is_none_cannot_be_read(line: bytes) -> None:
    with pytest.raises(StreamCorruptError, match="lineage cannot be read"):
        state_records.lineage([head(b"v4", line)])
