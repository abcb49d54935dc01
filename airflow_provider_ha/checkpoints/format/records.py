"""What is inside a delta, a snapshot or a changelog once it is decompressed.

Invariant: a stream of records is whole when its terminator is reached. Spark stops reading there, so what follows it is
no fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from airflow_provider_ha.checkpoints.format.codecs import StreamCorruptError


_NULL = -1
_VERSION = re.compile(rb"v([2-9]\d*)")
# Changelog versions with a byte before each record, and with the lineage in front.
_TYPED, _WITH_LINEAGE = frozenset({2, 4}), frozenset({3, 4})
_END_RECORD = 0
# Put, delete, merge and the range deletion of 4.2: each is a key and a value, which may be absent.
_RECORD_TYPES = frozenset({0x01, 0x10, 0x11, 0x20, 0x21})


def check_map(content: bytes) -> int:
    """Return the number of records of a delta or snapshot.

    :raises StreamCorruptError: It ends before its terminator.
    """
    return _Reader(content).pairs()


def check_changelog(content: bytes) -> int:
    """Return the number of records of a changelog; raises as :func:`check_map` does."""
    reader = _Reader(content)
    version = _skip_head(reader)
    return reader.typed_pairs() if version in _TYPED else reader.pairs()


def lineage(content: bytes) -> Sequence[tuple[int, str]]:
    """Return (version, id) of every version back to the snapshot that a changelog of format 2 is based on.

    :raises StreamCorruptError: The head of the changelog cannot be read.
    """
    reader = _Reader(content)
    if _version(reader) not in _WITH_LINEAGE:
        raise StreamCorruptError("it carries no lineage, as every changelog of checkpoint format 2 does")
    try:
        return tuple((int(item["version"]), str(item["checkpointUniqueId"])) for item in json.loads(reader.text()))
    except (ValueError, KeyError, TypeError):
        raise StreamCorruptError("its lineage cannot be read") from None


def _skip_head(reader: _Reader) -> int:
    version = _version(reader)
    if version in _WITH_LINEAGE:
        reader.text()
    return version


def _version(reader: _Reader) -> int:
    # Version 1 has no head at all: its first bytes are the length of a key (SPARK-51922 read them as a version).
    head = reader.peek_text()
    match = _VERSION.fullmatch(head)
    if not match:
        return 1
    reader.text()
    return int(match[1])


class _Reader:
    """A cursor over big-endian Java data."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def pairs(self) -> int:
        count = 0
        while (length := self._int()) != _NULL:
            self._skip(length)
            self._value()
            count += 1
        return count

    def typed_pairs(self) -> int:
        count = 0
        while (kind := self._take(1)[0]) != _END_RECORD:
            if kind not in _RECORD_TYPES:
                raise StreamCorruptError(f"a record of the unknown type {kind:#x} at byte {self._at - 1}")
            self._skip(self._int())
            self._value()
            count += 1
        return count

    def text(self) -> bytes:
        return self._take(int.from_bytes(self._take(2), "big"))

    def peek_text(self) -> bytes:
        length = int.from_bytes(self._content[self._at : self._at + 2], "big")
        return self._content[self._at + 2 : self._at + 2 + length]

    def _value(self) -> None:
        length = self._int()
        if length != _NULL:
            self._skip(length)

    def _int(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def _skip(self, length: int) -> None:
        if length < 0:
            raise StreamCorruptError(f"a record with the impossible length {length} at byte {self._at - 4}")
        self._take(length)

    def _take(self, length: int) -> bytes:
        taken = self._content[self._at : self._at + length]
        if len(taken) < length:
            raise StreamCorruptError("it ends before its terminator")
        self._at += length
        return taken
