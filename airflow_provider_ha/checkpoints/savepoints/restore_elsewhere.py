"""Restore of any savepoint to plain checkpoints on S3 or HDFS, which Spark continues without this package.

Invariant: the savepoint stays unchanged, and every file is compared with its manifest during the copy. A store without
directory rename fills up file by file, in the order of :mod:`.order`; the query id is created, never replaced.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from airflow_provider_ha.checkpoints.format.layout import METADATA
from airflow_provider_ha.checkpoints.savepoints.judge import check
from airflow_provider_ha.checkpoints.savepoints.layout import Bring, StoredSavepoint
from airflow_provider_ha.checkpoints.savepoints.order import stages
from airflow_provider_ha.checkpoints.trees.at_once import each
from airflow_provider_ha.checkpoints.working.relocation import checked_by, is_relocated, relocated
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ObjectExistsError
from airflow_provider_ha.storage.file_store import FileStore
from airflow_provider_ha.uris import hadoop_uri


_WHOLE = 4 << 20  # bytes: a larger file is uploaded in parts


def restore_files(stored: StoredSavepoint, target: FileStore, *, spark_version: str | None = None) -> str:
    """Create ``<target>/<query>``, a checkpoint location for Spark, for every query of a savepoint.

    :param target: Files below the prefix; must be empty.
    :param spark_version: The release that will start from it; the one in the manifest by default.
    :returns: The prefix in the form that Spark takes.
    :raises CheckpointCorruptError: The savepoint differs from its manifest, or a query could not continue from it.
    :raises ObjectExistsError: The target is not empty.
    :raises StorageUnavailableError: A read or write failed.
    """
    if target.names(""):
        raise ObjectExistsError(f"{target.uri} is not empty", next_step="Choose another prefix")
    check(stored, spark_version=spark_version)
    root = hadoop_uri(target.uri)
    with stored.reader() as bring, tempfile.TemporaryDirectory(prefix="spark-ha-restore-") as scratch:
        one = _OneFile(stored, target, root, bring, Path(scratch))
        for stage in stages(stored.savepoint):
            each(one.put, stage)
    return root


class _OneFile:
    """Copy of single files of a savepoint to the target."""

    def __init__(self, stored: StoredSavepoint, target: FileStore, root: str, bring: Bring, scratch: Path) -> None:
        self._names = stored.savepoint.files
        self._target = target
        self._root = root
        self._bring = bring
        self._scratch = scratch

    def put(self, name: str) -> None:
        """Write one file; skip Hadoop's hidden checksums, which only a disk uses."""
        query, _, inner = name.partition("/")
        if "/." in f"/{inner}":
            return
        source = f"{query}/{checked_by(inner)}"
        if is_relocated(checked_by(inner)) and source in self._names:
            path = self._fetched(source)
            moved = relocated(path.read_bytes(), source.partition("/")[2], f"{self._root}/{query}")
            path.unlink()
            if moved is not None:
                if name == source:  # Spark's checksum would cover the old bytes
                    self._target.write(name, moved)
                return
        path = self._fetched(name)
        if inner == METADATA:
            self._target.create(name, path.read_bytes(), writer=new_id())
        elif path.stat().st_size <= _WHOLE:
            self._target.write(name, path.read_bytes())
        else:
            self._target.upload(name, path)
        path.unlink()

    def _fetched(self, name: str) -> Path:
        path = self._scratch / new_id()
        self._bring(name, path)
        return path
