"""Digests of files: comparison with a manifest, and copies with the digest of the result.

Invariant: a file is compared with the digest in its manifest, of any algorithm; without a digest, only its size is
compared, and its bytes are unchecked.

Invariant: a later write to the source does not change the copy. A reflink shares blocks until one of the two is written
to, so it is a copy; a hard link is the same file, so the manifest records so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import google_crc32c

from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile
from airflow_provider_ha.checkpoints.spark.files import opened
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.storage.durable import COPY_BUFFER, directories_as_above, flush, reflink
from airflow_provider_ha.storage.outage import outages


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

    :param found: As :func:`digest_of` returns it for the algorithm of *expected*, or for any when that has none.
    """
    if found.size != expected.size:
        return f"it has {found.size} bytes, the manifest records {expected.size}"
    same = (found.sha256, found.digest) == (expected.sha256, expected.digest)
    return "" if same or expected.digested_by is None else "its digest is not the one in the manifest"


def crc32c_digits(value: int) -> str:
    """Return a CRC32C as a manifest has it."""
    return f"{value:08x}"


def _begun(algorithm: Algorithm | None) -> _Digest | None:
    if algorithm is Algorithm.CRC32C:
        return _Crc32c()
    return None if algorithm is None else hashlib.sha256()


def copy_file(source: Path, target: Path, algorithm: Algorithm | None = Algorithm.SHA256) -> ManifestFile:
    """Copy a file, by reflink where the file system can, and force it to the disk.

    Through one open file: a state file that another replaces by a rename stays whole under this descriptor.

    :param algorithm: Algorithm of the digest; ``None`` for no digest.
    :raises FileNotFoundError: The file is not there.
    :raises StorageUnavailableError: One of the two file systems does not answer.
    """
    with outages(f"copied to {target}", source):
        directories_as_above(target.parent)
        with source.open("rb") as reader, target.open("x+b") as writer:
            if reflink(reader, writer):
                copied = digest_of(writer, algorithm=algorithm)
            else:
                copied = digest_of(reader, writer.write, algorithm=algorithm)
            flush(writer)
    return copied


def copy_out(tree: Tree, name: str, target: Path) -> None:
    """Copy a file of any tree to this host, and force it to the disk.

    :raises FileGoneError: It is not there.
    :raises StorageUnavailableError: It could not be read, or not be written here.
    """
    with opened(tree, name) as source, outages("written", target):
        directories_as_above(target.parent)
        with target.open("xb") as writer:
            for offset in range(0, source.size, COPY_BUFFER):
                writer.write(source.read_at(offset, COPY_BUFFER))
            flush(writer)


def shares_inode(path: Path) -> bool:
    """Return whether a file has another hard link: a write through that link changes it."""
    return path.lstat().st_nlink > 1
