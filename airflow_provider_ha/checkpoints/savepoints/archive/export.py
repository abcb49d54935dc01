"""Export of a savepoint as one file.

Invariants: the archive appears complete or not at all, and equal savepoints give equal bytes. The manifest is the first
member: a reader of the stream knows every name and size before the first byte of data, and stops at the first mismatch.
In a directory, the manifest marks completeness because it is written last; in an archive, the end-of-archive marker
does. Every byte is compared with the manifest during export: a damaged savepoint never becomes an archive.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.savepoints.archive.compression import compressing, compression_of
from airflow_provider_ha.checkpoints.savepoints.archive.tar_headers import END, header, padding
from airflow_provider_ha.checkpoints.savepoints.manifest_names import check_manifest
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import MANIFEST
from airflow_provider_ha.checkpoints.trees.attempts import check_target, file_attempt
from airflow_provider_ha.checkpoints.trees.digests import difference, digest_of
from airflow_provider_ha.errors import CheckpointCorruptError


def export(directory: Path, savepoint: Savepoint, target: Path) -> int:
    """Write the archive *target* of a savepoint; return its size in bytes.

    :param directory: The savepoint.
    :param savepoint: Its manifest.
    :param target: ``.tar``, ``.tar.gz`` or ``.tar.zst``; must not exist.
    :raises CheckpointCorruptError: A file differs from the manifest.
    :raises ConfigurationError: The target has another suffix, or no parent directory.
    :raises ObjectExistsError: The target exists.
    :raises StorageUnavailableError: A read or write failed.
    """
    compression = compression_of(target)
    check_target(target)
    check_manifest(savepoint)
    modified = int(savepoint.created_at.timestamp())
    # All headers before the first byte: a name that cannot be archived fails early.
    headers = {name: header(name, file.size, modified) for name, file in sorted(savepoint.files.items())}
    manifest = savepoint.to_bytes()
    with file_attempt(target) as stream:
        with compressing(stream, compression) as writer:
            writer.write(header(MANIFEST, len(manifest), modified) + manifest + padding(len(manifest)))
            for name, block in headers.items():
                writer.write(block)
                _append(writer, directory, name, savepoint.files[name])
            writer.write(END)
        stream.flush()
        return stream.tell()


def _append(writer: IO[bytes], directory: Path, name: str, expected: ManifestFile) -> None:
    try:
        with (directory / name).open("rb") as reader:
            found = digest_of(reader, writer.write, algorithm=expected.digested_by)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise _bad(name, "it is in the manifest but missing") from None
    if problem := difference(found, expected):
        raise _bad(name, problem)
    writer.write(padding(expected.size))


def _bad(name: str, reason: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(name, reason, next_step="Take another savepoint; no archive was written")
