"""Archives of savepoints: export, unpacking of untrusted archives, and import into the job.

Invariants: a name becomes a path only when the archive's manifest lists it and the manifest passed the checks of
:mod:`~airflow_provider_ha.checkpoints.store.savepoints.manifest`. Every file has the length and digest of the manifest
and occurs once. Any mismatch ends the import and leaves no files. The manifest is written last, as in every savepoint.

Invariants: the archive appears complete or not at all, and equal savepoints give equal bytes. The manifest is the first
member: a reader of the stream knows every name and size before the first byte of data, and stops at the first mismatch.
In a directory, the manifest marks completeness because it is written last; in an archive, the end-of-archive marker
does. Every byte is compared with the manifest during export: a damaged savepoint never becomes an archive.

Invariant: the savepoint becomes known by its pointer, like every other, after every byte was read again. Only the job
named in the manifest can import it: the rest of a restore, such as the job graph, belongs to that job.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.spark.atomic import (
    check_target,
    directory_attempt,
    file_attempt,
    scratch_directory,
    storage_errors,
    write_aside,
)
from airflow_provider_ha.checkpoints.spark.digests import difference, digest_of
from airflow_provider_ha.checkpoints.store.pointer_scan import Commit
from airflow_provider_ha.checkpoints.store.savepoints.archive_format import (
    DAMAGED,
    END,
    MemberReader,
    compressing,
    compression_of,
    decompressing,
    header,
    padding,
    refused,
)
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST, check_manifest
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import SavepointDirectory
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import check
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    JobStateError,
    RecordCorruptError,
    StorageUnavailableError,
)
from airflow_provider_ha.names import check_savepoint_id
from airflow_provider_ha.storage.durable import directories_as_above, make_directories, remove_tree


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
    return CheckpointCorruptError(name, reason, next_step="Take another savepoint")


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
            raise refused(f"{member.name!r} has {member.size} bytes, the manifest records {expected.size}")
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


def check_adoptable(savepoints: SavepointStore, job_id: str, savepoint: Savepoint) -> None:
    """Refuse a savepoint that the job cannot adopt; change nothing.

    :raises ConfigurationError: Its id is not a valid name.
    :raises JobStateError: It belongs to another job, or the job already has a savepoint with that id.
    """
    check_savepoint_id(savepoint.savepoint_id)
    if savepoint.job_id != job_id:
        raise JobStateError(
            f"the archive holds a savepoint of job {savepoint.job_id!r}, not of {job_id!r}",
            next_step="Import it with --to, and restore it from there",
        )
    try:
        savepoints.pointer(savepoint.savepoint_id)
    except CheckpointMissingError:
        return
    raise JobStateError(
        f"job {job_id!r} already has a savepoint {savepoint.savepoint_id!r}",
        next_step="Check it with `spark-ha savepoint verify`",
    )


def adopt(
    savepoints: SavepointStore,
    job_id: str,
    commit: Commit,
    archive: Path,
    expected: Savepoint,
    *,
    scratch: Path | None = None,
) -> Savepoint:
    """Unpack an archive and make it a savepoint of the job.

    :param commit: ``leadership.commit`` of the job's leader.
    :param expected: The manifest that ``unpack.described`` returned.
    :param scratch: Directory for temporary files when the job's savepoints are on S3 or HDFS; by default the directory
        of
        the archive.
    :raises CheckpointCorruptError: The archive is refused; no part is kept.
    :raises JobStateError: As :func:`check_adoptable`, or the files of an earlier savepoint with that id are still being
        read.
    """
    check_adoptable(savepoints, job_id, expected)
    directory = savepoints.tree(expected.savepoint_id).local_path
    if directory is None:
        with scratch_directory((scratch or archive.parent) / archive.name) as beside:
            unpacked = beside / "savepoint"
            return savepoints.receive(
                commit, SavepointDirectory(unpacked, unpack(archive, unpacked, expected=expected))
            )
    savepoints.finish_removal(commit, expected.savepoint_id)
    make_directories(directory.parent)
    if directory.exists():
        remove_tree(directory)  # left by a process that died before it wrote the pointer: without one it has no owner
    savepoint = unpack(archive, directory, expected=expected)
    try:
        savepoints.publish(commit, savepoint)
    except CheckpointCorruptError:
        remove_tree(directory)
        raise
    return savepoint
