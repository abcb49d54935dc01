"""The LZF streams of the compress-lzf library, which Spark's codec ``lzf`` writes.

Invariant: a chunk holds 64 KiB at most by its own 16-bit lengths, so nothing that it claims needs a bound of ours.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ha.checkpoints.format.byte_stream import ByteStream, StreamCorruptError


MAGIC = b"ZV"
_RAW, _COMPRESSED = 0, 1
# A control byte below it begins a run of literals; above it, a reference back of up to 8 KiB.
_LITERALS = 32
# Of the three bits of a length, the value that says that one more byte follows.
_LONG = 7


def decode(stream: ByteStream) -> Iterator[bytes]:
    """Yield the contents of the chunks of *stream*.

    :raises StreamCorruptError: A chunk is cut, or is not LZF.
    """
    while stream.peek(1):
        at = stream.position
        head = stream.take(5)
        packed = int.from_bytes(head[3:], "big")
        if head[:2] != MAGIC or head[2] not in {_RAW, _COMPRESSED}:
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
