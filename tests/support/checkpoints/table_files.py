"""RocksDB tables made by program, after the description of their format: of any size, and with any lie in them.

Tables that RocksDB itself wrote are in ``tests.support.spark.rocksdb_tables`` and ``tests.support.spark.corpus``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

import xxhash


def varint(value: int) -> bytes:
    """Return a number as RocksDB writes it."""
    written = b""
    while value > 0x7F:
        written, value = written + bytes([value & 0x7F | 0x80]), value >> 7
    return written + bytes([value])


def block_of(items: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a block of a table: no key shares anything with the one before it."""
    body = b"".join(b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in items)
    return body + struct.pack("<II", 0, 1)


def xxh3_of(block: bytes, last: int, base: int = 0, at: int = 0) -> int:
    """Return RocksDB's XXH3 of a block and the byte after it; with the context of its place when there is a base."""
    total = (xxhash.xxh3_64_intdigest(block) ^ last * 0x6B9083D9) & 0xFFFFFFFF
    return (total + (base ^ at if base else 0)) & 0xFFFFFFFF


def table(
    blocks: Iterable[bytes],
    index_of: Callable[[list[tuple[int, int]]], bytes] | None = None,
    meta: dict[bytes, bytes] | bytes | None = None,
    index_compression: int = 0,
    version: int = 5,
) -> Iterator[bytes]:
    """Yield a table file.

    :param blocks: Its data.
    :param index_of: Writes the index of (offset, size); one that is right when not given.
    :param meta: Entries of the metaindex, or all of it.
    :param version: Format version, 5 to 7.
    """
    base = 0x12345678 if version > 5 else 0
    at, handles = 0, []

    def placed(block: bytes, compression: int = 0) -> bytes:
        nonlocal at
        handles.append((at, len(block)))
        trailer = struct.pack("<BI", compression, xxh3_of(block, compression, base, at))
        at += len(block) + 5
        return block + trailer

    for block in blocks:
        yield placed(block)
    yield placed((index_of or index_block)(list(handles)), index_compression)
    index = handles[-1]
    named = {b"rocksdb.index": varint(index[0]) + varint(index[1])} if base else {}
    yield placed(meta if isinstance(meta, bytes) else block_of(((meta or {}) | named).items()))
    metaindex, magic = handles[-1], struct.pack("<I", version) + bytes.fromhex("f7cff485b741e288")
    if base:
        places = bytes.fromhex("3e007a00") + struct.pack("<III", 0, base, metaindex[1])
        footer = b"\x04" + places.ljust(40, b"\0") + magic
        yield footer[:5] + struct.pack("<I", xxh3_of(footer[:-1], footer[-1], base, at)) + footer[9:]
    else:
        places = b"".join(varint(number) for number in (*metaindex, *index))
        yield b"\x04" + places.ljust(40, b"\0") + magic


def index_block(handles: list[tuple[int, int]]) -> bytes:
    """Return the index of blocks, each by its place."""
    return block_of((b"key%09d" % number, varint(at) + varint(size)) for number, (at, size) in enumerate(handles))
