"""The headers of an archive: plain ``ustar``, one block per file, nothing else.

Invariant: a header is one block of 512 bytes and says everything about its file. The extended headers of ``pax`` and
GNU carry names and sizes of any length in extra blocks, which a reader has to take into memory before it can
judge them; sparse files, links and devices need a judgement each. A savepoint needs none of them.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from airflow_provider_ha.errors import CheckpointCorruptError, ConfigurationError


END = bytes(2 * tarfile.BLOCKSIZE)


@dataclass(frozen=True, slots=True)
class TarMember:
    """One file of an archive.

    :param name: As the archive has it: not checked.
    :param size: Bytes that follow, padding not counted.
    """

    name: str
    size: int


def header(name: str, size: int, modified: int) -> bytes:
    """Return the header of a file.

    :param modified: Seconds since 1970; the same for equal savepoints.
    :raises ConfigurationError: A header has no room for the name, or for the size.
    """
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, modified, 0o600
    try:
        return info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")
    except ValueError as error:
        raise ConfigurationError(
            f"file {name!r} of {size} bytes cannot be put into an archive: {error}",
            next_step="Copy the savepoint's directory instead",
        ) from None


def padding(size: int) -> bytes:
    """Return what follows the bytes of a file, up to the next block."""
    return bytes(-size % tarfile.BLOCKSIZE)


class MemberReader:
    """Reads the files of an archive one after the other, in the order in which they lie there.

    :param stream: Its bytes, unpacked; read once from front to end.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left = 0
        self._padding = 0

    def __iter__(self) -> Iterator[TarMember]:
        """Yield each file from here on; what was not read of it is skipped.

        :raises CheckpointCorruptError: It is not an archive, is cut, or holds what is not a plain file.
        """
        while (member := self._next()) is not None:
            self._left, self._padding = member.size, len(padding(member.size))
            yield member

    def read(self, size: int) -> bytes:
        """Return up to *size* bytes of the current file; nothing at its end.

        :raises CheckpointCorruptError: The archive ends before the file does.
        """
        block = self._stream.read(min(size, self._left))
        if self._left and not block:
            raise refused("it is cut")
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
            raise refused(f"it is not an archive, or damaged ({error})") from None
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise refused(f"it holds {info.name!r}, which is not a plain file")
        if info.size < 0:
            raise refused(f"it says that {info.name!r} has {info.size} bytes")
        return TarMember(info.name, info.size)

    def _check_end(self) -> None:
        """Read to the end: only so the checksum of a compressed stream is compared."""
        rest = b""
        while block := self._stream.read(tarfile.RECORDSIZE):
            rest += block
            if any(rest) or len(rest) > 2 * tarfile.RECORDSIZE:
                raise refused("something follows its end")


def refused(reason: str) -> CheckpointCorruptError:
    """Return the error for an archive that is not taken."""
    return CheckpointCorruptError(
        "archive", reason, next_step="Nothing of it was kept; fetch it again from where it was exported"
    )


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = b""
    while len(data) < size:
        block = stream.read(size - len(data))
        if not block:
            raise refused("it is cut")
        data += block
    return data
