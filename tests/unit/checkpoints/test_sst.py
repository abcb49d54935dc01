"""Tables of RocksDB made by program: what they claim, what is unknown of them, and what it takes to look into them."""

from __future__ import annotations

import bz2
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import zstandard

from airflow_provider_ha.checkpoints.spark.byte_stream import UnsupportedFormatError
from airflow_provider_ha.checkpoints.spark.checksums import SinglePass
from airflow_provider_ha.checkpoints.spark.files import opened
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.sst_table import check_table
from airflow_provider_ha.errors import CheckpointCorruptError
from tests.support.checkpoints.state_files import write
from tests.support.checkpoints.table_files import block_of, index_block, table, varint, xxh3_of


BLOCKS = [b"first block", b"second block", b"x" * 300_000]
FOOTER = 53


def check(tmp_path: Path, pieces: Iterable[bytes]) -> None:
    """Check a table as a file."""
    write(tmp_path / "1.sst", pieces)
    with opened(LocalTree(tmp_path), "1.sst") as file:
        check_table("1.sst", SinglePass(file))


def problem(tmp_path: Path, pieces: Iterable[bytes]) -> str:
    with pytest.raises(CheckpointCorruptError) as caught:
        check(tmp_path, pieces)
    return caught.value.reason


def unknown(tmp_path: Path, pieces: Iterable[bytes]) -> str:
    with pytest.raises(UnsupportedFormatError) as caught:
        check(tmp_path, pieces)
    return str(caught.value)


def footer_changed(place: int, value: bytes) -> bytes:
    """Return a table with other bytes at a place of its footer."""
    whole = bytearray(b"".join(table(BLOCKS)))
    begin = len(whole) - FOOTER + place
    whole[begin : begin + len(value)] = value
    return bytes(whole)


def index_at(*places: tuple[int, int]) -> bytes:
    return index_block(list(places))


@pytest.mark.parametrize("version", [5, 6, 7])
def test_a_whole_table_is_whole(tmp_path: Path, version: int) -> None:
    check(tmp_path, table(BLOCKS, version=version))


@pytest.mark.parametrize("version", [5, 6, 7])
@pytest.mark.parametrize("at", [0, 20, 40, 299_000])
def test_a_flipped_byte_names_its_block(tmp_path: Path, at: int, version: int) -> None:
    whole = bytearray(b"".join(table(BLOCKS, version=version)))
    whole[at] ^= 1
    assert "does not have its XXH3 checksum" in problem(tmp_path, [bytes(whole)])


@pytest.mark.parametrize("version", [6, 7])
def test_every_byte_of_a_footer_that_has_a_checksum_counts(tmp_path: Path, version: int) -> None:
    whole = b"".join(table(BLOCKS, version=version))
    for place in range(len(whole) - FOOTER, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        assert problem(tmp_path, [bytes(damaged)])


def test_blocks_that_changed_places_do_not_have_their_checksums(tmp_path: Path) -> None:
    one, other = b"one block", b"two block"
    whole = b"".join(table([one, other], version=6))
    assert "at byte 0" in problem(tmp_path, [whole[14:28], whole[:14], whole[28:]])


def test_a_reserved_feature_of_the_footer_is_left_alone(tmp_path: Path) -> None:
    whole = b"".join(table(BLOCKS, version=6))
    footer = bytearray(whole[-FOOTER:])
    footer[5:9], footer[33] = bytes(4), 1
    (base,) = struct.unpack_from("<I", footer, 9)
    footer[5:9] = struct.pack("<I", xxh3_of(bytes(footer[:-1]), footer[-1], base, len(whole) - FOOTER))
    assert "names a feature" in unknown(tmp_path, [whole[:-FOOTER], bytes(footer)])


# Claims. Each says what is claimed, and what is there.


@pytest.mark.parametrize("place", [(1 << 60, 10), (0, 1 << 60), (1 << 63, 1 << 63), (300_000, 400_000)])
def test_an_index_that_points_out_of_the_file_is_refused(tmp_path: Path, place: tuple[int, int]) -> None:
    found = problem(tmp_path, table(BLOCKS, lambda _: index_at(place)))
    assert f"a block of {place[1]} bytes at byte {place[0]} is claimed, the file has 300" in found


def test_a_footer_that_points_out_of_the_file_is_refused(tmp_path: Path) -> None:
    claim = varint(1 << 40) + varint(1 << 50) + varint(0) + varint(0)
    assert f"claims a block of {1 << 50} bytes" in problem(tmp_path, [footer_changed(1, claim)])


def test_an_index_whose_entries_reach_out_of_it_is_refused(tmp_path: Path) -> None:
    block = b"\0" + varint(1 << 40) + varint(4) + b"abcdefgh" + struct.pack("<II", 0, 1)
    assert "exceeds the block" in problem(tmp_path, table(BLOCKS, lambda _: block))


def test_an_index_that_claims_more_restart_points_than_it_has_bytes_is_refused(tmp_path: Path) -> None:
    block = b"abc" + struct.pack("<I", (1 << 28) - 1)
    assert "more restart points than it can hold" in problem(tmp_path, table(BLOCKS, lambda _: block))


def test_an_index_that_claims_to_unpack_to_gigabytes_is_not_unpacked(tmp_path: Path) -> None:
    packed = varint(1 << 32) + zstandard.ZstdCompressor().compress(bytes(1 << 20))
    pieces = list(table(BLOCKS, lambda _: packed, index_compression=7))
    tracemalloc.start()
    found = unknown(tmp_path, pieces)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "unpacks to 4294967296 bytes" in found
    assert peak < 5 << 20


def test_an_index_whose_frame_claims_another_size_than_the_block_is_refused(tmp_path: Path) -> None:
    frame = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 40) + b"\x01\0\0"
    found = problem(tmp_path, table(BLOCKS, lambda _: varint(1000) + frame, index_compression=7))
    assert "claims to unpack to 1000 bytes and does not" in found


@pytest.mark.parametrize("compression", [1, 2, 3, 4, 7])
def test_an_index_that_does_not_unpack_is_refused(tmp_path: Path, compression: int) -> None:
    packed = varint(1000) + b"\xfe\xfdgarbage" * 5
    found = problem(tmp_path, table(BLOCKS, lambda _: packed, index_compression=compression))
    assert "does not decompress" in found or "claims to unpack to" in found


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("compression", "pack"),
    [(2, raw_deflate), (3, bz2.compress)],
)
@pytest.mark.parametrize("claimed", [29, 31])
def test_an_index_that_unpacks_to_another_size_than_it_claims_is_refused(
    tmp_path: Path, compression: int, pack: Callable[[bytes], bytes], claimed: int
) -> None:
    packed = varint(claimed) + pack(bytes(30))
    found = problem(tmp_path, table(BLOCKS, lambda _: packed, index_compression=compression))
    assert f"claims to unpack to {claimed} bytes and does not" in found


def test_an_index_of_differences_that_names_a_block_of_less_than_nothing_is_refused(tmp_path: Path) -> None:
    properties = block_of([(b"rocksdb.index.value.is.delta.encoded", b"\1")])
    # The size of the second block is 200 bytes less than that of the first.
    index = b"\0\1k" + varint(0) + varint(len(properties)) + b"\1\1k" + varint(2 * 200 - 1) + struct.pack("<II", 0, 1)
    pieces = table([properties], lambda _: index, {b"rocksdb.properties": varint(0) + varint(len(properties))})
    assert "exceeds the index" in problem(tmp_path, pieces)


def test_an_index_that_names_one_block_often_is_not_followed(tmp_path: Path) -> None:
    often = index_at(*[(0, len(BLOCKS[2]))] * 100)
    assert "some overlap" in problem(tmp_path, table([BLOCKS[2]], lambda _: often))


def test_names_that_all_share_a_huge_one_are_not_kept_for_each(tmp_path: Path) -> None:
    place = varint(0) + varint(len(BLOCKS[0]))
    first = b"\0" + varint(40_000) + varint(2) + b"n" * 40_000 + place
    more = (varint(39_999) + b"\1" + varint(2) + b"n" + place) * 2000
    write(tmp_path / "1.sst", table(BLOCKS, meta=first + more + struct.pack("<II", 0, 1)))
    tracemalloc.start()
    with opened(LocalTree(tmp_path), "1.sst") as file:
        check_table("1.sst", SinglePass(file))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 << 20


def test_a_footer_that_names_another_version_than_the_properties_is_damaged(tmp_path: Path) -> None:
    properties = block_of([(b"rocksdb.format.version", b"\5")])
    whole = bytearray(b"".join(table([properties], meta={b"rocksdb.properties": varint(0) + varint(len(properties))})))
    check(tmp_path, [bytes(whole)])
    whole[-12] = 4
    assert "format version 4, its properties 5" in problem(tmp_path, [bytes(whole)])


def test_a_huge_index_is_not_held_and_damage_in_it_is_found(tmp_path: Path) -> None:
    whole = bytearray(b"".join(table(BLOCKS, lambda _: bytes(9 << 20))))
    assert f"its index has {9 << 20} bytes" in unknown(tmp_path, [bytes(whole)])
    whole[5 << 20] ^= 1
    assert f"the block of {9 << 20} bytes" in problem(tmp_path, [bytes(whole)])


def test_a_huge_metaindex_is_not_held(tmp_path: Path) -> None:
    pieces = table(BLOCKS, meta={b"name%05d" % number: b"\0\0" for number in range(10_000)})
    assert "its metaindex has" in unknown(tmp_path, pieces)


# What is not known is never called corrupt.


@pytest.mark.parametrize("magic", ["4f3418eb7a8f13b8", "8242229663bf9564", "926789d0c5f17873", "db4775248b80fb57"])
def test_a_table_of_another_format_is_left_alone(tmp_path: Path, magic: str) -> None:
    assert "another format" in unknown(tmp_path, [footer_changed(45, bytes.fromhex(magic)[::-1])])


def test_what_ends_as_no_table_is_none(tmp_path: Path) -> None:
    assert "does not end" in problem(tmp_path, [footer_changed(45, b"\0")])


@pytest.mark.parametrize("size", [1, 7, 8, 52])
def test_a_file_that_has_no_room_for_a_footer_is_no_table(tmp_path: Path, size: int) -> None:
    whole = b"".join(table(BLOCKS))
    assert problem(tmp_path, [whole[-size:]])


def later_table(version: int, kind: int) -> bytes:
    """Return a table as a later RocksDB could write it: nothing of it fits what is known."""
    footer = bytes([kind]) + b"\x77" * 40 + struct.pack("<I", version) + bytes.fromhex("f7cff485b741e288")
    return b"other blocks" * 100 + footer


def test_a_later_format_version_is_left_alone(tmp_path: Path) -> None:
    assert "unknown format version 8" in unknown(tmp_path, [later_table(8, 4)])


def test_an_unknown_kind_of_checksum_is_left_alone(tmp_path: Path) -> None:
    assert "unknown kind of checksum 5" in unknown(tmp_path, [later_table(5, 5)])


def test_a_kind_of_checksum_that_fits_no_block_when_another_does_is_damage(tmp_path: Path) -> None:
    assert "its blocks are of version 5 with XXH3" in problem(tmp_path, [footer_changed(0, b"\x09")])


def test_an_index_of_an_unknown_type_is_left_alone(tmp_path: Path) -> None:
    properties = block_of([(b"rocksdb.block.based.table.index.type", struct.pack("<I", 9))])
    pieces = table([properties], meta={b"rocksdb.properties": varint(0) + varint(len(properties))})
    assert "unknown type 9" in unknown(tmp_path, pieces)


def test_an_index_with_an_unknown_compression_is_left_alone(tmp_path: Path) -> None:
    assert "unknown compression 128" in unknown(tmp_path, table(BLOCKS, index_compression=128))


def test_an_index_with_an_unknown_layout_is_left_alone(tmp_path: Path) -> None:
    block = b"abcdefgh" + struct.pack("<I", 1 << 28 | 1)
    assert "unknown layout" in unknown(tmp_path, table(BLOCKS, lambda _: block))


def test_damage_is_found_although_other_parts_are_unknown(tmp_path: Path) -> None:
    meta = {b"filter": varint(0) + varint(len(BLOCKS[0]))}
    whole = bytearray(b"".join(table(BLOCKS, meta=meta, index_compression=128)))
    whole[3] ^= 1
    assert "the block of 11 bytes at byte 0" in problem(tmp_path, [bytes(whole)])


def test_bytes_that_no_index_names_are_said_to_be_unknown(tmp_path: Path) -> None:
    found = unknown(tmp_path, table(BLOCKS, lambda places: index_block(places[1:])))
    assert "16 of its bytes are in no block that is known" in found
