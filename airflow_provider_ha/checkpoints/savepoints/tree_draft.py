"""A savepoint that is made where nothing can be renamed: in its place, file by file, the manifest last.

Invariant: what has no manifest is no savepoint. A copy is digested on its way, and read again before a pointer names
it; a file of Spark's that is replaced during its copy is found out by the storage. A leader that was deposed while it
copied replaces nothing that its successor has copied to the same place. Only files too large for that, of more than
1 MiB, are replaced: tables of RocksDB, which have the same bytes under one name, and snapshots of the HDFS-backed
provider, where this is a limit.
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


_IN_MEMORY = 1 << 20  # bytes of one file: what is larger goes over the disk of this host


class TreeDraft:
    """A savepoint without its manifest.

    :param target: Its directory; nothing is in it.
    """

    def __init__(self, target: WritableTree) -> None:
        self._target = target

    def bring(self, files: Iterable[tuple[str, Tree, str]]) -> dict[str, ManifestFile]:
        """Copy files, several at a time; the manifest names them in their order."""
        wanted = list(files)
        return dict(zip((name for name, _, _ in wanted), each(self._copied, wanted), strict=True))

    def copied(self, files: Mapping[str, ManifestFile], query: str) -> Tree:  # noqa: ARG002  # as every draft
        """Return the copied part of one query."""
        return self._target.fresh() / query

    def describe(self, savepoint: Savepoint) -> Savepoint:
        """Write the manifest, and return it."""
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
