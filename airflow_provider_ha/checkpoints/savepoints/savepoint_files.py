"""Files of a savepoint in a directory, and the manifest that describes them.

Invariant: the manifest is written last, after every file is on disk; a directory without one is not a savepoint
(spark-facts section 1). The digests cover the bytes that were read from the source, so a bit that flips on the way to
the disk is found when the savepoint is read again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint, SavepointPointer
from airflow_provider_ha.checkpoints.trees.digests import difference, digest_of
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, NotAFileError, read
from airflow_provider_ha.checkpoints.trees.links import write_aside
from airflow_provider_ha.checkpoints.trees.tree import OpenFile, Tree
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    RecordCorruptError,
)


MANIFEST = "manifest.json"


def write_manifest(directory: Path, savepoint: Savepoint) -> None:
    """Write the manifest, which makes the directory a savepoint."""
    write_aside(directory / MANIFEST, savepoint.to_bytes())


def manifest_bytes(directory: Tree) -> bytes:
    """Return the bytes of the manifest.

    :raises CheckpointMissingError: The manifest is missing, so the directory is not a savepoint.
    :raises CheckpointCorruptError: It is not a file, or is larger than any manifest.
    :raises StorageUnavailableError: It could not be read.
    """
    try:
        return read(directory, MANIFEST)
    except FileGoneError:
        raise CheckpointMissingError(
            f"{directory} is not a savepoint: it has no {MANIFEST}",
            next_step="Choose another savepoint; this one was never completed",
        ) from None


def parse_manifest(directory: Tree, data: bytes) -> Savepoint:
    """Parse the bytes of a manifest.

    :raises CheckpointCorruptError: They are damaged.
    """
    try:
        return Savepoint.from_bytes(data, source=f"{directory}/{MANIFEST}")
    except RecordCorruptError as error:
        raise CheckpointCorruptError(MANIFEST, error.message) from error


def pointer_to(key: str, savepoint: Savepoint, data: bytes) -> SavepointPointer:
    """Return the pointer to a savepoint, with the digest of its manifest.

    :param key: Key of its directory.
    :param data: The bytes of the manifest as stored: another release may serialize it differently.
    """
    return SavepointPointer(
        savepoint_id=savepoint.savepoint_id,
        directory=key,
        manifest_sha256=hashlib.sha256(data).hexdigest(),
        size=savepoint.size,
        cut=savepoint.cut,
        schedule=savepoint.schedule,
        label=savepoint.label,
        created_at=savepoint.created_at,
    )


def check_files(
    directory: Tree, savepoint: Savepoint, *, digests: bool, only: Container[str] | None = None
) -> list[CheckpointCorruptError]:
    """Compare every file with the manifest; return the mismatches in manifest order.

    :param digests: Whether to read every file that has a digest, or to compare sizes only.
    :param only: Files whose bytes are read; all by default.
    :raises StorageUnavailableError: A file could not be read: its state is unknown.
    """
    return [
        CheckpointCorruptError(name, problem)
        for name, expected in savepoint.files.items()
        if (problem := _problem(directory, name, expected, digests=digests and (only is None or name in only)))
    ]


@dataclass(slots=True)
class InOrder:
    """Sequential reader of a savepoint file."""

    file: OpenFile
    offset: int = 0

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; empty at the end."""
        found = self.file.read_at(self.offset, size)
        self.offset += len(found)
        return found


def _problem(directory: Tree, name: str, expected: ManifestFile, *, digests: bool) -> str:
    try:
        size = directory.file_size(name)
        if size != expected.size:
            return f"it has {size} bytes, the manifest says {expected.size}"
        if digests and expected.digested_by:
            with directory.opened(name) as file:
                return difference(digest_of(InOrder(file), algorithm=expected.digested_by), expected)
    except NotAFileError:
        return "it is not a regular file"
    except FileGoneError:
        return "it is in the manifest but missing"
    return ""
