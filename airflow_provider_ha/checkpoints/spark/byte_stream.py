"""Streams of Spark's state: a cursor over bytes in pieces, and the codecs LZ4, Zstandard, Snappy and LZF.

Invariant: the cursor holds at most the current piece and the bytes of a request. The caller limits a length from a
header before it requests that many bytes.

Invariant: a chunk holds 64 KiB at most by its own 16-bit lengths, so nothing that it claims needs a bound of ours.

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


class StreamCorruptError(ValueError):
    """The bytes are not a whole stream; the text says where and why."""


class StreamCutError(StreamCorruptError):
    """The bytes end before the stream does: Java's readers take that for its end."""


class UnsupportedFormatError(ValueError):
    """The bytes are of a kind, or in pieces of a size, that is not read here: they are not judged."""


class ByteStream:
    """A cursor.

    :param pieces: The bytes in their order; none is kept longer than it is needed.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._passed = 0
        # A caller that skips thousands of small records uses these two directly, without a call for each.
        self.buffer = b""
        self.at = 0

    @property
    def position(self) -> int:
        """Number of bytes before the cursor."""
        return self._passed + self.at

    def peek(self, length: int) -> bytes:
        """Return the next *length* bytes and stay before them; fewer at the end."""
        while len(self.buffer) - self.at < length and self._more():
            pass
        return self.buffer[self.at : self.at + length]

    def take(self, length: int) -> bytes:
        """Return the next *length* bytes.

        :raises StreamCorruptError: Fewer are left.
        """
        taken = self.peek(length)
        if len(taken) < length:
            raise self._cut(length, len(taken))
        self.at += length
        return taken

    def some(self, limit: int) -> bytes:
        """Return the next bytes, as many as are at hand but *limit* at most; none at the end."""
        while self.at == len(self.buffer) and self._more():
            pass
        taken = self.buffer[self.at : self.at + limit]
        self.at += len(taken)
        return taken

    def skip(self, length: int) -> None:
        """Pass over *length* bytes without holding them; raises as :meth:`take` does."""
        left = length
        while left > len(self.buffer) - self.at:
            left -= len(self.buffer) - self.at
            self.at = len(self.buffer)
            if not self._more():
                raise self._cut(length, length - left)
        self.at += left

    def back(self, length: int) -> None:
        """Give back the last *length* bytes, which :meth:`some` has just returned."""
        self.at -= length

    def _more(self) -> bool:
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._passed += self.at
        self.buffer = self.buffer[self.at :] + piece if self.at < len(self.buffer) else piece
        self.at = 0
        return True

    def _cut(self, length: int, there: int) -> StreamCutError:
        begin = self.position - there if self.at == len(self.buffer) else self.position
        return StreamCutError(
            f"stream ended prematurely: {length} bytes are claimed at byte {begin}, {there} are there"
        )


LZF_MAGIC = b"ZV"
_RAW, _COMPRESSED = 0, 1
# A control byte below it begins a run of literals; above it, a reference back of up to 8 KiB.
_LITERALS = 32
# Of the three bits of a length, the value that says that one more byte follows.
_LONG = 7


def decode_lzf(stream: ByteStream) -> Iterator[bytes]:
    """Yield the contents of the chunks of *stream*.

    :raises StreamCorruptError: A chunk is cut, or is not LZF.
    """
    while stream.peek(1):
        at = stream.position
        head = stream.take(5)
        packed = int.from_bytes(head[3:], "big")
        if head[:2] != LZF_MAGIC or head[2] not in {_RAW, _COMPRESSED}:
            raise StreamCorruptError(f"no LZF chunk begins at byte {at}")
        if head[2] == _RAW:
            yield stream.take(packed)
        else:
            unpacked = int.from_bytes(stream.take(2), "big")
            yield _chunk(stream.take(packed), unpacked, at)


def _chunk(data: bytes, unpacked: int, at: int) -> bytes:
    content = bytearray()
    try:
        _expand(data, content)
    except IndexError:
        raise StreamCorruptError(f"the LZF chunk at byte {at} does not decompress") from None
    if len(content) != unpacked:
        raise StreamCorruptError(f"the LZF chunk at byte {at} claims {unpacked} bytes and has {len(content)}")
    return bytes(content)


def _expand(data: bytes, content: bytearray) -> None:
    """Append what *data* says to *content*; raises ``IndexError`` when it says nothing that can be."""
    at = 0
    while at < len(data):
        control = data[at]
        at += 1
        if control < _LITERALS:
            content += data[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == _LONG:
            length += data[at]
            at += 1
        begin = len(content) - ((control & 0x1F) << 8 | data[at]) - 1
        at += 1
        if begin < 0:
            raise IndexError(begin)
        _repeat(content, begin, length + 2)


def _repeat(content: bytearray, begin: int, length: int) -> None:
    # What is repeated may reach into what is being written: then it is a pattern.
    pattern = content[begin : begin + length]
    content += (pattern * (length // len(pattern) + 1))[:length]


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
    if head.startswith(LZF_MAGIC):
        return decode_lzf(stream)
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
                raise UnsupportedFormatError(f"it has {size} bytes and unpacks to more than {limit}")
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
            raise UnsupportedFormatError(f"it has a Snappy block of {length} bytes")
        yield _snappy_block(stream.take(length))


def _snappy_block(block: bytes) -> bytes:
    try:
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > len(block) * _SNAPPY_RATIO:
            raise StreamCorruptError(
                f"a block of {len(block)} bytes claims to unpack to {claimed}, which Snappy cannot"
            )
        if claimed > _SNAPPY_BLOCK:
            raise UnsupportedFormatError(f"it has a Snappy block of {claimed} bytes")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise StreamCorruptError(f"a block does not decompress: {error}") from None
