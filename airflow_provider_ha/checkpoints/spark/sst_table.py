"""Check of a RocksDB table file: its footer, and each block against the block's checksum.

Invariant: a valid RocksDB table is never reported as corrupt. A table of another format, with checksums of another kind
or of a later version is not judged (``UnsupportedFormatError``). All damage is found except in bytes that RocksDB does
not read: padding inside the footer (format version 2 to 5), and between blocks.

Written after RocksDB's ``table/format.cc``, for format versions 2 to 7 of the block-based table.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from airflow_provider_ha.checkpoints.spark.byte_stream import StreamCorruptError, UnsupportedFormatError
from airflow_provider_ha.checkpoints.spark.checksums import PIECE, SinglePass
from airflow_provider_ha.checkpoints.spark.sst_block import (
    HELD,
    NO_SUM,
    SUMS,
    TRAILER,
    BlockHandle,
    BlockSum,
    block_sum,
    checksum_context,
    entries,
    index_entries,
    parse_handle,
    unpack,
    varint,
)
from airflow_provider_ha.errors import CheckpointCorruptError


FOOTER_LENGTH = 53
FORMAT_VERSIONS = range(2, 8)
TABLE_MAGIC = bytes.fromhex("f7cff485b741e288")
# Plain tables, old and new, cuckoo tables, and block-based ones before format version 2.
_OTHER_TABLES = frozenset(
    bytes.fromhex(magic)[::-1]
    for magic in ("4f3418eb7a8f13b8", "8242229663bf9564", "926789d0c5f17873", "db4775248b80fb57")
)
# Kind of checksum, two handles and padding, format version, magic.
_OLD = struct.Struct("<B40sI8s")
# Kind of checksum, extended magic, checksum of the footer, base of the context, size of the metaindex, padding, ...
_NEW = struct.Struct("<B4sIII16sQI8s")
_FIRST_NEW = 6
_EXTENDED_MAGIC = bytes.fromhex("3e007a00")
_SUM_PLACE = slice(5, 9)


@dataclass(frozen=True, slots=True)
class Footer:
    """A footer that was read.

    :param base: Base of the context of the checksums; 0 before format version 6.
    :param index: ``None`` from format version 6 on: then the metaindex names it.
    """

    version: int
    kind: int
    base: int
    metaindex: BlockHandle
    index: BlockHandle | None


def check_magic(end: bytes) -> None:
    """Look at the last eight bytes of a file.

    :raises StreamCorruptError: No table of RocksDB ends so.
    :raises NotLookedIntoError: A table of another format does.
    """
    if end in _OTHER_TABLES:
        raise UnsupportedFormatError("it is a RocksDB table of another format")
    if end != TABLE_MAGIC:
        raise StreamCorruptError("it does not end as a RocksDB table file does")


def version_and_kind(raw: bytes) -> tuple[int, int]:
    """Return the format version and the kind of checksum that a footer names, known or not."""
    kind, _, version, _ = _OLD.unpack(raw)
    return version, kind


def altered_footer(raw: bytes, *, version: int | None = None, kind: int | None = None) -> bytes:
    """Return a footer that names another format version or kind of checksum."""
    old_kind, handles, old_version, magic = _OLD.unpack(raw)
    return _OLD.pack(old_kind if kind is None else kind, handles, old_version if version is None else version, magic)


def parse_footer(raw: bytes, size: int) -> Footer:
    """Return the footer of a file of *size* bytes, whose format version and kind of checksum are known.

    :raises StreamCorruptError: It is damaged.
    :raises NotLookedIntoError: It uses a feature that is not known here.
    """
    version, kind = version_and_kind(raw)
    if version not in FORMAT_VERSIONS or kind not in SUMS:
        raise UnsupportedFormatError(f"its format version is {version}, its kind of checksum {kind}")
    footer = _parse_new(raw, size) if version >= _FIRST_NEW else _parse_old(raw)
    for block in (footer.metaindex, footer.index):
        if block is not None and (block.offset < 0 or block.end > size - FOOTER_LENGTH):
            claim = f"its footer claims a block of {block.size} bytes at byte {block.offset}"
            raise StreamCorruptError(f"{claim}, the file has {size} bytes")
    return footer


def _parse_old(raw: bytes) -> Footer:
    kind, handles, version, _ = _OLD.unpack(raw)
    metaindex, at = parse_handle(handles)
    index, _ = parse_handle(handles, at)
    return Footer(version, kind, 0, metaindex, index)


def _parse_new(raw: bytes, size: int) -> Footer:
    kind, extended, stored, base, length, _, reserved, version, _ = _NEW.unpack(raw)
    if extended != _EXTENDED_MAGIC or not base:
        raise StreamCorruptError("its footer has not the form of the format version that it names")
    begin = size - FOOTER_LENGTH
    computed = BlockSum(kind)
    computed.add(raw[: _SUM_PLACE.start] + bytes(4) + raw[_SUM_PLACE.stop : -1])
    if (computed.value(raw[-1:]) + checksum_context(base, begin)) & 0xFFFFFFFF != stored:
        raise StreamCorruptError("the checksum of its footer does not fit")
    if reserved:
        raise UnsupportedFormatError("its footer names a feature that is not known here")
    return Footer(version, kind, base, BlockHandle(begin - TRAILER.size - length, length), None)


_INDEX, _PROPERTIES = b"rocksdb.index", b"rocksdb.properties"
_PARTITIONED_FILTER = b"partitionedfilter."
_FORMAT_VERSION = b"rocksdb.format.version"
_INDEX_TYPE = b"rocksdb.block.based.table.index.type"
_DELTA_ENCODED = b"rocksdb.index.value.is.delta.encoded"
_TWO_LEVELS, _WITH_FIRST_KEYS = 2, 3
_INDEX_TYPES = range(4)
# It names a dozen blocks; none is compressed.
_METAINDEX = 64 << 10


class TableDataError(CheckpointCorruptError):
    """A block of rows is damaged. RocksDB opens such a table, and fails when it comes to read the rows."""


class _DataBlockError(StreamCorruptError):
    pass


def check_table(path: str, read: SinglePass) -> None:
    """Check the table file at *path*.

    :raises TableDataError: A block of rows is damaged.
    :raises CheckpointCorruptError: Another block, or the footer, is: RocksDB does not open it.
    :raises NotLookedIntoError: It has something that is not known here; all else is whole.
    """
    try:
        _check(read)
    except _DataBlockError as error:
        raise TableDataError(path, str(error)) from None
    except StreamCorruptError as error:
        raise CheckpointCorruptError(path, str(error)) from None


def _check(read: SinglePass) -> None:
    check_magic(read.at(max(0, read.size - 8), 8))
    if read.size < FOOTER_LENGTH:
        raise StreamCorruptError(f"it has {read.size} bytes, the footer of a RocksDB table alone has {FOOTER_LENGTH}")
    raw = read.at(read.size - FOOTER_LENGTH, FOOTER_LENGTH)
    version, kind = version_and_kind(raw)
    if version not in FORMAT_VERSIONS:
        _look_for_another(read, [altered_footer(raw, version=known) for known in FORMAT_VERSIONS])
        raise UnsupportedFormatError(f"it has the unknown format version {version}")
    if kind not in SUMS:
        _look_for_another(read, [altered_footer(raw, kind=known) for known in SUMS])
        raise UnsupportedFormatError(f"its blocks have the unknown kind of checksum {kind}")
    _Table(read, raw).check()


def _look_for_another(read: SinglePass, candidates: list[bytes]) -> None:
    """Distinguish a damaged byte of the footer from an unknown format: with the right byte, everything would fit."""
    for raw in candidates:
        try:
            table = _Table(read, raw)
        except (StreamCorruptError, UnsupportedFormatError):
            continue
        version = table.footer.version
        if table.footer.kind != NO_SUM and table.named_version == version:
            said = f"its blocks are of version {version} with {SUMS[table.footer.kind]}"
            raise StreamCorruptError(f"its footer names an unknown format, {said}")


class _Table:
    """A table with its metaindex and properties.

    :raises StreamCorruptError: The footer, metaindex or properties are damaged.
    """

    def __init__(self, read: SinglePass, raw: bytes) -> None:
        self._read = read
        self.footer = parse_footer(raw, read.size)
        self._unknown = ""
        named = self._named()
        self._others = sorted({self.footer.metaindex, *(block for _, block in named)})
        self._filters = [block for name, block in named if name.startswith(_PARTITIONED_FILTER)]
        self._index = self.footer.index or next((block for name, block in named if name == _INDEX), None)
        if self.footer.index:
            self._others = sorted({*self._others, self.footer.index})
        self._properties = self._read_properties([block for name, block in named if name == _PROPERTIES])
        self._index_type = int.from_bytes(self._properties.get(_INDEX_TYPE, b"\0"), "little")

    @property
    def named_version(self) -> int:
        """The format version that the properties name; that of the footer when they name none."""
        return self._number(_FORMAT_VERSION) or self.footer.version

    def check(self) -> None:
        """Check every block."""
        if self.named_version != self.footer.version:
            said = f"its footer names format version {self.footer.version}, its properties {self.named_version}"
            raise StreamCorruptError(said)
        # RocksDB writes them in this order, so the file is read once.
        rows = self._check_all(self._data(), self._verify_rows)
        covered = rows + self._check_all(chain(*self._partitions(), self._others), self._verify) + FOOTER_LENGTH
        if self._unknown:
            raise UnsupportedFormatError(self._unknown)
        if self.footer.kind == NO_SUM:
            raise UnsupportedFormatError("its blocks have no checksums")
        if covered < self._read.size:
            raise UnsupportedFormatError(f"{self._read.size - covered} of its bytes are in no block that is known")

    def _check_all(self, blocks: Iterable[BlockHandle], check: Callable[[BlockHandle], None]) -> int:
        """Check blocks, and return their size in bytes. Stops at an index that repeats blocks."""
        covered = 0
        for block in blocks:
            check(block)
            covered += block.size + TRAILER.size
            if covered > self._read.size:
                raise StreamCorruptError(f"its blocks have more than {self._read.size} bytes, so some overlap")
        return covered

    def _data(self) -> Iterator[BlockHandle]:
        """Yield the blocks that the index names, in their order."""
        if self._index is None or self._index_type not in _INDEX_TYPES:
            self._unknown = f"it has no index, or an index of the unknown type {self._index_type}"
            return
        for block in self._handles(self._index):
            if self._index_type == _TWO_LEVELS:
                yield from self._handles(block)
            else:
                yield block

    def _partitions(self) -> list[Iterator[BlockHandle]]:
        """Return the parts that a filter, or an index, is divided into."""
        divided = [*self._filters]
        if self._index and self._index_type == _TWO_LEVELS:
            divided.append(self._index)
        return [self._handles(top) for top in divided]

    def _handles(self, index: BlockHandle) -> Iterator[BlockHandle]:
        """Yield the blocks of an index; empty when it cannot be read although it is not damaged."""
        try:
            block = self._content(index)
            if self._number(_DELTA_ENCODED):
                yield from index_entries(block, first_keys=self._index_type == _WITH_FIRST_KEYS)
            else:
                for _, value in entries(block):
                    yield parse_handle(value)[0]
        except UnsupportedFormatError as reason:
            self._unknown = str(reason)

    def _named(self) -> list[tuple[bytes, BlockHandle]]:
        if self.footer.metaindex.size > _METAINDEX:
            raise UnsupportedFormatError(f"its metaindex has {self.footer.metaindex.size} bytes")
        return [(name, parse_handle(value)[0]) for name, value in entries(self._content(self.footer.metaindex))]

    def _read_properties(self, found: list[BlockHandle]) -> dict[bytes, bytes]:
        wanted = {_FORMAT_VERSION, _INDEX_TYPE, _DELTA_ENCODED}
        return {name: value for block in found for name, value in entries(self._content(block)) if name in wanted}

    def _number(self, name: bytes) -> int:
        return varint(self._properties[name], 0)[0] if name in self._properties else 0

    def _content(self, block: BlockHandle) -> bytes:
        """Return the content of a block held in memory; its checksum is verified first."""
        self._verify(block)
        if block.size > HELD:
            raise UnsupportedFormatError(f"its index has {block.size} bytes")
        compression = self._read.at(block.offset + block.size, 1)[0]
        return unpack(self._read.at(block.offset, block.size), compression)

    def _verify_rows(self, block: BlockHandle) -> None:
        try:
            self._verify(block)
        except StreamCorruptError as error:
            raise _DataBlockError(str(error)) from None

    def _verify(self, block: BlockHandle) -> None:
        offset, size = block
        end = offset + size
        if end + TRAILER.size > self._read.size - FOOTER_LENGTH:
            claim = f"a block of {size} bytes at byte {offset} is claimed"
            raise StreamCorruptError(f"{claim}, the file has {self._read.size} bytes")
        if size < PIECE:
            data = self._read.at(offset, size + TRAILER.size)
            computed, trailer = block_sum(self.footer.kind, data[: size + 1]), data[size:]
        else:
            computed, trailer = self._sum_of_pieces(block), self._read.at(end, TRAILER.size)
        if len(trailer) < TRAILER.size:
            raise StreamCorruptError(f"it became shorter than {end} bytes while it was read")
        _, stored = TRAILER.unpack(trailer)
        if self.footer.base:
            computed = (computed + checksum_context(self.footer.base, offset)) & 0xFFFFFFFF
        if computed != stored:
            kind = SUMS[self.footer.kind]
            raise StreamCorruptError(f"the block of {size} bytes at byte {offset} does not have its {kind} checksum")

    def _sum_of_pieces(self, block: BlockHandle) -> int:
        computed = BlockSum(self.footer.kind)
        for piece in self._read.pieces(block.offset, block.size):
            computed.add(piece)
        return computed.value(self._read.at(block.offset + block.size, 1) or b"\0")
