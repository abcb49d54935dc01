"""Checksums and digests of files: one pass for a decoder and its checksums, comparison with a manifest, copies.

CRC32 of every 512 bytes in Hadoop's hidden ``.<name>.crc``; CRC32C of the whole file in Spark's visible ``<name>.crc``
(4.1 and later). Both are computed while another reader reads the file.

Invariant: each sum sees each byte once and in order, also when the decoder reads only parts of the file, in any order.

Invariant: a file is compared with the digest in its manifest, of any algorithm; without a digest, only its size is
compared, and its bytes are unchecked.

Invariant: a later write to the source does not change the copy. A reflink shares blocks until one of the two is written
to, so it is a copy; a hard link is the same file, so the manifest records so.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import google_crc32c

from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile
from airflow_provider_ha.checkpoints.spark.files import opened
from airflow_provider_ha.checkpoints.spark.tree import OpenFile, Tree
from airflow_provider_ha.storage.durable import COPY_BUFFER, directories_as_above, flush, reflink
from airflow_provider_ha.storage.outage import outages


# Large enough that a call to the system costs nothing beside it, small enough that a few threads hold little.
PIECE = 256 * 1024


class RunningSum(Protocol):
    """Something that is computed over all bytes of a file."""

    def add(self, piece: bytes) -> None:
        """Take the next bytes."""


class SinglePass:
    """Reads a file in large pieces and keeps the last one.

    :param sums: Checksums; each receives every byte, by :meth:`finish` at the latest.
    """

    def __init__(self, file: OpenFile, sums: Sequence[RunningSum] = ()) -> None:
        self.size = file.size
        self._file = file
        self._sums = sums
        self._summed = 0
        self._start = 0
        self._piece = b""

    def at(self, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; fewer at the end of the file. The caller bounds *length*."""
        begin = offset - self._start
        if begin < 0 or begin + length > len(self._piece):
            self._read(offset, length)
            begin = offset - self._start
        return self._piece[begin : begin + length]

    def pieces(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield *length* bytes from *offset* (all that follow when not given) in pieces."""
        end = self.size if length is None else min(self.size, offset + length)
        while offset < end:
            piece = self.at(offset, min(PIECE, end - offset))
            if not piece:
                return  # it became shorter
            yield piece
            offset += len(piece)

    def finish(self) -> None:
        """Give the sums the bytes that the decoder did not read."""
        if self._sums:
            for _ in self.pieces(self._summed):
                pass

    def _read(self, offset: int, length: int) -> None:
        if self.size <= PIECE:
            offset, length = 0, self.size  # most files are small: one call reads all
        self._piece = self._file.read_at(offset, max(length, min(PIECE, self.size - offset)))
        self._start = offset
        new = self._summed - offset
        if 0 <= new < len(self._piece):
            self._summed = offset + len(self._piece)
            for each in self._sums:
                each.add(self._piece[new:])


_MASK = 0xFFFFFFFF
_HADOOP_HEADER = struct.Struct(">4sI")
_HADOOP_MAGIC = b"crc\x00"
_SUM_SIZE = 4


class _SparkRecord(NamedTuple):
    algorithm: str
    value: int
    size: int


class SparkSum:
    """Checksum of a file with a ``<name>.crc`` of Spark."""

    def __init__(self, checksum_file: bytes) -> None:
        self._recorded = checksum_file
        self._value = 0
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Take the next bytes of the file."""
        self._value = google_crc32c.extend(self._value, piece)
        self._size += len(piece)

    def problem(self) -> str:
        """Return why the checksum file does not fit the file; empty when it fits."""
        recorded = _spark_record(self._recorded)
        if recorded is None:
            return "the checksum file cannot be read"
        if recorded.size != self._size:
            return f"it has {self._size} bytes, its checksum file records {recorded.size}"
        if recorded.algorithm == "CRC32C" and self._value != recorded.value & _MASK:
            return f"its CRC32C is {self._value}, its checksum file records {recorded.value & _MASK}"
        return ""


def recorded_crc32c(checksum_file: bytes, size: int) -> int | None:
    """Return the CRC-32C that Spark recorded of a file, unsigned; ``None`` when it recorded none.

    :param checksum_file: Content of its ``<name>.crc``.
    :param size: Bytes that the file has. A checksum of another size is another file's.
    """
    recorded = _spark_record(checksum_file)
    if recorded is None or recorded.size != size or recorded.algorithm != "CRC32C":
        return None
    return recorded.value & _MASK


class HadoopSums:
    """Checksums of a file with a ``.<name>.crc`` of Hadoop, compared as Hadoop does.

    :param read_at: Reads (offset, length) of the checksum file: it has a sum per chunk, so sums are read as needed.
    """

    def __init__(self, read_at: Callable[[int, int], bytes]) -> None:
        self._read_at = read_at
        self._at = _HADOOP_HEADER.size
        # Of the chunk that goes on in the next piece: how much of it was seen, and its sum so far.
        self._filled = self._begun = 0
        self._chunk, self._problem = _hadoop_head(read_at(0, _HADOOP_HEADER.size))

    def add(self, piece: bytes) -> None:
        """Take the next bytes of the file."""
        if self._problem:
            return
        view, at = memoryview(piece), 0
        if self._filled:
            at = min(len(piece), self._chunk - self._filled)
            self._begin(view[:at])
            if self._filled < self._chunk:
                return
            self._end()
        whole = len(piece) - (len(piece) - at) % self._chunk
        self._compare(_sums(view[at:whole], self._chunk))
        self._begin(view[whole:])

    def problem(self) -> str:
        """Return why the checksum file does not match the file; empty when it does. Ends the input."""
        if self._filled and not self._problem:
            self._end()
        if not self._problem and self._read_at(self._at, 1):
            self._problem = "the hidden checksum file does not fit it"
        return self._problem

    def _begin(self, part: memoryview) -> None:
        self._begun = zlib.crc32(part, self._begun)
        self._filled += len(part)

    def _end(self) -> None:
        self._compare(self._begun.to_bytes(_SUM_SIZE, "big"))
        self._filled = self._begun = 0

    def _compare(self, sums: bytes) -> None:
        if self._read_at(self._at, len(sums)) != sums:
            self._problem = "the hidden checksum file does not fit it"
        self._at += len(sums)


def was_changed(data: bytes, checksum_file: bytes) -> bool:
    """Return whether a file's *data* was changed after Hadoop wrote its ``.<name>.crc``.

    A changed content changes all four bytes of a sum (but for 1 in four million). A checksum file that is cut, or
    differs in one byte, was damaged itself: it says nothing about the file.
    """
    chunk, problem = _hadoop_head(checksum_file[: _HADOOP_HEADER.size])
    if problem:
        return False
    sums, expected = checksum_file[_HADOOP_HEADER.size :], _sums(memoryview(data), chunk)
    return len(sums) != len(expected) or sum(one != other for one, other in zip(sums, expected, strict=True)) > 1


def _spark_record(checksum_file: bytes) -> _SparkRecord | None:
    try:
        fields = json.loads(checksum_file)
        return _SparkRecord(str(fields["algorithm"]), int(fields["value"]), int(fields["mainFileSize"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _hadoop_head(head: bytes) -> tuple[int, str]:
    """Return the number of bytes per sum, and the fault in the head of a checksum file."""
    if len(head) < _HADOOP_HEADER.size:
        return 0, "the hidden checksum file is cut"
    magic, chunk = _HADOOP_HEADER.unpack(head)
    if magic != _HADOOP_MAGIC or chunk == 0:
        return 0, "the hidden checksum file is not one"
    return chunk, ""


def _sums(data: memoryview, chunk: int) -> bytes:
    crc32 = zlib.crc32
    sums = [crc32(data[at : at + chunk]) for at in range(0, len(data), chunk)]
    return struct.pack(f">{len(sums)}I", *sums)


_BUFFER = 1024 * 1024


class Reader(Protocol):
    """Reader of pieces."""

    def read(self, size: int, /) -> bytes:
        """Return up to *size* bytes; nothing at the end."""


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class _Crc32c:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes, /) -> None:
        self._value = google_crc32c.extend(self._value, data)

    def hexdigest(self) -> str:
        return crc32c_digits(self._value)


def digest_of(
    reader: Reader,
    write: Callable[[bytes], object] | None = None,
    *,
    algorithm: Algorithm | None = Algorithm.SHA256,
) -> ManifestFile:
    """Read a file to its end in pieces; return its size and digest.

    :param algorithm: Algorithm of the digest; ``None`` for the size alone.
    """
    digest, size = _begun(algorithm), 0
    while block := reader.read(_BUFFER):
        if digest is not None:
            digest.update(block)
        size += len(block)
        if write is not None:
            write(block)
    if digest is None or algorithm is None:
        return ManifestFile(size=size)
    return recorded(size, algorithm, digest.hexdigest())


def recorded(size: int, algorithm: Algorithm, value: str) -> ManifestFile:
    """Return the manifest's entry for a file with this digest."""
    if algorithm is Algorithm.SHA256:
        return ManifestFile(size=size, sha256=value)
    return ManifestFile(size=size, digest=value, algorithm=algorithm)


def difference(found: ManifestFile, expected: ManifestFile) -> str:
    """Return the difference of a file from its manifest; empty without one.

    :param found: As :func:`digest_of` returns it for the algorithm of *expected*, or for any when that has none.
    """
    if found.size != expected.size:
        return f"it has {found.size} bytes, the manifest records {expected.size}"
    same = (found.sha256, found.digest) == (expected.sha256, expected.digest)
    return "" if same or expected.digested_by is None else "its digest is not the one in the manifest"


def crc32c_digits(value: int) -> str:
    """Return a CRC32C as a manifest has it."""
    return f"{value:08x}"


def _begun(algorithm: Algorithm | None) -> _Digest | None:
    if algorithm is Algorithm.CRC32C:
        return _Crc32c()
    return None if algorithm is None else hashlib.sha256()


def copy_file(source: Path, target: Path, algorithm: Algorithm | None = Algorithm.SHA256) -> ManifestFile:
    """Copy a file, by reflink where the file system can, and force it to the disk.

    Through one open file: a state file that another replaces by a rename stays whole under this descriptor.

    :param algorithm: Algorithm of the digest; ``None`` for no digest.
    :raises FileNotFoundError: The file is not there.
    :raises StorageUnavailableError: One of the two file systems does not answer.
    """
    with outages(f"copied to {target}", source):
        directories_as_above(target.parent)
        with source.open("rb") as reader, target.open("x+b") as writer:
            if reflink(reader, writer):
                copied = digest_of(writer, algorithm=algorithm)
            else:
                copied = digest_of(reader, writer.write, algorithm=algorithm)
            flush(writer)
    return copied


def copy_out(tree: Tree, name: str, target: Path) -> None:
    """Copy a file of any tree to this host, and force it to the disk.

    :raises FileGoneError: It is not there.
    :raises StorageUnavailableError: It could not be read, or not be written here.
    """
    with opened(tree, name) as source, outages("written", target):
        directories_as_above(target.parent)
        with target.open("xb") as writer:
            for offset in range(0, source.size, COPY_BUFFER):
                writer.write(source.read_at(offset, COPY_BUFFER))
            flush(writer)


def shares_inode(path: Path) -> bool:
    """Return whether a file has another hard link: a write through that link changes it."""
    return path.lstat().st_nlink > 1
