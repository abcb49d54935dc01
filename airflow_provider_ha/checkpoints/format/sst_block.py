"""Block of a RocksDB table file: position, compression, and entries of index blocks.

Written after RocksDB's ``table/format.cc`` and ``table/block_based``. Every block is followed by five bytes: its
compression, and a checksum over block and compression.
"""

from __future__ import annotations

import bz2
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import cramjam
import zstandard

from airflow_provider_ha.checkpoints.format.byte_stream import NotLookedIntoError, StreamCorruptError


TRAILER = struct.Struct("<BI")
# What is held of a table at once. The index of a table of 1 GiB fits, and those of Spark's stores have 64 MiB.
HELD = 8 << 20
_PLAIN, _SNAPPY, _ZLIB, _BZIP2, _LZ4, _LZ4HC, _ZSTD = 0, 1, 2, 3, 4, 5, 7
# The low bits count the restart points. With bit 28 the values are elsewhere; bit 30 means nothing yet.
_RESTARTS, _UNKNOWN_LAYOUT = (1 << 28) - 1, 1 << 28 | 1 << 30
# A number of 64 bits has ten groups of seven.
_LAST_SHIFT = 63
_NAME = 256


class Handle(NamedTuple):
    """Position of a block.

    :param offset: First byte.
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
        raise NotLookedIntoError(f"its index has the unknown compression {compression}")
    try:
        if compression == _SNAPPY:
            size, begin = cramjam.snappy.decompress_raw_len(data), 0
        else:
            size, begin = varint(data, 0)
        if size > HELD:
            raise NotLookedIntoError(f"its index unpacks to {size} bytes")
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


def handle(data: bytes, at: int = 0) -> tuple[Handle, int]:
    """Return (handle, first byte after it); raises as :func:`varint` does."""
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return Handle(offset, size), at


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
            raise StreamCorruptError("an entry of a block reaches out of it")
        # A long key that all share must not be copied for each.
        key, key_length = (key[:shared] + block[at : at + fresh])[:_NAME], shared + fresh
        yield key, block[at + fresh : at + fresh + length]
        at += fresh + length


def index_entries(block: bytes, *, first_keys: bool) -> Iterator[Handle]:
    """Yield the handles of an index whose values are differences; raises as :func:`entries` does.

    :param first_keys: Whether each is followed by the first key of its block.
    """
    at, end, last = 0, _entries_end(block), Handle(0, 0)
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
            last = Handle(last.end, last.size + ((difference >> 1) ^ -(difference & 1)))
        else:
            last, at = handle(block, at)
        if first_keys:
            length, at = varint(block, at)
            at += length
        if at > end or last.size < 0:
            raise StreamCorruptError("an entry of an index reaches out of it")
        yield last


def _entries_end(block: bytes) -> int:
    if len(block) < 4:  # noqa: PLR2004  # the number of restart points
        raise StreamCorruptError("a block is too short to be one")
    packed = int.from_bytes(block[-4:], "little")
    if packed & _UNKNOWN_LAYOUT:
        raise NotLookedIntoError("its index has an unknown layout")
    end = len(block) - 4 - 4 * (packed & _RESTARTS)
    if end < 0:
        raise StreamCorruptError("a block claims more restart points than it can hold")
    return end
