"""The compressed streams that Spark writes state in: LZ4 blocks (default), Zstandard, Snappy.

Invariant: a stream is read to its end or to its first fault, and the fault is told; whether it matters is the business
of who reads the records. Which codec a file has is seen from its first bytes: the conf that named it may have changed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import cramjam

from airflow_provider_ha.checkpoints.format.crc import xxhash32


class StreamCorruptError(ValueError):
    """The bytes are not a whole stream; the text says where and why."""


class UnknownCodecError(ValueError):
    """The stream is of a codec that we cannot read (LZF): nothing is known about its content."""


_LZ4_MAGIC = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<8sBIII")
_LZ4_RAW, _LZ4_COMPRESSED = 0x10, 0x20
# net.jpountz' LZ4BlockOutputStream: its seed, and it keeps 28 bits of the checksum.
_LZ4_SEED, _LZ4_CHECKSUM_BITS = 0x9747B28C, 0x0FFFFFFF
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER_LENGTH = 16
_LZF_MAGIC = b"ZV"


@dataclass(frozen=True, slots=True)
class Decoded:
    """What could be read of a stream.

    :param content: Everything up to the first fault.
    :param problem: That fault; empty when the stream is whole.
    """

    content: bytes
    problem: str = ""


def decode(data: bytes) -> Decoded:
    """Read a stream as far as it goes.

    :raises StreamCorruptError: It is empty, or begins as no stream does.
    :raises UnknownCodecError: It is of a codec that we cannot read.
    """
    if not data:
        raise StreamCorruptError("the file is empty")
    if data.startswith(_LZ4_MAGIC):
        return _collect(_lz4(data))
    if data.startswith(_ZSTD_MAGIC):
        return _zstd(data)
    if data.startswith(_SNAPPY_MAGIC):
        return _collect(_snappy(data))
    if data.startswith(_LZF_MAGIC):
        raise UnknownCodecError("it is compressed with LZF, which is not decoded here")
    raise StreamCorruptError("it begins with the mark of no codec")


def _collect(blocks: Iterator[bytes]) -> Decoded:
    parts: list[bytes] = []
    try:
        parts.extend(blocks)
    except StreamCorruptError as error:
        return Decoded(b"".join(parts), str(error))
    return Decoded(b"".join(parts))


def _lz4(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        if len(data) - at < _LZ4_HEADER.size:
            raise StreamCorruptError(f"stream ended prematurely at byte {len(data)}")
        magic, token, packed, unpacked, checksum = _LZ4_HEADER.unpack_from(data, at)
        if magic != _LZ4_MAGIC:
            raise StreamCorruptError(f"no LZ4 block begins at byte {at}")
        at += _LZ4_HEADER.size
        if unpacked:
            yield _lz4_block(data[at : at + packed], token & 0xF0, packed, unpacked, checksum)
            at += packed


def _lz4_block(block: bytes, method: int, packed: int, unpacked: int, checksum: int) -> bytes:
    if len(block) < packed:
        raise StreamCorruptError("stream ended prematurely inside a block")
    if method == _LZ4_RAW:
        content = block
    elif method == _LZ4_COMPRESSED:
        try:
            content = bytes(cramjam.lz4.decompress_block(block, output_len=unpacked))
        except cramjam.DecompressionError as error:
            raise StreamCorruptError(f"a block does not decompress: {error}") from None
    else:
        raise StreamCorruptError(f"a block has the unknown method {method:#x}")
    if len(content) != unpacked or xxhash32(content, _LZ4_SEED) & _LZ4_CHECKSUM_BITS != checksum:
        raise StreamCorruptError("a block's checksum does not fit its content")
    return content


def _zstd(data: bytes) -> Decoded:
    content = cramjam.Buffer()
    try:
        cramjam.zstd.decompress_into(data, content)
    except cramjam.DecompressionError as error:
        problem = f"it does not decompress: {error}"
    else:
        problem = ""
    content.seek(0)
    return Decoded(bytes(content.read()), problem)


def _snappy(data: bytes) -> Iterator[bytes]:
    at = _SNAPPY_HEADER_LENGTH
    while at < len(data):
        if data[at : at + len(_SNAPPY_MAGIC)] == _SNAPPY_MAGIC:
            at += _SNAPPY_HEADER_LENGTH  # streams may be concatenated
            continue
        length = int.from_bytes(data[at : at + 4], "big")
        block = data[at + 4 : at + 4 + length]
        if len(block) < length or at + 4 > len(data):
            raise StreamCorruptError("stream ended prematurely inside a block")
        try:
            content = bytes(cramjam.snappy.decompress_raw(block))
        except cramjam.DecompressionError as error:
            raise StreamCorruptError(f"a block does not decompress: {error}") from None
        yield content
        at += 4 + length
