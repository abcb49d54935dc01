"""Archives of savepoints: their format, export, and unpacking of untrusted archives.

Invariants: a name becomes a path only when the archive's manifest lists it and the manifest passed the checks of
:mod:`~airflow_provider_ha.checkpoints.store.savepoints.manifest`. Every file has the length and digest of the manifest
and occurs once. Any mismatch ends the import and leaves no files. The manifest is written last, as in every savepoint.

Invariants: the archive appears complete or not at all, and equal savepoints give equal bytes. The manifest is the first
member: a reader of the stream knows every name and size before the first byte of data, and stops at the first mismatch.
In a directory, the manifest marks completeness because it is written last; in an archive, the end-of-archive marker
does. Every byte is compared with the manifest during export: a damaged savepoint never becomes an archive.

Invariant of the format: a plain ``ustar`` header is one block of 512 bytes and describes its file completely. The
extended headers of ``pax`` and GNU carry names and sizes of any length in extra blocks, which a reader must load into
memory before it can check them; sparse files, links and devices each need their own check. A savepoint needs neither.
A read returns at most the requested number of bytes, so an archive that unpacks to a thousand times its size costs no
memory.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import zstandard

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.spark.atomic import (
    check_target,
    directory_attempt,
    file_attempt,
    storage_errors,
    write_aside,
)
from airflow_provider_ha.checkpoints.spark.checksums import difference, digest_of
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST, check_manifest
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import SavepointDirectory
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import check
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    ConfigurationError,
    RecordCorruptError,
    StorageUnavailableError,
)
from airflow_provider_ha.storage.durable import directories_as_above


# Errors of a damaged compressed stream. EOFError: the stream is truncated.
DAMAGED = (gzip.BadGzipFile, zlib.error, zstandard.ZstdError, EOFError)

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_SUFFIXES = {".tar": "", ".tar.gz": "gzip", ".tgz": "gzip", ".tar.zst": "zstd"}
# Window limit of the decompressor: the limit that every zstd command accepts by default.
_WINDOW_BYTES = 128 * 1024 * 1024


def compression_of(path: Path) -> str:
    """Return the compression for the suffix of an archive name.

    :raises ConfigurationError: The suffix is unknown.
    """
    for suffix, compression in _SUFFIXES.items():
        if path.name.endswith(suffix):
            return compression
    raise ConfigurationError(
        f"archive name {path.name!r} has no known suffix", next_step="Name it .tar, .tar.gz or .tar.zst"
    )


@contextmanager
def compressing(stream: IO[bytes], compression: str) -> Iterator[IO[bytes]]:
    """Yield a writer for the compressed stream; equal input gives equal output."""
    if compression == "gzip":
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=stream, mtime=0) as writer:
            yield writer  # type: ignore[misc]  # it has all of IO[bytes] that is written to
    elif compression == "zstd":
        compressor = zstandard.ZstdCompressor(level=3, write_checksum=True, write_content_size=False)
        with compressor.stream_writer(stream, closefd=False) as packer:
            yield packer
    else:
        yield stream


def decompressing(stream: IO[bytes]) -> IO[bytes]:
    """Return a reader of the decompressed stream; its ``read`` raises one of ``DAMAGED`` for a damaged stream."""
    start = stream.read(4)
    stream.seek(0)
    if start.startswith(_GZIP):
        return gzip.GzipFile(fileobj=stream, mode="rb")  # type: ignore[return-value]  # as above
    if start == _ZSTD:
        unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        return unpacker.stream_reader(stream, read_across_frames=True, closefd=False)
    return stream


END = bytes(2 * tarfile.BLOCKSIZE)


@dataclass(frozen=True, slots=True)
class TarMember:
    """One file of an archive.

    :param name: As in the archive, unchecked.
    """

    name: str
    size: int


def header(name: str, size: int, modified: int) -> bytes:
    """Return the header of a file.

    :param modified: Seconds since 1970; the same for equal savepoints.
    :raises ConfigurationError: The name or the size does not fit into a header.
    """
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, modified, 0o600
    try:
        return info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")
    except ValueError as error:
        raise ConfigurationError(
            f"file {name!r} of {size} bytes cannot be archived: {error}",
            next_step="Copy the savepoint's directory instead",
        ) from None


def padding(size: int) -> bytes:
    """Return the padding after the content of a file, up to the next block."""
    return bytes(-size % tarfile.BLOCKSIZE)


class MemberReader:
    """Reader of the files of an archive, in archive order.

    :param stream: The decompressed bytes; read once from start to end.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left = 0
        self._padding = 0

    def __iter__(self) -> Iterator[TarMember]:
        """Yield each remaining file; skip content that was not read.

        :raises CheckpointCorruptError: The stream is not an archive, is truncated, or holds an entry that is not a
            plain file.
        """
        while (member := self._next()) is not None:
            self._left, self._padding = member.size, len(padding(member.size))
            yield member

    def read(self, size: int) -> bytes:
        """Return up to *size* bytes of the current file; empty at its end.

        :raises CheckpointCorruptError: The archive ends before the file does.
        """
        block = self._stream.read(min(size, self._left))
        if self._left and not block:
            raise refused("it is truncated")
        self._left -= len(block)
        return block

    def _next(self) -> TarMember | None:
        while self.read(tarfile.RECORDSIZE):
            pass
        _exactly(self._stream, self._padding)
        block = _exactly(self._stream, tarfile.BLOCKSIZE)
        if not any(block):
            self._check_end()
            return None
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise refused(f"it is not an archive, or is damaged ({error})") from None
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise refused(f"it holds {info.name!r}, which is not a plain file")
        if info.size < 0:
            raise refused(f"it gives {info.size} bytes as the size of {info.name!r}")
        return TarMember(info.name, info.size)

    def _check_end(self) -> None:
        """Read to the end: a compressed stream compares its checksum only there."""
        rest = b""
        while block := self._stream.read(tarfile.RECORDSIZE):
            rest += block
            if any(rest) or len(rest) > 2 * tarfile.RECORDSIZE:
                raise refused("data follows its end")


def refused(reason: str) -> CheckpointCorruptError:
    """Return the error for a refused archive."""
    return CheckpointCorruptError(
        "archive", reason, next_step="Fetch the archive again from its origin; no file was imported"
    )


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = b""
    while len(data) < size:
        block = stream.read(size - len(data))
        if not block:
            raise refused("it is truncated")
        data += block
    return data


def export(directory: Path, savepoint: Savepoint, target: Path) -> int:
    """Write the archive *target* of a savepoint; return its size in bytes.

    :param target: ``.tar``, ``.tar.gz`` or ``.tar.zst``; must not exist.
    :raises CheckpointCorruptError: A file differs from the manifest.
    :raises ConfigurationError: The target has another suffix, or no parent directory.
    :raises ObjectExistsError: The target exists.
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
