"""Unpacking of an archive from an untrusted author.

Invariants: a name becomes a path only when the archive's manifest lists it and the manifest passed the checks of
:mod:`~airflow_provider_ha.checkpoints.savepoints.manifest_names`. Every file has the length and digest of the manifest
and occurs once. Any mismatch ends the import and leaves no files. The manifest is written last, as in every savepoint.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.savepoints.archive.compression import DAMAGED, decompressing
from airflow_provider_ha.checkpoints.savepoints.archive.tar_headers import MemberReader, refused
from airflow_provider_ha.checkpoints.savepoints.directory import SavepointDirectory
from airflow_provider_ha.checkpoints.savepoints.judge import check
from airflow_provider_ha.checkpoints.savepoints.manifest_names import check_manifest
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import MANIFEST
from airflow_provider_ha.checkpoints.trees.attempts import check_target, directory_attempt, storage_errors
from airflow_provider_ha.checkpoints.trees.digests import digest_of
from airflow_provider_ha.checkpoints.trees.links import write_aside
from airflow_provider_ha.errors import RecordCorruptError, StorageUnavailableError
from airflow_provider_ha.storage.durable import directories_as_above


# About 200,000 files. The manifest is the only part of an archive that is loaded into memory.
MANIFEST_BYTES = 64 * 1024 * 1024


def described(archive: Path) -> Savepoint:
    """Return the checked manifest of an archive; raises as :func:`unpack`."""
    with _opened(archive) as stream:
        return _manifest(MemberReader(decompressing(stream)))[0]


def unpack(archive: Path, target: Path, *, expected: Savepoint | None = None) -> Savepoint:
    """Unpack an archive into the savepoint *target*.

    :param archive: As :func:`export` writes it; its compression is detected from its content.
    :param target: Directory of the savepoint; must not exist.
    :param expected: The manifest that :func:`described` returned, when a decision relied on it.
    :raises CheckpointCorruptError: The archive is refused, with the reason.
    :raises ConfigurationError: The target has no parent directory.
    :raises ObjectExistsError: The target exists.
    :raises StorageUnavailableError: A read or write failed, or the disk has too little space.
    """
    check_target(target)
    with _opened(archive) as stream:
        reader = MemberReader(decompressing(stream))
        savepoint, data = _manifest(reader)
        if expected is not None and savepoint != expected:
            raise refused("it was replaced while it was read")
        _check_room(savepoint, target)
        with directory_attempt(target) as hidden:
            with _damage_refused():
                _write_files(reader, hidden, savepoint)
            write_aside(hidden / MANIFEST, data)
            check(SavepointDirectory(hidden, savepoint))
    return savepoint


@contextmanager
def _opened(archive: Path) -> Iterator[IO[bytes]]:
    with storage_errors(f"cannot read {archive}"):
        stream = archive.open("rb")
    with stream, _damage_refused():
        yield stream


@contextmanager
def _damage_refused() -> Iterator[None]:
    try:
        yield
    except DAMAGED as error:
        raise refused(f"it cannot be unpacked: {error}") from None


def _manifest(reader: MemberReader) -> tuple[Savepoint, bytes]:
    """Read the first member; return the manifest and its bytes."""
    first = next(iter(reader), None)
    if first is None or first.name != MANIFEST:
        raise refused(f"it does not begin with {MANIFEST}")
    if first.size > MANIFEST_BYTES:
        raise refused(f"its manifest has {first.size} bytes, more than the {MANIFEST_BYTES} that are read")
    data = _read_all(reader)
    return _parse(data), data


def _write_files(reader: MemberReader, directory: Path, savepoint: Savepoint) -> None:
    missing = dict(savepoint.files)
    for member in reader:
        expected = missing.pop(member.name, None)
        if expected is None:
            raise refused(f"it holds {member.name!r}, which is not in the manifest or occurred before")
        if member.size != expected.size:
            raise refused(f"{member.name!r} has {member.size} bytes, the manifest says {expected.size}")
        _write(reader, directory / member.name, member.name, expected)
    for name in missing:
        raise refused(f"it does not hold {name!r}, which is in the manifest")


def _parse(data: bytes) -> Savepoint:
    try:
        return check_manifest(Savepoint.from_bytes(data, source=f"the archive's {MANIFEST}"))
    except RecordCorruptError as error:
        raise refused(error.message) from None
    except RecursionError:
        raise refused(f"its {MANIFEST} is nested too deeply") from None


def _check_room(savepoint: Savepoint, target: Path) -> None:
    needed = sum(file.size for file in savepoint.files.values())
    with storage_errors(f"cannot look at {target.parent}"):
        free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise StorageUnavailableError(
            f"the savepoint needs {needed} bytes, and {target.parent} has {free}",
            next_step="Unpack it on a larger disk",
        )


def _read_all(reader: MemberReader) -> bytes:
    parts = []
    while block := reader.read(MANIFEST_BYTES):
        parts.append(block)
    return b"".join(parts)


def _write(reader: MemberReader, path: Path, name: str, expected: ManifestFile) -> None:
    directories_as_above(path.parent)
    with path.open("xb") as writer:
        found = digest_of(reader, writer.write, algorithm=expected.digested_by)
        writer.flush()
        os.fsync(writer.fileno())
    if found != expected:
        raise refused(f"the digest of {name!r} differs from the manifest")
