"""Conversion of S3 responses to the types of this package, and bounded reads of their bodies."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_ha.storage.limits import Deadline, check_held
from airflow_provider_ha.storage.store import Checksum, ObjectInfo


if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef

_ALGORITHMS = ("SHA256", "CRC32C", "CRC64NVME", "CRC32", "SHA1")  # the first available one is used
_PIECE = 64 * 1024  # bytes of a body between two checks of the deadline


class Body(Protocol):
    """The body of a boto3 response."""

    def iter_chunks(self, chunk_size: int) -> Iterable[bytes]: ...

    def close(self) -> None: ...


def info_of(key: str, head: HeadObjectOutputTypeDef) -> ObjectInfo:
    """Return the metadata in a response to HEAD."""
    return ObjectInfo(key, head["ContentLength"], head["LastModified"], checksum_of(head))


def checksum_of(head: Mapping[str, Any]) -> Checksum | None:
    """Return S3's digest of the whole object, if available.

    The digest of an upload in parts may be one of the digests of its parts: it cannot be compared with bytes, so it is
    ignored.
    """
    if head.get("ChecksumType") == "COMPOSITE":
        return None
    for algorithm in _ALGORITHMS:
        encoded = head.get(f"Checksum{algorithm}")
        if encoded:
            try:
                return Checksum(algorithm, base64.b64decode(encoded, validate=True).hex())
            except binascii.Error:  # "…-3": a digest of three parts, from a server that does not name the type
                return None
    return None


def whole(body: Body, deadline: Deadline) -> bytes:
    """Return the complete body of a response.

    :raises DeadlineError: It was too slow.
    :raises OSError: It has more bytes than the limit.
    """
    pieces = bytearray()
    try:
        for piece in body.iter_chunks(_PIECE):
            pieces += piece
            check_held(len(pieces))
            deadline.check_body(len(pieces))
    finally:
        body.close()  # a completely read body has returned to the pool before
    return bytes(pieces)
