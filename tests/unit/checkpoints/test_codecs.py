"""Streams of every codec in any pieces, streams that end too early, and headers that lie.

The edges of the formats: what stands behind an end, names at their limit, and files that are not there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import cramjam
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_ha.checkpoints.spark import byte_stream, files, state_records
from airflow_provider_ha.checkpoints.spark.byte_stream import StreamCorruptError, UnsupportedFormatError, decode
from airflow_provider_ha.checkpoints.spark.closure import StateReader
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.rocksdb import ZipCorruptError, read_members
from airflow_provider_ha.checkpoints.spark.sst_block import BlockHandle, index_entries
from airflow_provider_ha.checkpoints.spark.state_store import StateStore
from tests.support.checkpoints.state_files import (
    END,
    LZ4_END,
    lz4_block,
    lz4_stream,
    lzf_stream,
    pairs,
    snappy_stream,
    zip_stream,
)


STREAMS: dict[str, Callable[[bytes], bytes]] = {
    "lz4": lz4_stream,
    "snappy": lambda content: snappy_stream(content[:100], content[100:]),
    "zstd": zstandard.ZstdCompressor().compress,
    "lzf": lambda content: lzf_stream(content[:100], content[100:]) if content[100:] else lzf_stream(content),
}


def decoded(stream: bytes, size: int = 1 << 20) -> bytes:
    """Decode a stream that comes in pieces of *size* bytes."""
    pieces = (stream[at : at + size] for at in range(0, len(stream), size))
    return b"".join(decode(pieces, len(stream)))


def problem(stream: bytes) -> str:
    """Return what is wrong with a stream."""
    with pytest.raises(StreamCorruptError) as caught:
        decoded(stream)
    return str(caught.value)


@pytest.mark.parametrize("codec", STREAMS)
@settings(deadline=None)
@given(content=st.binary(min_size=1, max_size=300), size=st.integers(1, 400))
def test_a_stream_is_read_back_from_pieces_of_any_size(codec: str, content: bytes, size: int) -> None:
    assert decoded(STREAMS[codec](content), size) == content


@pytest.mark.parametrize("codec", ["snappy", "lzf", "lz4"])
def test_a_stream_that_is_cut_ended_prematurely(codec: str) -> None:
    lost = 4 if codec != "lz4" else len(LZ4_END) + 4
    assert "ended prematurely" in problem(STREAMS[codec](b"some bytes that are there" * 3)[:-lost])


def test_a_zstandard_stream_that_is_cut_yields_no_more_than_is_there() -> None:
    content = bytes(range(256)) * 2000
    whole = zstandard.ZstdCompressor().compress(content)
    assert len(decoded(whole[:-10])) < len(content)


@settings(deadline=None)
@given(st.binary(min_size=20, max_size=200), st.data())
def test_a_flipped_byte_in_an_lz4_block_is_found(content: bytes, data: st.DataObject) -> None:
    stream = bytearray(lz4_stream(content))
    at = data.draw(st.integers(21, len(stream) - 22))
    stream[at] ^= 0x55
    assert problem(bytes(stream))


def test_what_comes_before_a_fault_is_read() -> None:
    stream = lz4_block(b"whole") + b"garbage"
    pieces = decode([stream], len(stream))
    assert next(pieces) == b"whole"
    with pytest.raises(StreamCorruptError):
        next(pieces)


def test_what_follows_a_zstandard_frame_does_not_hide_the_frame() -> None:
    stream = zstandard.ZstdCompressor().compress(b"whole") + b"garbage" * 5
    assert next(decode([stream], len(stream))) == b"whole"


def test_nothing_is_asked_for_before_it_is_needed() -> None:
    def pieces() -> Iterator[bytes]:
        yield lz4_block(b"first")
        raise AssertionError("the second piece was asked for")

    assert next(decode(pieces(), 100)) == b"first"


@pytest.mark.parametrize(("stream", "reason"), [(b"", "empty"), (b"something else", "no codec")])
def test_a_file_that_is_not_a_stream_is_reported(stream: bytes, reason: str) -> None:
    assert reason in problem(stream)


# Claims. Each says what is claimed, and what is there.


def test_an_lz4_block_that_claims_two_gigabytes_is_refused() -> None:
    assert "claims 2147483647 bytes, its own limit is 32768" in problem(lz4_block(b"x" * 40, unpacked=0x7FFFFFFF))


def test_an_lz4_block_that_claims_more_than_lz4_can_pack_is_refused() -> None:
    claim = problem(lz4_block(b"x" * 40, unpacked=32 << 20, level=15))
    assert "to 33554432, which LZ4 cannot" in claim


def test_an_lz4_block_that_claims_more_packed_bytes_than_the_file_has_is_refused() -> None:
    claim = problem(lz4_block(b"x" * 40, packed=1000))
    assert "claims 1000 packed bytes, the stream ended prematurely: 11 are there" in claim


def test_an_lz4_block_that_is_not_compressed_has_one_size() -> None:
    block = struct.pack("<8sBIII", b"LZ4Block", 0x15, 3, 4, 0) + b"abc"
    assert "is not compressed, and claims 3 and 4 bytes" in problem(block)


def test_a_snappy_block_that_claims_more_than_the_file_has_is_refused() -> None:
    stream = snappy_stream(b"x")[:16] + struct.pack(">I", 0x7FFFFFFF) + b"abc"
    assert "claims 2147483647 bytes, 3 are there" in problem(stream)


def test_a_snappy_block_that_claims_more_than_snappy_can_pack_is_refused() -> None:
    block = b"\xff\xff\xff\xff\x07" + b"\x00a"
    stream = snappy_stream(b"x")[:16] + struct.pack(">I", len(block)) + block
    assert "of 7 bytes claims to unpack to 2147483647, which Snappy cannot" in problem(stream)


def test_a_snappy_block_that_is_larger_than_we_hold_is_left_alone() -> None:
    block = bytes(cramjam.snappy.compress_raw(bytes(33 << 20)))
    stream = snappy_stream(b"x")[:16] + struct.pack(">I", len(block)) + block
    with pytest.raises(UnsupportedFormatError, match="34603008 bytes"):
        decoded(stream)


def test_a_zstandard_frame_that_claims_a_window_of_two_gigabytes_is_refused() -> None:
    # Window descriptor 0xA8: an exponent of 21 over 1 KiB.
    assert "does not decompress" in problem(b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00")


def test_a_zstandard_stream_that_unpacks_without_end_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = zstandard.ZstdCompressor().compress(bytes(8 << 20))
    assert len(decoded(stream)) == 8 << 20  # below the limit, with any ratio
    monkeypatch.setattr(byte_stream, "_ZSTD_ALWAYS", 1 << 20)
    with pytest.raises(UnsupportedFormatError, match=f"it has {len(stream)} bytes and unpacks to more than 1048576"):
        decoded(stream)


def test_an_lzf_chunk_that_refers_to_before_its_beginning_is_refused() -> None:
    assert "LZF chunk at byte 0 does not decompress" in problem(b"ZV\x01\x00\x02\x00\x05\x20\x09")


def test_an_lzf_chunk_that_has_less_than_it_claims_is_refused() -> None:
    assert "claims 9 bytes and has 3" in problem(b"ZV\x01\x00\x04\x00\x09\x02abc")


def test_what_the_lzf_library_of_spark_wrote_is_read() -> None:
    # Recorded of compress-lzf 1.2.0.
    stream = bytes.fromhex(
        "5a5601003000cc1661207374617465206f6620666577207368617065732c20e0981613000102030405060708090a0b0c0d0e0f10111213"
    )
    assert decoded(stream) == b"a state of few shapes, " * 8 + bytes(range(20))


def test_an_lzf_reference_may_reach_into_what_it_writes() -> None:
    # The literal "ab", then eight bytes from two back.
    assert decoded(b"ZV\x01\x00\x05\x00\x0a\x01ab\xc0\x01") == b"ababababab"


CHANGELOG_2 = b"\0\2v2"
ITEM = (b"key", b"value")
# Four bytes of -1 and more of them: read as the length of a key, they would begin another record.
MORE = b"\xff" * 8


@pytest.mark.parametrize("kind", [0x01, 0x10, 0x11, 0x20, 0x21])
def test_a_changelog_may_hold_every_type_of_record(kind: int) -> None:
    content = CHANGELOG_2 + bytes([kind]) + pairs(ITEM) + b"\0"

    assert state_records.check_changelog([content]) == 1


def test_nothing_behind_the_terminator_is_a_record() -> None:
    assert state_records.check_map([pairs(ITEM) + END + MORE]) == 1


def test_the_blocks_of_an_index_may_become_smaller() -> None:
    # Shared and fresh bytes of the key, the fresh ones, then a handle, or the difference to the last size (zigzag).
    first, second = bytes([0, 1]) + b"a" + bytes([0, 100]), bytes([1, 1]) + b"b" + bytes([79])
    no_restarts = bytes(4)

    found = list(index_entries(first + second + no_restarts, first_keys=False))

    assert found == [BlockHandle(0, 100), BlockHandle(found[0].end, 60)]


@pytest.mark.parametrize(("length", "accepted"), [(255, True), (256, False)])
def test_a_member_has_a_name_that_a_file_system_takes(length: int, accepted: bool) -> None:
    data = b"".join(zip_stream({"n" * length: [b"content"]}))

    try:
        read_members([data], len(data), {})
    except ZipCorruptError:
        assert not accepted
    else:
        assert accepted


@pytest.mark.parametrize("stray", ["x.delta", "².delta", "1-2.delta"])
def test_a_name_that_is_no_number_is_no_version(stray: str, tmp_path: Path) -> None:
    store = StateStore(LocalTree(tmp_path), "state/0/0", frozenset({"1.delta", "2.delta", stray}))

    assert store.unbroken_from("delta", 2) == 1


@pytest.mark.parametrize(("there", "missing"), [("2_x.zip", "3_y.zip"), ("2_x.changelog", "3_y.changelog")])
def test_the_file_that_is_missing_is_named_as_its_neighbours_are(there: str, missing: str, tmp_path: Path) -> None:
    (tmp_path / "state/0/0").mkdir(parents=True)
    (tmp_path / "state/0/0" / there).touch()

    with pytest.raises(files.FileGoneError, match=rf"state/0/0/{missing}"):
        StateReader(LocalTree(tmp_path))._by_id("state/0/0", 3, "y")


def test_a_place_that_cannot_be_looked_at_is_neither_there_nor_absent(tmp_path: Path) -> None:
    no_file_system_has_such_a_name = "x" * 300

    with pytest.raises(files.UnreadableError):
        (LocalTree(tmp_path) / no_file_system_has_such_a_name).is_directory()
