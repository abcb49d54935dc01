"""One file of a savepoint: by reflink, by copy or by hard link, with the digest of what arrived.

Invariant: a copy shares nothing with its source that a later write could change. A reflink shares blocks until one of
the two is written to, so it is a copy; a hard link is the same file, so the manifest says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from airflow_provider_ha.checkpoints.directories.links import link
from airflow_provider_ha.checkpoints.model import ManifestFile
from airflow_provider_ha.storage.durable import flush, reflink


class Reader(Protocol):
    """What can be read in pieces."""

    def read(self, size: int, /) -> bytes:
        """Return up to *size* bytes; nothing at the end."""


# (source, target) -> what arrived; FileNotFoundError when the source is gone.
Copy = Callable[[Path, Path], ManifestFile]

BUFFER = 1024 * 1024


def copy_file(source: Path, target: Path) -> ManifestFile:
    """Copy a file, by reflink where the file system can, and force it to the disk.

    Through one open file: a state file that is renamed over meanwhile stays whole under this descriptor.

    :raises FileNotFoundError: The file is not there (any more).
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as reader, target.open("x+b") as writer:
        copied = digest_of(writer) if reflink(reader, writer) else digest_of(reader, writer.write)
        flush(writer)
    return copied


def link_file(source: Path, target: Path) -> ManifestFile:
    """Give a file a second name; copy it where the target is on another file system. Raises as :func:`copy_file`."""
    link(source, target)
    with target.open("rb") as reader:
        return digest_of(reader)


def shares_inode(path: Path) -> bool:
    """Whether a file has another name somewhere: what is written there in place changes it."""
    return path.lstat().st_nlink > 1


def digest_of(reader: Reader, write: Callable[[bytes], object] | None = None) -> ManifestFile:
    """Read a file to its end in pieces; return its size and digest.

    :param write: Is given every piece.
    """
    digest, size = hashlib.sha256(), 0
    while block := reader.read(BUFFER):
        digest.update(block)
        size += len(block)
        if write is not None:
            write(block)
    return ManifestFile(size=size, sha256=digest.hexdigest())
