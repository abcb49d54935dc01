"""Check of a RocksDB table file: each block against the block's checksum.

Invariant: a valid RocksDB table is never reported as corrupt. A table of another format, with checksums of another kind
or of a later version is not judged (``NotLookedIntoError``). All damage is found except in bytes that RocksDB does not
read: padding inside the footer (format version 2 to 5), and between blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from airflow_provider_ha.checkpoints.format import sst_footer
from airflow_provider_ha.checkpoints.format.byte_stream import NotLookedIntoError, StreamCorruptError
from airflow_provider_ha.checkpoints.format.single_pass import PIECE, SinglePass
from airflow_provider_ha.checkpoints.format.sst_block import (
    HELD,
    TRAILER,
    Handle,
    entries,
    handle,
    index_entries,
    unpack,
    varint,
)
from airflow_provider_ha.checkpoints.format.sst_checksum import NO_SUM, SUMS, BlockSum, block_sum, context
from airflow_provider_ha.errors import CheckpointCorruptError


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
    sst_footer.check_magic(read.at(max(0, read.size - 8), 8))
    if read.size < sst_footer.LENGTH:
        raise StreamCorruptError(
            f"it has {read.size} bytes, the footer of a RocksDB table alone has {sst_footer.LENGTH}"
        )
    raw = read.at(read.size - sst_footer.LENGTH, sst_footer.LENGTH)
    version, kind = sst_footer.version_and_kind(raw)
    if version not in sst_footer.VERSIONS:
        _look_for_another(read, [sst_footer.altered(raw, version=known) for known in sst_footer.VERSIONS])
        raise NotLookedIntoError(f"it has the unknown format version {version}")
    if kind not in SUMS:
        _look_for_another(read, [sst_footer.altered(raw, kind=known) for known in SUMS])
        raise NotLookedIntoError(f"its blocks have the unknown kind of checksum {kind}")
    _Table(read, raw).check()


def _look_for_another(read: SinglePass, candidates: list[bytes]) -> None:
    """Distinguish a damaged byte of the footer from an unknown format: with the right byte, everything would fit."""
    for raw in candidates:
        try:
            table = _Table(read, raw)
        except (StreamCorruptError, NotLookedIntoError):
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
        self.footer = sst_footer.parse(raw, read.size)
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
        covered = rows + self._check_all(chain(*self._partitions(), self._others), self._verify) + sst_footer.LENGTH
        if self._unknown:
            raise NotLookedIntoError(self._unknown)
        if self.footer.kind == NO_SUM:
            raise NotLookedIntoError("its blocks have no checksums")
        if covered < self._read.size:
            raise NotLookedIntoError(f"{self._read.size - covered} of its bytes are in no block that is known")

    def _check_all(self, blocks: Iterable[Handle], check: Callable[[Handle], None]) -> int:
        """Check blocks, and return their size in bytes. Stops at an index that repeats blocks."""
        covered = 0
        for block in blocks:
            check(block)
            covered += block.size + TRAILER.size
            if covered > self._read.size:
                raise StreamCorruptError(f"its blocks have more than {self._read.size} bytes, so some overlap")
        return covered

    def _data(self) -> Iterator[Handle]:
        """Yield the blocks that the index names, in their order."""
        if self._index is None or self._index_type not in _INDEX_TYPES:
            self._unknown = f"it has no index, or one of the unknown type {self._index_type}"
            return
        for block in self._handles(self._index):
            if self._index_type == _TWO_LEVELS:
                yield from self._handles(block)
            else:
                yield block

    def _partitions(self) -> list[Iterator[Handle]]:
        """Return the parts that a filter, or an index, is divided into."""
        divided = [*self._filters]
        if self._index and self._index_type == _TWO_LEVELS:
            divided.append(self._index)
        return [self._handles(top) for top in divided]

    def _handles(self, index: Handle) -> Iterator[Handle]:
        """Yield the blocks of an index; empty when it cannot be read although it is not damaged."""
        try:
            block = self._content(index)
            if self._number(_DELTA_ENCODED):
                yield from index_entries(block, first_keys=self._index_type == _WITH_FIRST_KEYS)
            else:
                for _, value in entries(block):
                    yield handle(value)[0]
        except NotLookedIntoError as reason:
            self._unknown = str(reason)

    def _named(self) -> list[tuple[bytes, Handle]]:
        if self.footer.metaindex.size > _METAINDEX:
            raise NotLookedIntoError(f"its metaindex has {self.footer.metaindex.size} bytes")
        return [(name, handle(value)[0]) for name, value in entries(self._content(self.footer.metaindex))]

    def _read_properties(self, found: list[Handle]) -> dict[bytes, bytes]:
        wanted = {_FORMAT_VERSION, _INDEX_TYPE, _DELTA_ENCODED}
        return {name: value for block in found for name, value in entries(self._content(block)) if name in wanted}

    def _number(self, name: bytes) -> int:
        return varint(self._properties[name], 0)[0] if name in self._properties else 0

    def _content(self, block: Handle) -> bytes:
        """Return the content of a block held in memory; its checksum is verified first."""
        self._verify(block)
        if block.size > HELD:
            raise NotLookedIntoError(f"its index has {block.size} bytes")
        compression = self._read.at(block.offset + block.size, 1)[0]
        return unpack(self._read.at(block.offset, block.size), compression)

    def _verify_rows(self, block: Handle) -> None:
        try:
            self._verify(block)
        except StreamCorruptError as error:
            raise _DataBlockError(str(error)) from None

    def _verify(self, block: Handle) -> None:
        offset, size = block
        end = offset + size
        if end + TRAILER.size > self._read.size - sst_footer.LENGTH:
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
            computed = (computed + context(self.footer.base, offset)) & 0xFFFFFFFF
        if computed != stored:
            kind = SUMS[self.footer.kind]
            raise StreamCorruptError(f"the block of {size} bytes at byte {offset} does not have its {kind} checksum")

    def _sum_of_pieces(self, block: Handle) -> int:
        computed = BlockSum(self.footer.kind)
        for piece in self._read.pieces(block.offset, block.size):
            computed.add(piece)
        return computed.value(self._read.at(block.offset + block.size, 1) or b"\0")
