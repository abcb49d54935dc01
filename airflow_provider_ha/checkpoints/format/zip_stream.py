"""Reading a zip as Spark does: member after member from its beginning.

Invariant: the table of contents at the end is never looked at. Java's ZipInputStream does not need it, so a zip that
lost it is whole for Spark, and the standard library's reader would refuse it. A member is unpacked piece by piece, and
only the few that the caller requests are kept.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.format.byte_stream import ByteStream, StreamCorruptError


_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_LOCAL_MARK, _DESCRIPTOR_MARK = b"PK\x03\x04", b"PK\x07\x08"
_STORED, _DEFLATED = 0, 8
# The sizes and the checksum follow the content, because they were not known before it.
_HAS_DESCRIPTOR = 0x08
_DESCRIPTOR = struct.Struct("<III")
# Deflate makes at most 1032 bytes of one.
_DEFLATE_RATIO = 1032
_INPUT, _OUTPUT = 16 << 10, 64 << 10
# RocksDB begins a new MANIFEST, the only member that grows, at 1 GiB; a record more may fit into the old one.
_MEMBER_LIMIT = (1 << 30) + (64 << 20)
# Tables and archived logs are not in it: RocksDB's directory without them is a handful of files.
_MEMBERS_LIMIT = 10_000
# All members together: beside the MANIFEST they are small.
_TOTAL_LIMIT = 2 * _MEMBER_LIMIT
# No file system takes a longer name, and all members are plain files of one directory.
_NAME_LIMIT = 255


class ZipCorruptError(ValueError):
    """The bytes are not a whole zip; the text says which member is bad and why."""


@dataclass(frozen=True, slots=True)
class Members:
    """Members of a zip.

    :param sizes: Unpacked bytes by name.
    :param kept: Content of the requested members by name.
    """

    sizes: dict[str, int]
    kept: dict[str, bytes]


def read_members(pieces: Iterable[bytes], size: int, keep: Mapping[str, int]) -> Members:
    """Read all members to their end, and compare them with their checksums.

    :param pieces: The bytes of the zip.
    :param size: Size of the zip in bytes.
    :param keep: Maximum size in bytes by name, for the requested members.
    :raises ZipCorruptError: The zip is empty, or a member is cut, garbled, or has an impossible header.
    """
    stream, found = ByteStream(pieces), Members({}, {})
    try:
        while stream.peek(4) == _LOCAL_MARK:
            if len(found.sizes) == _MEMBERS_LIMIT:
                raise ZipCorruptError(f"it has more than {_MEMBERS_LIMIT} members")
            _Member(stream, size, keep, _TOTAL_LIMIT - sum(found.sizes.values())).read(found)
    except StreamCorruptError as error:
        raise ZipCorruptError(str(error)) from None
    if not found.sizes:
        raise ZipCorruptError("it does not begin with a member")
    return found


class _Member:
    """A member whose head is read."""

    def __init__(self, stream: ByteStream, size: int, keep: Mapping[str, int], room: int) -> None:
        self._stream = stream
        head = _LOCAL.unpack(stream.take(_LOCAL.size))
        _, _, self._flags, self._method, _, _, self._sum, self._packed, self._unpacked, name_length, extra = head
        if name_length > _NAME_LIMIT:
            raise ZipCorruptError(f"a member's name claims {name_length} bytes, {_NAME_LIMIT} is the most")
        self._name = stream.take(name_length).decode(errors="replace")
        stream.skip(extra)
        self._limit = min(keep.get(self._name, _MEMBER_LIMIT), _MEMBER_LIMIT, room)
        self._content: list[bytes] | None = [] if self._name in keep else None
        self._size = self._crc = 0
        self._check_claims(size - stream.position)

    def read(self, found: Members) -> None:
        """Read to the end of the member, and put it into *found*."""
        if self._method == _DEFLATED:
            self._inflate()
        else:
            self._copy()
        if self._flags & _HAS_DESCRIPTOR:
            if self._stream.peek(4) == _DESCRIPTOR_MARK:
                self._stream.take(4)
            self._sum, _, self._unpacked = _DESCRIPTOR.unpack(self._stream.take(_DESCRIPTOR.size))
        if self._size != self._unpacked or self._crc != self._sum:
            raise ZipCorruptError(f"member {self._name!r} has a wrong size or checksum")
        found.sizes[self._name] = self._size
        if self._content is not None:
            found.kept[self._name] = b"".join(self._content)

    def _check_claims(self, left: int) -> None:
        if self._method not in {_STORED, _DEFLATED} or (self._method == _STORED and self._flags & _HAS_DESCRIPTOR):
            raise ZipCorruptError(f"member {self._name!r} has the unknown method {self._method}")
        if self._flags & _HAS_DESCRIPTOR:
            return
        if self._packed > left:
            raise ZipCorruptError(f"member {self._name!r} claims {self._packed} packed bytes, {left} are there")
        ratio = _DEFLATE_RATIO if self._method == _DEFLATED else 1
        if self._unpacked > self._packed * ratio:
            reason = f"claims to unpack {self._packed} bytes to {self._unpacked}, which it cannot"
            raise ZipCorruptError(f"member {self._name!r} {reason}")

    def _copy(self) -> None:
        left = self._packed
        while left:
            piece = self._stream.some(left)
            if not piece:
                raise ZipCorruptError(f"it ends inside member {self._name!r}: {left} more bytes are claimed")
            left -= len(piece)
            self._add(piece)

    def _inflate(self) -> None:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        while not inflater.eof:
            # What did not fit into the last piece of output comes first.
            packed = inflater.unconsumed_tail or self._stream.some(_INPUT)
            try:
                self._add(inflater.decompress(packed, _OUTPUT) if packed else inflater.flush())
            except zlib.error as error:
                raise ZipCorruptError(f"member {self._name!r} does not decompress: {error}") from None
            if not packed and not inflater.eof:
                raise ZipCorruptError(f"it ends inside member {self._name!r}")
        self._stream.back(len(inflater.unused_data))

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise ZipCorruptError(
                f"member {self._name!r} unpacks to more than {self._limit} bytes, the most it can have"
            )
        self._crc = zlib.crc32(piece, self._crc)
        if self._content is not None:
            self._content.append(piece)
