"""Archive compression: none, gzip or Zstandard, chosen by file name on write and detected from content on read.

Invariant: a read returns at most the requested number of bytes, so an archive that unpacks to a thousand times its size
costs no memory.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import zstandard

from airflow_provider_ha.errors import ConfigurationError


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
