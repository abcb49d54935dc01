"""Savepoint drafts on storage without renames: written in place, file by file, the manifest last.

Invariant: a directory without a manifest is not a savepoint. A copy is digested while it is read, and read again before
a pointer names it; the storage detects a Spark file that is replaced during its copy. A leader that was deposed during
its copy replaces no file that its successor has copied to the same place, except files of more than 1 MiB, which are
too large for a conditional create: RocksDB tables, whose bytes are the same under one name, and snapshots of the
HDFS-backed provider, where this is a limitation.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import MANIFEST, InOrder
from airflow_provider_ha.checkpoints.trees.at_once import each
from airflow_provider_ha.checkpoints.trees.digests import digest_of
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, opened
from airflow_provider_ha.checkpoints.trees.tree import Tree, WritableTree
from airflow_provider_ha.checkpoints.working.pins import purged


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
                described = digest_of(InOrder(file), held.write)
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
