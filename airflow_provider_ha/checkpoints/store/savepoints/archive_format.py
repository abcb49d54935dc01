"""Format of savepoint archives: plain ``ustar`` headers, and compression by gzip or Zstandard.

Invariant: a header is one block of 512 bytes and describes its file completely. The extended headers of ``pax`` and GNU
carry names and sizes of any length in extra blocks, which a reader must load into memory before it can check them;
sparse files, links and devices each need their own check. A savepoint needs neither.

Invariant: a read returns at most the requested number of bytes, so an archive that unpacks to a thousand times its size
costs no memory.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import zstandard

from airflow_provider_ha.errors import CheckpointCorruptError, ConfigurationError


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
    :param size: Bytes of content, without padding.
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
