"""Reading a zip as Spark does: member after member from its beginning.

Invariant: the table of contents at the end is never looked at. Java's ZipInputStream does not need it, so a zip that
lost it is whole for Spark, and the standard library's reader would refuse it.
"""

from __future__ import annotations

import struct
import zlib


_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_LOCAL_MARK, _DESCRIPTOR_MARK = b"PK\x03\x04", b"PK\x07\x08"
_STORED, _DEFLATED = 0, 8
# The sizes and the checksum follow the content, because they were not known before it.
_HAS_DESCRIPTOR = 0x08
_DESCRIPTOR = struct.Struct("<III")


class ZipCorruptError(ValueError):
    """The bytes are not a whole zip; the text says which member is bad and why."""


def read_members(data: bytes) -> dict[str, bytes]:
    """Return name -> content of every member, each compared with its checksum.

    :raises ZipCorruptError: No member is there, or one is cut or garbled.
    """
    members: dict[str, bytes] = {}
    at = 0
    while data[at : at + 4] == _LOCAL_MARK:
        name, content, at = _member(data, at)
        members[name] = content
    if not members:
        raise ZipCorruptError("it does not begin with a member")
    return members


def _member(data: bytes, at: int) -> tuple[str, bytes, int]:
    if len(data) - at < _LOCAL.size:
        raise ZipCorruptError("it ends inside the head of a member")
    _, _, flags, method, _, _, total, packed, unpacked, name_length, extra = _LOCAL.unpack_from(data, at)
    at += _LOCAL.size
    name = data[at : at + name_length].decode(errors="replace")
    at += name_length + extra
    if method == _DEFLATED:
        content, at = _inflate(name, data, at)
    elif method == _STORED and not flags & _HAS_DESCRIPTOR:
        content, at = data[at : at + packed], at + packed
    else:
        raise ZipCorruptError(f"member {name!r} has the unknown method {method}")
    if flags & _HAS_DESCRIPTOR:
        at += len(_DESCRIPTOR_MARK) if data[at : at + 4] == _DESCRIPTOR_MARK else 0
        if len(data) - at < _DESCRIPTOR.size:
            raise ZipCorruptError(f"it ends after the content of member {name!r}")
        total, _, unpacked = _DESCRIPTOR.unpack_from(data, at)
        at += _DESCRIPTOR.size
    if len(content) != unpacked or zlib.crc32(content) != total:
        raise ZipCorruptError(f"member {name!r} has a wrong size or checksum")
    return name, content, at


def _inflate(name: str, data: bytes, at: int) -> tuple[bytes, int]:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = stream.decompress(data[at:])
    except zlib.error as error:
        raise ZipCorruptError(f"member {name!r} does not decompress: {error}") from None
    if not stream.eof:
        raise ZipCorruptError(f"it ends inside member {name!r}")
    return content, len(data) - len(stream.unused_data)
