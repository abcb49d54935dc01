"""Compressed streams of Spark's state: LZ4 blocks (default), Zstandard, Snappy, LZF.

Invariant: a stream is decoded piece by piece, only as far as the caller reads, and its first fault is raised where it
is reached; the reader of the records decides whether it matters. The first bytes of a file identify its codec: the conf
of its writer may have changed. Lengths in a header are compared with the size of the file before anything is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import cramjam
import xxhash
import zstandard

from airflow_provider_ha.checkpoints.format import lzf
from airflow_provider_ha.checkpoints.format.byte_stream import (
    ByteStream,
    NotLookedIntoError,
    StreamCorruptError,
    StreamCutError,
)


LZ4_MAGIC = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<8sBIII")
_LZ4_RAW, _LZ4_COMPRESSED = 0x10, 0x20
# net.jpountz' LZ4BlockOutputStream: its seed, and it keeps 28 bits of the checksum.
_LZ4_SEED, _LZ4_CHECKSUM_BITS = 0x9747B28C, 0x0FFFFFFF
# The low half of a block's token says how large it may be: 2 to the power of 10 to 25, 32 MiB at most.
_LZ4_LEVEL_BASE = 10
# A byte of an LZ4 length says 255 bytes at most; a Snappy copy of 64 bytes needs three.
_LZ4_RATIO, _SNAPPY_RATIO = 255, 22

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_PIECE = 256 * 1024
# Zstandard states no ratio: a block of zeros takes four bytes. Keys and values of a state reach a few hundred.
_ZSTD_RATIO, _ZSTD_ALWAYS = 1032, 1 << 30

_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER_LENGTH = 16
# Spark's default is 32 KiB. A block must be held to be decoded, so one that is larger than any of LZ4 is left alone.
_SNAPPY_BLOCK = 32 << 20


def decode(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the decompressed bytes of a stream of *size* bytes.

    :raises StreamCorruptError: It is empty, has an unknown beginning, or a fault at the position of the read.
    :raises NotLookedIntoError: It has blocks above the memory limit.
    """
    stream = ByteStream(pieces)
    head = stream.peek(len(LZ4_MAGIC))
    if not head:
        raise StreamCorruptError("the file is empty")
    if head == LZ4_MAGIC:
        return _lz4(stream, size)
    if head.startswith(_ZSTD_MAGIC):
        return _zstd(stream, size)
    if head == _SNAPPY_MAGIC:
        return _snappy(stream, size)
    if head.startswith(lzf.MAGIC):
        return lzf.decode(stream)
    raise StreamCorruptError("it begins with the mark of no codec")


def _lz4(stream: ByteStream, size: int) -> Iterator[bytes]:
    while stream.peek(1):
        at = stream.position
        magic, token, packed, unpacked, checksum = _LZ4_HEADER.unpack(stream.take(_LZ4_HEADER.size))
        if magic != LZ4_MAGIC:
            raise StreamCorruptError(f"no LZ4 block begins at byte {at}")
        if problem := _lz4_claim(token, packed, unpacked):
            raise StreamCorruptError(f"the LZ4 block at byte {at} {problem}")
        if packed > (left := size - stream.position):
            problem = f"claims {packed} packed bytes, the stream ended prematurely: {left} are there"
            raise StreamCutError(f"the LZ4 block at byte {at} {problem}")
        if not unpacked and checksum:
            raise StreamCorruptError(f"the LZ4 block at byte {at} is empty, and has a checksum")
        if unpacked:
            yield _lz4_block(stream.take(packed), token & 0xF0, unpacked, checksum)


def _lz4_claim(token: int, packed: int, unpacked: int) -> str:
    """Return why the lengths of an LZ4 block are impossible; Java's reader refuses the same."""
    limit = 1 << (_LZ4_LEVEL_BASE + (token & 0x0F))
    if unpacked > limit:
        return f"claims {unpacked} bytes, its own limit is {limit}"
    if bool(packed) != bool(unpacked) or unpacked > packed * _LZ4_RATIO:
        return f"claims to unpack {packed} bytes to {unpacked}, which LZ4 cannot"
    if token & 0xF0 not in (_LZ4_RAW, _LZ4_COMPRESSED):
        return f"has the unknown method {token & 0xF0:#x}"
    if token & 0xF0 == _LZ4_RAW and packed != unpacked:
        return f"is not compressed, and claims {packed} and {unpacked} bytes"
    return ""


def _lz4_block(block: bytes, method: int, unpacked: int, checksum: int) -> bytes:
    if method == _LZ4_RAW:
        content = block
    else:
        try:
            content = bytes(cramjam.lz4.decompress_block(block, output_len=unpacked))
        except cramjam.DecompressionError as error:
            raise StreamCorruptError(f"a block does not decompress: {error}") from None
    if len(content) != unpacked or xxhash.xxh32_intdigest(content, _LZ4_SEED) & _LZ4_CHECKSUM_BITS != checksum:
        raise StreamCorruptError("a block's checksum does not fit its content")
    return content


class _Source:
    """A stream as a file to read from."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def read(self, length: int) -> bytes:
        return self._stream.some(length)


def _zstd(stream: ByteStream, size: int) -> Iterator[bytes]:
    left = limit = max(size * _ZSTD_RATIO, _ZSTD_ALWAYS)
    # The library refuses windows above 128 MiB, as Spark's does: the highest level needs that much.
    reader = zstandard.ZstdDecompressor().stream_reader(_Source(stream), read_across_frames=True)  # type: ignore[arg-type]  # reads only
    try:
        # What is at hand, and no more: what follows the records may be no frame at all.
        while piece := reader.read1(_ZSTD_PIECE):
            left -= len(piece)
            if left < 0:
                raise NotLookedIntoError(f"it has {size} bytes and unpacks to more than {limit}")
            yield piece
    except zstandard.ZstdError as error:
        raise StreamCorruptError(f"it does not decompress: {error}") from None


def _snappy(stream: ByteStream, size: int) -> Iterator[bytes]:
    stream.take(_SNAPPY_HEADER_LENGTH)
    while stream.peek(1):
        if stream.peek(len(_SNAPPY_MAGIC)) == _SNAPPY_MAGIC:
            stream.take(_SNAPPY_HEADER_LENGTH)  # streams may be concatenated
            continue
        length, left = int.from_bytes(stream.take(4), "big"), size - stream.position
        if length > left:
            raise StreamCorruptError(f"stream ended prematurely: a block claims {length} bytes, {left} are there")
        if length > _SNAPPY_BLOCK:
            raise NotLookedIntoError(f"it has a Snappy block of {length} bytes")
        yield _snappy_block(stream.take(length))


def _snappy_block(block: bytes) -> bytes:
    try:
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > len(block) * _SNAPPY_RATIO:
            raise StreamCorruptError(
                f"a block of {len(block)} bytes claims to unpack to {claimed}, which Snappy cannot"
            )
        if claimed > _SNAPPY_BLOCK:
            raise NotLookedIntoError(f"it has a Snappy block of {claimed} bytes")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise StreamCorruptError(f"a block does not decompress: {error}") from None
