"""Checksums and records, against values that others published, and streams that end too early."""

from __future__ import annotations

import struct

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ha.checkpoints.format import crc, records
from airflow_provider_ha.checkpoints.format.codecs import Decoded, StreamCorruptError, decode


def test_crc32c_has_the_check_value_of_its_standard() -> None:
    assert crc.crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0x02CC5D05), (b"abc", 0x32D153FF), (b"Nobody inspects the spammish repetition", 0xE2293B2F)],
)
def test_xxhash32_has_the_published_values(data: bytes, expected: int) -> None:
    assert crc.xxhash32(data, 0) == expected


def lz4_stream(content: bytes) -> bytes:
    """Write what Java's LZ4BlockOutputStream writes."""
    block = bytes(cramjam.lz4.compress_block(content, store_size=False))
    total = crc.xxhash32(content, 0x9747B28C) & 0x0FFFFFFF
    head = struct.pack("<8sBIII", b"LZ4Block", 0x25, len(block), len(content), total)
    return head + block + struct.pack("<8sBIII", b"LZ4Block", 0x15, 0, 0, 0)


@given(st.binary(min_size=1, max_size=300))
def test_an_lz4_stream_is_read_back(content: bytes) -> None:
    assert decode(lz4_stream(content)) == Decoded(content)


@given(st.binary(min_size=20, max_size=200), st.data())
def test_a_flipped_byte_in_an_lz4_block_is_found(content: bytes, data: st.DataObject) -> None:
    stream = bytearray(lz4_stream(content))
    at = data.draw(st.integers(21, len(stream) - 22))
    stream[at] ^= 0x55
    assert decode(bytes(stream)).problem


def pairs(*items: tuple[bytes, bytes | None]) -> bytes:
    """Write records as the HDFS provider does."""
    written = b""
    for key, value in items:
        written += struct.pack(">i", len(key)) + key
        written += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return written + struct.pack(">i", -1)


def test_records_end_at_their_terminator() -> None:
    assert records.check_map(pairs((b"a", b"1"), (b"b", None))) == 2


@pytest.mark.parametrize("lost", [1, 4, 5, 8])
def test_records_without_their_terminator_are_cut(lost: int) -> None:
    with pytest.raises(StreamCorruptError):
        records.check_map(pairs((b"a", b"1"), (b"b", b"2"))[:-lost])


def test_a_version_1_changelog_is_not_taken_for_a_versioned_one() -> None:
    # SPARK-51922: its first two bytes are half a key length.
    assert records.check_changelog(pairs((b"v2", b"1"))) == 1


def test_a_versioned_changelog_of_format_2_carries_its_lineage() -> None:
    line = b'[{"version":3,"checkpointUniqueId":"x"}]'
    head = b"\x00\x02v4" + struct.pack(">H", len(line)) + line
    put = b"\x01" + struct.pack(">i", 1) + b"a" + struct.pack(">i", 1) + b"1"
    assert records.lineage(head + put + b"\x00") == ((3, "x"),)
    assert records.check_changelog(head + put + b"\x00") == 1
