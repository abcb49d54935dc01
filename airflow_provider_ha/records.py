"""Versioned, checksummed JSON: the form of all records in ZooKeeper and storage.

Never pickle. A record read back is either exactly the written one or a ``RecordCorruptError`` that names its source.
Old versions stay readable: a new field gets a default, and fields are never renamed.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError
from typing_extensions import Self

from airflow_provider_ha.errors import RecordCorruptError, RecordTooNewError


class Model(BaseModel):
    """Frozen value that is part of a record."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Record(Model):
    """Independent record, with its kind, its version and a checksum.

    :cvar kind: Name of the record in its JSON; a record with another name is refused. :cvar format_version: Version
        that this code writes, and the highest version that it reads.
    """

    kind: ClassVar[str]
    format_version: ClassVar[int] = 1

    def to_bytes(self) -> bytes:
        """Return the JSON of the record: sorted keys, so that equal records have equal bytes."""
        body = _canonical(self.model_dump(mode="json"))
        envelope = {"kind": self.kind, "version": self.format_version, "checksum": _sha256(body)}
        # The body is the first of the sorted keys; that of a savepoint of many files is not put into text twice.
        return f'{{"body":{body},{_canonical(envelope)[1:]}'.encode()

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str) -> Self:
        """Read a record.

        :param data: Content of the record.
        :param source: Location of the record, for the error.
        :raises RecordCorruptError: The content differs from the written one, or a newer release wrote it.
        """
        try:
            envelope = json.loads(data)
            kind, version, body = envelope["kind"], envelope["version"], envelope["body"]
            expected = envelope["checksum"]
        except (ValueError, KeyError, TypeError) as error:
            raise RecordCorruptError(f"{source} does not hold a {cls.kind} record ({error})") from error
        if kind != cls.kind:
            raise RecordCorruptError(f"{source} holds a {kind!r} record where a {cls.kind!r} record is expected")
        if type(version) is not int:
            raise RecordCorruptError(f"{source} holds a {cls.kind} record of version {version!r}, which is no number")
        if version > cls.format_version:
            raise RecordTooNewError(
                f"{source} was written by a newer release (version {version} of {cls.kind!r})",
                next_step="Upgrade airflow-provider-ha on this host",
            )
        if checksum(body) != expected:
            raise RecordCorruptError(f"{source} has a wrong checksum")
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            raise RecordCorruptError(f"{source} is not a valid {cls.kind} record ({error})") from error


def checksum(body: Any) -> str:
    """Return the sha256 of the canonical JSON of *body*, as 64 hex digits."""
    return _sha256(_canonical(body))


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
