"""Digests of files, and comparison with a manifest.

Invariant: a file is compared with the digest in its manifest, of any algorithm; without a digest, only its size is
compared, and its bytes are unchecked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

import google_crc32c

from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile


BUFFER = 1024 * 1024


class Reader(Protocol):
    """Reader of pieces."""

    def read(self, size: int, /) -> bytes:
        """Return up to *size* bytes; nothing at the end."""


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class _Crc32c:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes, /) -> None:
        self._value = google_crc32c.extend(self._value, data)

    def hexdigest(self) -> str:
        return crc32c_digits(self._value)


def digest_of(
    reader: Reader,
    write: Callable[[bytes], object] | None = None,
    *,
    algorithm: Algorithm | None = Algorithm.SHA256,
) -> ManifestFile:
    """Read a file to its end in pieces; return its size and digest.

    :param write: Receives each piece.
    :param algorithm: Algorithm of the digest; ``None`` for the size alone.
    """
    digest, size = _begun(algorithm), 0
    while block := reader.read(BUFFER):
        if digest is not None:
            digest.update(block)
        size += len(block)
        if write is not None:
            write(block)
    if digest is None or algorithm is None:
        return ManifestFile(size=size)
    return recorded(size, algorithm, digest.hexdigest())


def recorded(size: int, algorithm: Algorithm, value: str) -> ManifestFile:
    """Return the manifest's entry for a file with this digest.

    :param value: In hex digits.
    """
    if algorithm is Algorithm.SHA256:
        return ManifestFile(size=size, sha256=value)
    return ManifestFile(size=size, digest=value, algorithm=algorithm)


def difference(found: ManifestFile, expected: ManifestFile) -> str:
    """Return the difference of a file from its manifest; empty without one.

    :param found: As :func:`digest_of` returns it for the algorithm of *expected*.
    """
    if found.size != expected.size:
        return f"it has {found.size} bytes, the manifest says {expected.size}"
    return "" if found == expected else "its digest is not the one in the manifest"


def crc32c_digits(value: int) -> str:
    """Return a CRC32C as a manifest has it."""
    return f"{value:08x}"


def _begun(algorithm: Algorithm | None) -> _Digest | None:
    if algorithm is Algorithm.CRC32C:
        return _Crc32c()
    return None if algorithm is None else hashlib.sha256()
