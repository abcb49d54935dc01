"""Schemas of state stores, and whether Spark lets a query with one use the state of another.

The rule is Spark's own (``StateSchemaCompatibilityChecker``, 3.1 to 4.3): types have to be equal, names do not count,
and what could not be null in the stored state must not be null now.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any


_SHORT, _INT = struct.Struct(">H"), struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Schema:
    """One store's schema file.

    :param key: Spark's JSON of the key's type; ``None`` where the file has a form that is not looked into.
    :param value: That of the value's.
    :param content: The whole file.
    """

    key: Any
    value: Any
    content: bytes


def parse_schema(content: bytes) -> Schema:
    """Read the bytes of ``_metadata/schema``: ``v1`` has two texts, ``v2`` two numbers of texts with these."""
    reader = _Reader(content)
    try:
        version = reader.text()
        if version not in {"v1", "v2"}:
            return Schema(None, None, content)
        key, value = (json.loads(reader.text() if version == "v1" else reader.chunks()) for _ in range(2))
    except (ValueError, struct.error):
        return Schema(None, None, content)
    return Schema(key, value, content)


def accepts(stored: Any, new: Any) -> bool:
    """Whether Spark takes state of the type *stored* for a query that has the type *new*."""
    if not (isinstance(stored, dict) and isinstance(new, dict)) or stored.get("type") != new.get("type"):
        return bool(stored == new)
    kind = stored.get("type")
    if kind == "struct":
        fields = stored.get("fields", []), new.get("fields", [])
        return len(fields[0]) == len(fields[1]) and all(
            _wide_enough(old, now, "nullable") and accepts(old.get("type"), now.get("type"))
            for old, now in zip(*fields, strict=True)
        )
    if kind == "array":
        return _wide_enough(stored, new, "containsNull") and accepts(stored.get("elementType"), new.get("elementType"))
    if kind == "map":
        return _wide_enough(stored, new, "valueContainsNull") and all(
            accepts(stored.get(part), new.get(part)) for part in ("keyType", "valueType")
        )
    return stored == new


def _wide_enough(stored: dict[str, Any], new: dict[str, Any], nullable: str) -> bool:
    return bool(stored.get(nullable, True)) or not new.get(nullable, True)


class _Reader:
    """What Java's ``DataInputStream`` reads."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def text(self) -> str:
        (length,) = _SHORT.unpack_from(self._data, self._at)
        begin = self._at + _SHORT.size
        self._at = begin + length
        if self._at > len(self._data):
            raise ValueError("it ends within a text")
        return self._data[begin : self._at].decode()

    def chunks(self) -> str:
        (count,) = _INT.unpack_from(self._data, self._at)
        self._at += _INT.size
        return "".join(self.text() for _ in range(count))
