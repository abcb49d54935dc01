"""Block of a RocksDB table file: position, compression, checksum, and entries of index blocks.

Written after RocksDB's ``table/format.cc`` and ``table/block_based``. Every block is followed by five bytes: its
compression, and a checksum over block and compression.

Follows ``ComputeBuiltinChecksum`` of RocksDB's ``table/format.cc``.
"""

from __future__ import annotations

import bz2
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import cramjam
import google_crc32c
import xxhash
import zstandard

from airflow_provider_ha.checkpoints.spark.byte_stream import StreamCorruptError, UnsupportedFormatError


NO_SUM, _CRC32C, _XXH32, _XXH64, _XXH3 = range(5)
SUMS = {NO_SUM: "none", _CRC32C: "CRC32C", _XXH32: "xxHash", _XXH64: "xxHash64", _XXH3: "XXH3"}
_MASK = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8
_LAST_BYTE_PRIME = 0x6B9083D9


class _Crc32c:
    def __init__(self) -> None:
        self._value = 0

    def update(self, piece: bytes) -> None:
        self._value = google_crc32c.extend(self._value, piece)

    def intdigest(self) -> int:
        # RocksDB stores it turned and moved: a checksum of bytes that hold checksums is a weak one.
        return (self._value >> 15 | self._value << 17) + _MASK_DELTA


class _Nothing:
    def update(self, piece: bytes) -> None:
        pass

    def intdigest(self) -> int:
        return 0


class _State(Protocol):
    def update(self, piece: bytes, /) -> None: ...

    def intdigest(self) -> int: ...


_STATES: dict[int, Callable[[], _State]] = {
    NO_SUM: _Nothing,
    _CRC32C: _Crc32c,
    _XXH32: xxhash.xxh32,
    _XXH64: xxhash.xxh64,
    _XXH3: xxhash.xxh3_64,
}


class BlockSum:
    """RocksDB's checksum of a block and the byte after it, in 32 bits."""

    def __init__(self, kind: int) -> None:
        self._kind = kind
        self._state = _STATES[kind]()

    def add(self, piece: bytes) -> None:
        """Take the next bytes of the block."""
        self._state.update(piece)

    def value(self, last: bytes) -> int:
        """Return the checksum; *last* is the byte after the block."""
        if self._kind == _XXH3:
            return (self._state.intdigest() ^ last[0] * _LAST_BYTE_PRIME) & _MASK
        self._state.update(last)
        return self._state.intdigest() & _MASK


def block_sum(kind: int, block: bytes) -> int:
    """Return the checksum of a block that is at hand, with the byte after it."""
    if kind == _XXH3:
        return (xxhash.xxh3_64_intdigest(block[:-1]) ^ block[-1] * _LAST_BYTE_PRIME) & _MASK
    whole = BlockSum(kind)
    return whole.value(block)


def checksum_context(base: int, offset: int) -> int:
    """Return the addend of the checksum of the block at *offset*, which detects misplaced blocks.

    :param base: From the footer; 0 before format version 6.
    """
    return (base ^ (offset + (offset >> 32)) & _MASK) if base else 0


TRAILER = struct.Struct("<BI")
# What is held of a table at once. The index of a table of 1 GiB fits, and those of Spark's stores have 64 MiB.
HELD = 8 << 20
_PLAIN, _SNAPPY, _ZLIB, _BZIP2, _LZ4, _LZ4HC, _ZSTD = 0, 1, 2, 3, 4, 5, 7
# The low bits count the restart points. With bit 28 the values are elsewhere; bit 30 means nothing yet.
_RESTARTS, _UNKNOWN_LAYOUT = (1 << 28) - 1, 1 << 28 | 1 << 30
# A number of 64 bits has ten groups of seven.
_LAST_SHIFT = 63
_NAME = 256


class BlockHandle(NamedTuple):
    """Position of a block.

    :param size: Bytes, without the trailer of five bytes.
    """

    offset: int
    size: int

    @property
    def end(self) -> int:
        """First byte after it and its trailer."""
        return self.offset + self.size + TRAILER.size


def unpack(data: bytes, compression: int) -> bytes:
    """Return the content of a block.

    :raises StreamCorruptError: It does not decompress.
    :raises NotLookedIntoError: It is compressed in a way that is not known here, or too large to be held.
    """
    if compression == _PLAIN:
        return data
    if compression not in {_SNAPPY, _ZLIB, _BZIP2, _LZ4, _LZ4HC, _ZSTD}:
        raise UnsupportedFormatError(f"its index has the unknown compression {compression}")
    try:
        if compression == _SNAPPY:
            size, begin = cramjam.snappy.decompress_raw_len(data), 0
        else:
            size, begin = varint(data, 0)
        if size > HELD:
            raise UnsupportedFormatError(f"its index unpacks to {size} bytes")
        content = _decompressed(data[begin:], compression, size)
    except (cramjam.DecompressionError, zlib.error, zstandard.ZstdError, OSError) as error:
        raise StreamCorruptError(f"a block does not decompress: {error}") from None
    if len(content) != size:
        raise StreamCorruptError(f"a block claims to unpack to {size} bytes and does not")
    return content


def _decompressed(data: bytes, compression: int, size: int) -> bytes:
    # Where a decoder would go on, its limit is one byte above the claimed size.
    if compression == _SNAPPY:
        return bytes(cramjam.snappy.decompress_raw(data))
    if compression in {_LZ4, _LZ4HC}:
        return bytes(cramjam.lz4.decompress_block(data, output_len=size))
    if compression == _ZLIB:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, size + 1)
    if compression == _BZIP2:
        return bz2.BZ2Decompressor().decompress(data, size + 1)
    # The frame states its size as well, and the library trusts that one.
    if zstandard.frame_content_size(data) not in {-1, size}:
        raise StreamCorruptError(f"a block claims to unpack to {size} bytes and does not")
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return (value, first byte after it) of a number of variable length.

    :raises StreamCorruptError: None ends here.
    """
    value = shift = 0
    try:
        if data[at] < 0x80:  # noqa: PLR2004  # most have one byte
            return data[at], at + 1
        while shift <= _LAST_SHIFT:
            byte = data[at]
            at += 1
            if byte < 0x80:  # noqa: PLR2004  # the bit that says that more follows
                return value | byte << shift, at
            value |= (byte & 0x7F) << shift
            shift += 7
    except IndexError:
        pass
    raise StreamCorruptError("a number in it does not end")


def parse_handle(data: bytes, at: int = 0) -> tuple[BlockHandle, int]:
    """Return (handle, first byte after it); raises as :func:`varint` does."""
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return BlockHandle(offset, size), at


def entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block; long keys are cut, as names are short.

    :raises StreamCorruptError: The entries do not match its size.
    :raises NotLookedIntoError: Its layout is unknown here.
    """
    at, end, key, key_length = 0, _entries_end(block), b"", 0
    while at < end:
        shared, fresh, length = block[at : at + 3]
        if (shared | fresh | length) < 0x80:  # noqa: PLR2004  # all short: the ordinary case, without a call for each
            at += 3
        else:
            shared, at = varint(block, at)
            fresh, at = varint(block, at)
            length, at = varint(block, at)
        if shared > key_length or at + fresh + length > end:
            raise StreamCorruptError("an entry of a block exceeds the block")
        # A long key that all share must not be copied for each.
        key, key_length = (key[:shared] + block[at : at + fresh])[:_NAME], shared + fresh
        yield key, block[at + fresh : at + fresh + length]
        at += fresh + length


def index_entries(block: bytes, *, first_keys: bool) -> Iterator[BlockHandle]:
    """Yield the handles of an index whose values are differences; raises as :func:`entries` does.

    :param first_keys: Whether each is followed by the first key of its block.
    """
    at, end, last = 0, _entries_end(block), BlockHandle(0, 0)
    while at < end:
        shared, fresh = block[at : at + 2]
        if (shared | fresh) < 0x80:  # noqa: PLR2004  # as above
            at += 2 + fresh
        else:
            shared, at = varint(block, at)
            fresh, at = varint(block, at)
            at += fresh
        if shared:
            difference, at = varint(block, at)
            last = BlockHandle(last.end, last.size + ((difference >> 1) ^ -(difference & 1)))
        else:
            last, at = parse_handle(block, at)
        if first_keys:
            length, at = varint(block, at)
            at += length
        if at > end or last.size < 0:
            raise StreamCorruptError("an entry of an index exceeds the index")
        yield last


def _entries_end(block: bytes) -> int:
    if len(block) < 4:  # noqa: PLR2004  # the number of restart points
        raise StreamCorruptError("a block is too short to be one")
    packed = int.from_bytes(block[-4:], "little")
    if packed & _UNKNOWN_LAYOUT:
        raise UnsupportedFormatError("its index has an unknown layout")
    end = len(block) - 4 - 4 * (packed & _RESTARTS)
    if end < 0:
        raise StreamCorruptError("a block claims more restart points than it can hold")
    return end
