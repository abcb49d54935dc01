"""Transfer of the files of a cut into a savepoint, with a cache of the digests of linked files.

Invariant: a copy is digested while it is read, and must be read again to prove that the disk holds it. A link is the
live file itself: it is read at most once in its life. Its digest is the CRC32C that Spark wrote with the file, or the
cached digest from an earlier savepoint of this very file, or else it is computed now.

Invariant: a digest counts only for the same file: same name, inode, size and modification time. A change within the
granularity of that time leaves no trace, so files that young are not cached. The reference time comes from the file
system: it is the modification time of a directory created there before the first read.

The cache is an optimization: one that is damaged or cannot be written is dropped with a log line.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import ClassVar

from airflow_provider_ha.checkpoints.areas.pins import SINKS
from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile
from airflow_provider_ha.checkpoints.spark.atomic import StrPath, linked, write_aside
from airflow_provider_ha.checkpoints.spark.checksums import recorded_crc32c
from airflow_provider_ha.checkpoints.spark.digests import copy_file, crc32c_digits, digest_of, recorded
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, read
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.rocksdb import has_unique_name
from airflow_provider_ha.errors import CheckpointCorruptError, RecordCorruptError, StorageUnavailableError
from airflow_provider_ha.records import Model, Record


log = logging.getLogger(__name__)

#: File name of the cache, in the directory of the savepoints that it serves.
CACHE = ".spark-ha-digests.json"
# The coarsest clock of a file system that Linux mounts (FAT), in nanoseconds.
GRANULARITY_NS = 2_000_000_000


class CachedDigest(Model):
    """State of a file when it was read.

    :param size: Bytes.
    :param modified_ns: Modification time, nanoseconds since 1970.
    """

    inode: int
    device: int
    size: int
    modified_ns: int
    sha256: str


class CachedDigests(Record):
    """Content of the cache file.

    :param files: Path relative to the savepoint -> its file.
    """

    kind: ClassVar[str] = "known-digests"

    files: dict[str, CachedDigest] = {}


class DigestCache:
    """The known digests, for one savepoint.

    :param path: The cache file; need not exist.
    :param new: An empty directory, just created where the savepoint will be.
    :raises OSError: *new* could not be inspected.
    """

    def __init__(self, path: Path, new: Path) -> None:
        made = new.lstat()
        self._path = path
        self._device = made.st_dev
        self._young = made.st_mtime_ns - GRANULARITY_NS
        self._before = _read(path)
        self._now: dict[str, CachedDigest] = {}

    def known(self, name: str, status: os.stat_result) -> str | None:
        """Return the sha256 of a file; ``None`` when this file was not read before.

        :param name: Path relative to the savepoint.
        """
        found = self._before.get(name)
        if found is None or found != _identity(status, found.sha256):
            return None
        self._now[name] = found
        return found.sha256

    def learn(self, name: str, status: os.stat_result, sha256: str) -> None:
        """Remember a file that was read from start to end.

        :param status: Its status before the first byte was read.
        """
        # The clock of another device proves nothing.
        if status.st_dev == self._device and status.st_mtime_ns < self._young:
            self._now[name] = _identity(status, sha256)

    def save(self) -> None:
        """Write the known digests. A query of this savepoint keeps only its current files, to bound the cache."""
        queries = {_query(name) for name in self._now}
        others = {name: file for name, file in self._before.items() if _query(name) not in queries}
        if self._now == self._before:
            return
        try:
            write_aside(self._path, CachedDigests(files=others | self._now).to_bytes())
        except (OSError, StorageUnavailableError) as error:
            log.warning("the next savepoint will read every byte again: cannot write %s: %s", self._path, error)


def _query(name: str) -> str:
    first, _, rest = name.partition("/")
    return rest.partition("/")[0] if first == SINKS else first


def _identity(status: os.stat_result, sha256: str) -> CachedDigest:
    return CachedDigest(
        inode=status.st_ino,
        device=status.st_dev,
        size=status.st_size,
        modified_ns=status.st_mtime_ns,
        sha256=sha256,
    )


def _read(path: Path) -> dict[str, CachedDigest]:
    try:
        return CachedDigests.from_bytes(read(LocalTree(path.parent), path.name), source=str(path)).files
    except FileGoneError:
        return {}
    except (CheckpointCorruptError, StorageUnavailableError, RecordCorruptError, RecursionError) as error:
        log.warning("reading every byte again, without the digests of earlier savepoints: %s", error)
        return {}


class Transfer:
    """Copies or links files into a savepoint.

    :param link: Whether to use hard links where possible; otherwise files are copied.
    :param cache: Digests of earlier savepoints, for links; ``None`` for links without digests.
    """

    def __init__(self, *, link: bool = False, cache: DigestCache | None = None) -> None:
        self._cache = cache
        #: The copied files: their content on disk is unproven until they are read again. ``None``: all.
        self.copied: set[str] | None = set() if link else None

    def __call__(self, name: str, source: StrPath, target: StrPath) -> ManifestFile:
        """Create *target* from *source* and return its manifest entry.

        :param name: Path relative to the savepoint.
        :raises FileNotFoundError: The source does not exist, or no longer.
        """
        if self.copied is None:
            return copy_file(Path(source), Path(target))
        if not linked(source, target):
            self.copied.add(name)
            return copy_file(Path(source), Path(target))
        if self._cache is None:
            return ManifestFile(size=os.lstat(target).st_size)
        return self._digested(self._cache, name, Path(source), Path(target))

    def done(self) -> None:
        """Save the digests for the next savepoint, after this one is complete."""
        if self._cache is not None:
            self._cache.save()

    def _digested(self, cache: DigestCache, name: str, source: Path, target: Path) -> ManifestFile:
        with target.open("rb", buffering=0) as reader:
            status = os.fstat(reader.fileno())
            by_spark = _sum_of_spark(source, status.st_size)
            if by_spark is not None:
                return by_spark
            known = cache.known(name, status)
            if known is not None:
                return recorded(status.st_size, Algorithm.SHA256, known)
            found = digest_of(reader)
        cache.learn(name, status, found.sha256)
        return found


def _sum_of_spark(source: Path, size: int) -> ManifestFile | None:
    """Return a file's digest from Spark's checksum file; ``None`` without a reliable one.

    Under a name that another attempt may rewrite, the checksum may be that of the other attempt's file.
    """
    if not has_unique_name(source.name):
        return None
    try:
        value = recorded_crc32c(read(LocalTree(source.parent), f"{source.name}.crc"), size)
    except (CheckpointCorruptError, StorageUnavailableError):
        return None
    return None if value is None else recorded(size, Algorithm.CRC32C, crc32c_digits(value))
