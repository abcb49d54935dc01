"""Transfer of the files of a cut into a savepoint, and their digests for its manifest.

Invariant: a copy is digested while it is read, and must be read again to prove that the disk holds it. A link is the
live file itself: it is read at most once in its life. Its digest is the CRC32C that Spark wrote with the file, or the
cached digest from an earlier savepoint of this very file, or else it is computed now.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow_provider_ha.checkpoints.format.crc import recorded_crc32c
from airflow_provider_ha.checkpoints.format.rocksdb import has_unique_name
from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile
from airflow_provider_ha.checkpoints.savepoints.digest_cache import DigestCache
from airflow_provider_ha.checkpoints.trees.copying import copy_file
from airflow_provider_ha.checkpoints.trees.digests import crc32c_digits, digest_of, recorded
from airflow_provider_ha.checkpoints.trees.files import read
from airflow_provider_ha.checkpoints.trees.links import StrPath, linked
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError


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
