"""Savepoints written in place in a work area, the manifest last: drafts, and copies of foreign savepoints.

Invariant: a directory without a manifest is not a savepoint. A copy is digested while it is read, and read again before
a pointer names it; the storage detects a Spark file that is replaced during its copy. A leader that was deposed during
its copy replaces no file that its successor has copied to the same place, except files of more than 1 MiB, which are
too large for a conditional create: RocksDB tables, whose bytes are the same under one name, and snapshots of the
HDFS-backed provider, where this is a limitation.

Invariant: a directory without a manifest is not a savepoint, and the manifest is written last. Every file is compared
with the old manifest during the copy; the new manifest describes the copied files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.pins import purged
from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.spark.digests import digest_of
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, opened
from airflow_provider_ha.checkpoints.spark.object_tree import each
from airflow_provider_ha.checkpoints.spark.tree import Tree, WritableTree
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST, SequentialReader
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import StoredSavepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import fetch
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.storage.durable import make_directories


_WHOLE = 4 << 20  # bytes: a larger file is uploaded in parts


def copied(stored: StoredSavepoint, target: WritableTree) -> Savepoint:
    """Copy a savepoint to *target*; return the new manifest.

    :param target: Its directory; empty.
    :raises CheckpointCorruptError: The source differs from its manifest.
    :raises ObjectExistsError: A file of the target exists.
    :raises StorageUnavailableError: A read or write failed.
    """
    if target.local_path is not None:
        make_directories(target.local_path.parent)
        return fetch(stored, target.local_path)
    with stored.reader() as bring, tempfile.TemporaryDirectory(prefix="spark-ha-copy-") as scratch:

        def put(name: str) -> ManifestFile:
            path = Path(scratch) / new_id()
            file = bring(name, path)
            if file.size <= _WHOLE:
                target.create(name, path.read_bytes())
            else:
                target.upload(name, path)
            path.unlink()
            return file

        names = list(stored.savepoint.files)
        files = dict(zip(names, each(put, names), strict=True))
    digested = all(file.digested_by for file in files.values())
    made = stored.savepoint.model_copy(update={"files": files, "digested": digested, "shares_inodes": False})
    target.create(MANIFEST, made.to_bytes())
    return made


_IN_MEMORY = 1 << 20  # bytes: a larger file is buffered on the local disk


class TreeDraft:
    """A savepoint without its manifest.

    :param target: Its directory; empty.
    """

    def __init__(self, target: WritableTree) -> None:
        self._target = target

    def bring(self, files: Iterable[tuple[str, Tree, str]]) -> dict[str, ManifestFile]:
        """Copy files concurrently; return the manifest entries in the given order."""
        wanted = list(files)
        return dict(zip((name for name, _, _ in wanted), each(self._copied, wanted), strict=True))

    def copied(self, files: Mapping[str, ManifestFile], query: str) -> Tree:  # noqa: ARG002  # interface
        """Return the copied part of a query."""
        return self._target.fresh() / query

    def describe(self, savepoint: Savepoint) -> Savepoint:
        """Write and return the manifest."""
        self._target.create(MANIFEST, savepoint.to_bytes())
        return savepoint

    def _copied(self, wanted: tuple[str, Tree, str]) -> ManifestFile:
        name, directory, inner = wanted
        try:
            with opened(directory, inner) as file, tempfile.SpooledTemporaryFile(_IN_MEMORY) as held:
                described = digest_of(SequentialReader(file), held.write)
                held.seek(0)
                if described.size <= _IN_MEMORY:
                    self._target.create(name, held.read())
                    return described
                held.rollover()
                held.flush()
                self._target.upload(name, Path(f"/proc/self/fd/{held.fileno()}"))
                return described
        except FileGoneError:
            raise purged(f"{directory}/{inner}") from None
