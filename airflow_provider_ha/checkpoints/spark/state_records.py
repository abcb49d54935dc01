"""Content of a decompressed delta, snapshot or changelog.

Invariant: a stream of records is complete when its terminator is reached. Spark stops reading there, so bytes after it
are not a fault, unless the release read them before, in search of a version. A record is skipped by its lengths: its
content is never copied, however long it claims to be.
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
from collections.abc import Iterable, Sequence

from airflow_provider_ha.checkpoints.spark.byte_stream import ByteStream, StreamCorruptError, StreamCutError


_NULL = -1
_LENGTH = struct.Struct(">i")
# Lengths of Java's writeUTF have 16 bits: neither a version nor a lineage can claim more than 64 KiB.
_TEXT = struct.Struct(">H")
_VERSION = re.compile(rb"v([2-9]\d{0,3})")
_LONGEST_VERSION = 5
# Changelog versions with a byte before each record, and with the lineage in front.
_TYPED, _WITH_LINEAGE = frozenset({2, 4}), frozenset({3, 4})
_END_RECORD = 0
# Put, delete, merge and the range deletion of 4.2: each is a key and a value, which may be absent.
_RECORD_TYPES = frozenset({0x01, 0x10, 0x11, 0x20, 0x21})
_TYPES = bytes(_RECORD_TYPES)
# So many records of one shape in a row are taken for the beginning of a run, which is then passed over at once.
_STREAK, _LONGEST_RUN = 4, 8192


def check_map(pieces: Iterable[bytes]) -> int:
    """Return the number of records of a delta or snapshot.

    :raises StreamCorruptError: It ends before its terminator.
    """
    return _pairs(ByteStream(pieces))


def check_changelog(pieces: Iterable[bytes], *, reads_version: bool = False) -> int:
    """Return the number of records of a changelog; raises as :func:`check_map` does.

    :param reads_version: Whether the release reads a version of the length in the first two bytes: for a changelog
        without records, this reads everything, including the end of the stream.
    """
    stream = ByteStream(pieces)
    if reads_version:
        with contextlib.suppress(StreamCutError):
            stream.peek(_TEXT.size + int.from_bytes(stream.peek(_TEXT.size), "big"))
    version = _version(stream)
    if version in _WITH_LINEAGE:
        _text(stream)
    return _typed_pairs(stream) if version in _TYPED else _pairs(stream)


def lineage(pieces: Iterable[bytes]) -> Sequence[tuple[int, str]]:
    """Return (version, id) for all versions back to the base snapshot of a changelog of format 2.

    :raises StreamCorruptError: The head of the changelog cannot be read.
    """
    stream = ByteStream(pieces)
    if _version(stream) not in _WITH_LINEAGE:
        raise StreamCorruptError("it carries no lineage, as every changelog of checkpoint format 2 does")
    try:
        return tuple((int(item["version"]), str(item["checkpointUniqueId"])) for item in json.loads(_text(stream)))
    except StreamCorruptError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise StreamCorruptError("its lineage cannot be read") from None


def _version(stream: ByteStream) -> int:
    # Version 1 has no head at all: its first bytes are the length of a key (SPARK-51922 read them as a version).
    length = int.from_bytes(stream.peek(_TEXT.size), "big")
    if length > _LONGEST_VERSION:
        return 1  # no more is read: a fault after a terminator does not count
    match = _VERSION.fullmatch(stream.peek(_TEXT.size + length)[_TEXT.size :])
    if not match:
        return 1
    _text(stream)
    return int(match[1])


def _text(stream: ByteStream) -> bytes:
    return stream.take(_TEXT.unpack(stream.take(_TEXT.size))[0])


def _pairs(stream: ByteStream) -> int:
    count = _pass_over(stream, 0)
    while (length := _int(stream)) != _NULL:
        _skip(stream, length)
        _skip_value(stream)
        count += 1 + _pass_over(stream, 0)
    return count


def _typed_pairs(stream: ByteStream) -> int:
    count = _pass_over(stream, 1)
    while (kind := stream.take(1)[0]) != _END_RECORD:
        if kind not in _RECORD_TYPES:
            raise StreamCorruptError(f"a record of the unknown type {kind:#x} at byte {stream.position - 1}")
        _skip(stream, _int(stream))
        _skip_value(stream)
        count += 1 + _pass_over(stream, 1)
    return count


def _skip_value(stream: ByteStream) -> None:
    length = _int(stream)
    if length != _NULL:
        _skip(stream, length)


def _int(stream: ByteStream) -> int:
    value: int = _LENGTH.unpack(stream.take(_LENGTH.size))[0]
    return value


def _skip(stream: ByteStream, length: int) -> None:
    if length < 0:
        raise StreamCorruptError(f"a record with the impossible length {length} at byte {stream.position - 4}")
    stream.skip(length)


def _pass_over(stream: ByteStream, lead: int) -> int:
    """Pass over the ordinary records that are whole in the buffer, without a call for each; returns their number.

    It stops before everything else: the terminator, a fault, a record that continues in the next piece.

    :param lead: Bytes before the length of a key: its type, if it has one.
    """
    data, at, end = stream.buffer, stream.at, len(stream.buffer)
    count, streak, last_key, last_value, unpack = 0, 0, -2, -2, _LENGTH.unpack_from
    while at + lead + 4 <= end and (not lead or data[at] in _RECORD_TYPES):
        (key,) = unpack(data, at + lead)
        middle = at + lead + 4 + key
        if key < 0 or middle + 4 > end:
            break
        (value,) = unpack(data, middle)
        after = middle + 4 + value if value > 0 else middle + 4
        if value < _NULL or after > end:
            break
        count += 1
        if key != last_key or value != last_value:
            at, streak, last_key, last_value = after, 0, key, value
            continue
        stride, at, streak = after - at, after, streak + 1
        if streak == _STREAK:
            # States have few shapes: where some records are alike, there are often thousands.
            more = _alike(data, at, stride, (lead, lead + 4 + key))
            at, count, streak = at + more * stride, count + more, 0
    stream.at = at
    return count


def _alike(data: bytes, at: int, stride: int, lengths: tuple[int, int]) -> int:
    """Return how many records from *at* have the lengths of the one before it: the same bytes at the same places."""
    limit = min(_LONGEST_RUN, (len(data) - at) // stride)
    for length in lengths:
        for place in range(at + length, at + length + 4):
            column, same = data[place : at + limit * stride : stride], data[place - stride : place - stride + 1]
            if column != same * len(column):
                limit = len(column) - len(column.lstrip(same))
    if lengths[0]:
        types = data[at : at + limit * stride : stride]
        limit = len(types) - len(types.lstrip(_TYPES))
    return limit
