"""The three checksums around a checkpoint, and the files that hold them.

CRC32 of every 512 bytes in Hadoop's hidden ``.<name>.crc``; CRC32C of the whole file in Spark's visible
``<name>.crc`` (4.1 and later); xxHash32 of every block inside an LZ4 stream. The standard library has only the first,
and no dependency of ours offers the others for any buffer, so they are computed here.
"""

from __future__ import annotations

import json
import struct
import zlib


_MASK = 0xFFFFFFFF
_HADOOP_HEADER = struct.Struct(">4sI")
_HADOOP_MAGIC = b"crc\x00"
_CASTAGNOLI = 0x82F63B78
_P1, _P2, _P3, _P4, _P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1


def _crc32c_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_CASTAGNOLI if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _crc32c_table()


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of *data*, unsigned."""
    value, table = _MASK, _TABLE
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ _MASK


def spark_problem(data: bytes, checksum_file: bytes) -> str:
    """Return why Spark's ``<name>.crc`` does not fit a file's *data*; empty when it fits."""
    try:
        recorded = json.loads(checksum_file)
        algorithm, value, size = recorded["algorithm"], int(recorded["value"]), int(recorded["mainFileSize"])
    except (ValueError, KeyError, TypeError):
        return "the checksum file cannot be read"
    if size != len(data):
        return f"it has {len(data)} bytes, its checksum file says {size}"
    if algorithm == "CRC32C" and crc32c(data) != value & _MASK:
        return f"its CRC32C is {crc32c(data)}, its checksum file says {value & _MASK}"
    return ""


def hadoop_problem(data: bytes, checksum_file: bytes) -> str:
    """Return why Hadoop's ``.<name>.crc`` does not fit a file's *data*, as Hadoop sees it; empty when it fits."""
    if len(checksum_file) < _HADOOP_HEADER.size:
        return "the hidden checksum file is cut"
    magic, chunk = _HADOOP_HEADER.unpack_from(checksum_file)
    if magic != _HADOOP_MAGIC or chunk == 0:
        return "the hidden checksum file is not one"
    expected = _sums(data, chunk)
    return "" if checksum_file[_HADOOP_HEADER.size :] == expected else "the hidden checksum file does not fit it"


def was_changed(data: bytes, checksum_file: bytes) -> bool:
    """Whether a file's *data* was changed after Hadoop wrote its ``.<name>.crc``.

    A changed content changes all four bytes of a sum (but for 1 in four million). A checksum file that is cut, or
    differs in one byte, was damaged itself: it says nothing about the file.
    """
    if len(checksum_file) < _HADOOP_HEADER.size:
        return False
    magic, chunk = _HADOOP_HEADER.unpack_from(checksum_file)
    if magic != _HADOOP_MAGIC or chunk == 0:
        return False
    sums, expected = checksum_file[_HADOOP_HEADER.size :], _sums(data, chunk)
    return len(sums) != len(expected) or sum(one != other for one, other in zip(sums, expected, strict=True)) > 1


def _sums(data: bytes, chunk: int) -> bytes:
    return b"".join(zlib.crc32(data[at : at + chunk]).to_bytes(4, "big") for at in range(0, len(data), chunk))


def xxhash32(data: bytes, seed: int) -> int:
    """Return the 32-bit xxHash of *data*."""
    length, tail = len(data), data
    if length >= 16:  # noqa: PLR2004  # a stripe of four lanes
        value, tail = _stripes(data, seed)
    else:
        value = (seed + _P5) & _MASK
    value = (value + length) & _MASK
    whole = len(tail) & ~3
    for (word,) in struct.iter_unpack("<I", tail[:whole]):
        value = _rotate((value + word * _P3) & _MASK, 17) * _P4 & _MASK
    for byte in tail[whole:]:
        value = _rotate((value + byte * _P5) & _MASK, 11) * _P1 & _MASK
    value = (value ^ value >> 15) * _P2 & _MASK
    value = (value ^ value >> 13) * _P3 & _MASK
    return value ^ value >> 16


def _stripes(data: bytes, seed: int) -> tuple[int, bytes]:
    a, b, c, d = (seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK
    whole = len(data) & ~15
    for one, two, three, four in struct.iter_unpack("<4I", data[:whole]):
        # Written out: a call per lane would double the time of every full verification.
        a = (a + one * _P2) & _MASK
        a = ((a << 13 | a >> 19) & _MASK) * _P1 & _MASK
        b = (b + two * _P2) & _MASK
        b = ((b << 13 | b >> 19) & _MASK) * _P1 & _MASK
        c = (c + three * _P2) & _MASK
        c = ((c << 13 | c >> 19) & _MASK) * _P1 & _MASK
        d = (d + four * _P2) & _MASK
        d = ((d << 13 | d >> 19) & _MASK) * _P1 & _MASK
    return (_rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)) & _MASK, data[whole:]


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
