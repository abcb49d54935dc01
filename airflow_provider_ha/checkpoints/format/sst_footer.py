"""The last bytes of a RocksDB table file: its format, its kind of checksum, and where its first blocks are.

Written after RocksDB's ``table/format.cc``, for format versions 2 to 7 of the block-based table.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.format.byte_stream import NotLookedIntoError, StreamCorruptError
from airflow_provider_ha.checkpoints.format.sst_block import TRAILER, Handle, handle
from airflow_provider_ha.checkpoints.format.sst_checksum import SUMS, BlockSum, context


LENGTH = 53
VERSIONS = range(2, 8)
MAGIC = bytes.fromhex("f7cff485b741e288")
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

    :param version: Format version.
    :param kind: Kind of checksum.
    :param base: Base of the context of the checksums; 0 before format version 6.
    :param index: ``None`` from format version 6 on: then the metaindex names it.
    """

    version: int
    kind: int
    base: int
    metaindex: Handle
    index: Handle | None


def check_magic(end: bytes) -> None:
    """Look at the last eight bytes of a file.

    :raises StreamCorruptError: No table of RocksDB ends so.
    :raises NotLookedIntoError: A table of another format does.
    """
    if end in _OTHER_TABLES:
        raise NotLookedIntoError("it is a RocksDB table of another format")
    if end != MAGIC:
        raise StreamCorruptError("it does not end as a RocksDB table file does")


def version_and_kind(raw: bytes) -> tuple[int, int]:
    """Return the format version and the kind of checksum that a footer names, known or not."""
    kind, _, version, _ = _OLD.unpack(raw)
    return version, kind


def altered(raw: bytes, *, version: int | None = None, kind: int | None = None) -> bytes:
    """Return a footer that names another format version or kind of checksum."""
    old_kind, handles, old_version, magic = _OLD.unpack(raw)
    return _OLD.pack(old_kind if kind is None else kind, handles, old_version if version is None else version, magic)


def parse(raw: bytes, size: int) -> Footer:
    """Return the footer of a file of *size* bytes, whose format version and kind of checksum are known.

    :raises StreamCorruptError: It is damaged.
    :raises NotLookedIntoError: It uses a feature that is not known here.
    """
    version, kind = version_and_kind(raw)
    if version not in VERSIONS or kind not in SUMS:
        raise NotLookedIntoError(f"its format version is {version}, its kind of checksum {kind}")
    footer = _parse_new(raw, size) if version >= _FIRST_NEW else _parse_old(raw)
    for block in (footer.metaindex, footer.index):
        if block is not None and (block.offset < 0 or block.end > size - LENGTH):
            claim = f"its footer claims a block of {block.size} bytes at byte {block.offset}"
            raise StreamCorruptError(f"{claim}, the file has {size} bytes")
    return footer


def _parse_old(raw: bytes) -> Footer:
    kind, handles, version, _ = _OLD.unpack(raw)
    metaindex, at = handle(handles)
    index, _ = handle(handles, at)
    return Footer(version, kind, 0, metaindex, index)


def _parse_new(raw: bytes, size: int) -> Footer:
    kind, extended, stored, base, length, _, reserved, version, _ = _NEW.unpack(raw)
    if extended != _EXTENDED_MAGIC or not base:
        raise StreamCorruptError("its footer is not one of the format version that it names")
    begin = size - LENGTH
    computed = BlockSum(kind)
    computed.add(raw[: _SUM_PLACE.start] + bytes(4) + raw[_SUM_PLACE.stop : -1])
    if (computed.value(raw[-1:]) + context(base, begin)) & 0xFFFFFFFF != stored:
        raise StreamCorruptError("the checksum of its footer does not fit")
    if reserved:
        raise NotLookedIntoError("its footer names a feature that is not known here")
    return Footer(version, kind, base, Handle(begin - TRAILER.size - length, length), None)
