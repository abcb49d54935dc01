"""The files of a savepoint in a directory, and the manifest that describes them.

Invariant: the manifest is written last, after every file is on disk; a directory without one is not a savepoint
(spark-facts section 1). The digests are those of the bytes that were read, so a bit that flips on the way to the
disk is found when the savepoint is read again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Container
from pathlib import Path

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint, SavepointPointer
from airflow_provider_ha.checkpoints.trees.digests import difference, digest_of
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, read
from airflow_provider_ha.checkpoints.trees.links import write_aside
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    RecordCorruptError,
    StorageUnavailableError,
)


MANIFEST = "manifest.json"


def write_manifest(directory: Path, savepoint: Savepoint) -> None:
    """Make a savepoint of the directory."""
    write_aside(directory / MANIFEST, savepoint.to_bytes())


def manifest_bytes(directory: Path) -> bytes:
    """Return the bytes of the manifest; it is written last.

    :raises CheckpointMissingError: There is none: it is not a savepoint.
    :raises CheckpointCorruptError: It is no file, or larger than any manifest is.
    :raises StorageUnavailableError: It could not be read.
    """
    try:
        return read(LocalTree(directory), MANIFEST)
    except FileGoneError:
        raise CheckpointMissingError(
            f"{directory} is not a savepoint: it has no {MANIFEST}",
            next_step="Choose another savepoint; this one was never completed",
        ) from None


def parse_manifest(directory: Path, data: bytes) -> Savepoint:
    """Read the bytes of a manifest.

    :raises CheckpointCorruptError: They are not what was written.
    """
    try:
        return Savepoint.from_bytes(data, source=str(directory / MANIFEST))
    except RecordCorruptError as error:
        raise CheckpointCorruptError(MANIFEST, error.message) from error


def pointer_to(key: str, savepoint: Savepoint, data: bytes) -> SavepointPointer:
    """Return the pointer that refers to a savepoint by the digest of its manifest.

    :param key: Key of its directory.
    :param data: The bytes of the manifest: of another release they may be others than this one would write.
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
    directory: Path, savepoint: Savepoint, *, digests: bool, only: Container[str] | None = None
) -> list[CheckpointCorruptError]:
    """Compare every file with the manifest and return what is wrong, in the order of the manifest.

    :param digests: Whether to read every byte of what has a digest, or to compare sizes only.
    :param only: Files whose bytes are to be read; all by default.
    :raises StorageUnavailableError: A file could not be read: nothing is known about it.
    """
    return [
        CheckpointCorruptError(name, problem)
        for name, expected in savepoint.files.items()
        if (problem := _problem(f"{directory}/{name}", expected, digests=digests and (only is None or name in only)))
    ]


def _problem(path: str, expected: ManifestFile, *, digests: bool) -> str:
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):  # guard: links-pass-for-files
            return "it is not a regular file"
        if status.st_size != expected.size:  # guard: sizes-are-not-compared
            return f"it has {status.st_size} bytes, the manifest says {expected.size}"
        if digests and expected.digested_by:
            return _difference(Path(path), expected)
    except (FileNotFoundError, NotADirectoryError):
        return "it is in the manifest and not there"
    except OSError as error:
        raise StorageUnavailableError(f"cannot read {path}: {error}") from error
    return ""


def _difference(path: Path, expected: ManifestFile) -> str:
    with path.open("rb") as reader:
        return difference(digest_of(reader, algorithm=expected.digested_by), expected)
