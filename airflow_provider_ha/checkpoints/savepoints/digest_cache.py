"""Cache of the digests of linked files, so that each savepoint reads only new files.

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

from airflow_provider_ha.checkpoints.trees.files import FileGoneError, read
from airflow_provider_ha.checkpoints.trees.links import write_aside
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.working.pins import SINKS
from airflow_provider_ha.errors import CheckpointCorruptError, RecordCorruptError, StorageUnavailableError
from airflow_provider_ha.records import Model, Record


log = logging.getLogger(__name__)

#: File name of the cache, in the directory of the savepoints that it serves.
CACHE = ".spark-ha-digests.json"
# The coarsest clock of a file system that Linux mounts (FAT), in nanoseconds.
GRANULARITY_NS = 2_000_000_000


class KnownDigest(Model):
    """State of a file when it was read.

    :param size: Bytes.
    :param modified_ns: Modification time, nanoseconds since 1970.
    """

    inode: int
    device: int
    size: int
    modified_ns: int
    sha256: str


class KnownDigests(Record):
    """Content of the cache file.

    :param files: Path relative to the savepoint -> its file.
    """

    kind: ClassVar[str] = "known-digests"

    files: dict[str, KnownDigest] = {}


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
        self._now: dict[str, KnownDigest] = {}

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
            write_aside(self._path, KnownDigests(files=others | self._now).to_bytes())
        except (OSError, StorageUnavailableError) as error:
            log.warning("the next savepoint will read every byte again: cannot write %s: %s", self._path, error)


def _query(name: str) -> str:
    first, _, rest = name.partition("/")
    return rest.partition("/")[0] if first == SINKS else first


def _identity(status: os.stat_result, sha256: str) -> KnownDigest:
    return KnownDigest(
        inode=status.st_ino,
        device=status.st_dev,
        size=status.st_size,
        modified_ns=status.st_mtime_ns,
        sha256=sha256,
    )


def _read(path: Path) -> dict[str, KnownDigest]:
    try:
        return KnownDigests.from_bytes(read(LocalTree(path.parent), path.name), source=str(path)).files
    except FileGoneError:
        return {}
    except (CheckpointCorruptError, StorageUnavailableError, RecordCorruptError, RecursionError) as error:
        log.warning("reading every byte again, without the digests of earlier savepoints: %s", error)
        return {}
