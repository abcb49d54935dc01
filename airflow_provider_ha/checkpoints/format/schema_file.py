"""State schemas of version 3: one for each column family of a store, as ``SchemaHelper.SchemaV3Reader`` reads them.

A version, a number of column families, and for each family its name, and the key, the value and two encodings as JSON
in chunks. Invariant: a schema is complete when all announced parts exist; later bytes are not read.
"""

from __future__ import annotations

import json
import struct

from airflow_provider_ha.checkpoints.format.byte_stream import ByteStream, StreamCorruptError


_VERSION = b"v3"
_COUNT, _LENGTH, _ID = struct.Struct(">i"), struct.Struct(">H"), struct.Struct(">h")
# The last one is optional, and then an empty object.
_DOCUMENTS = 4


def check_schemas(data: bytes) -> int:
    """Return the number of column families.

    :raises StreamCorruptError: It is cut, or no JSON is where one has to be.
    """
    stream = ByteStream([data])
    if _text(stream) != _VERSION:
        raise StreamCorruptError("it is no state schema of version 3")
    families = _number(stream, _COUNT)
    for _ in range(families):
        _text(stream)
        _number(stream, _ID)
        _document(stream)
        _number(stream, _ID)
        for _ in range(_DOCUMENTS - 1):
            _document(stream)
    return families


def _document(stream: ByteStream) -> None:
    text = b"".join(_text(stream) for _ in range(_number(stream, _COUNT)))
    try:
        json.loads(text)
    except ValueError:
        raise StreamCorruptError("a schema in it is not JSON") from None


def _text(stream: ByteStream) -> bytes:
    return stream.take(_number(stream, _LENGTH))


def _number(stream: ByteStream, kind: struct.Struct) -> int:
    value: int = kind.unpack(stream.take(kind.size))[0]
    return value
