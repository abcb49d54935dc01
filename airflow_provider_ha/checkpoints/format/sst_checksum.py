"""Checksums of blocks in a RocksDB table file, of all kinds that RocksDB writes.

Follows ``ComputeBuiltinChecksum`` of RocksDB's ``table/format.cc``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import google_crc32c
import xxhash


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
    """RocksDB's checksum of a block and the byte after it, in 32 bits.

    :param kind: A kind in :data:`SUMS`.
    """

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


def context(base: int, offset: int) -> int:
    """Return the addend of the checksum of the block at *offset*, which detects misplaced blocks.

    :param base: From the footer; 0 before format version 6.
    """
    return (base ^ (offset + (offset >> 32)) & _MASK) if base else 0
