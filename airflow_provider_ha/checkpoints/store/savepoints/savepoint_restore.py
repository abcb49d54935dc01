"""Restore of a savepoint to plain checkpoints, and its copies: local, on S3 or HDFS, or in a work area.

Invariant: the savepoint stays unchanged, byte for byte, and shares no file with its copies: it can be restored any
number of times. Every file is compared with its manifest.

Invariant: the files that Spark reads first come last (:func:`stages`), so Spark does not start from an interrupted
copy. A store without directory rename fills up file by file; the query id is created, never replaced. A directory
without a manifest is not a savepoint, and the manifest of a copied savepoint is written last.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.spark.atomic import directory_attempt, scratch_directory
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, METADATA, OFFSETS
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.object_tree import each
from airflow_provider_ha.checkpoints.spark.operators import checked_by, is_relocated, relocate, relocated
from airflow_provider_ha.checkpoints.spark.tree import WritableTree
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST, write_manifest
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import Bring, StoredSavepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import check
from airflow_provider_ha.checkpoints.verify.restorable import damage, verifier
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ObjectExistsError
from airflow_provider_ha.storage.durable import make_directories
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.uris import hadoop_uri


_LAST = (COMMITS, METADATA, OFFSETS)


def stages(savepoint: Savepoint) -> Iterable[list[str]]:
    """Return the names in creation order: state and sources, commits, the query ids, offsets.

    The newest entry of the offset log precedes its predecessor: Spark refuses it alone, under any number.
    """
    names = [f"{query}/{name}" for query, part in savepoint.queries.items() for name in part.files]
    return [list(stage) for _, stage in groupby(sorted(names, key=_stage), key=_stage)]


def _stage(name: str) -> tuple[int, int]:
    _, _, inner = name.partition("/")
    log, _, entry = checked_by(inner).partition("/")
    if log not in _LAST:
        return 0, 0
    return 1 + _LAST.index(log), -int(entry) if log == OFFSETS and entry.isdigit() else 0


_WHOLE = 4 << 20  # bytes: a larger file is uploaded in parts


def restore_files(stored: StoredSavepoint, target: ObjectStore, *, spark_version: str | None = None) -> str:
    """Create ``<target>/<query>``, a checkpoint location for Spark, for every query of a savepoint.

    :param target: Files below the prefix; must be empty.
    :param spark_version: The release that will start from it; the one in the manifest by default.
    :returns: The prefix in the form that Spark takes.
    :raises CheckpointCorruptError: The savepoint differs from its manifest, or a query could not continue from it.
    :raises ObjectExistsError: The target is not empty.
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

    def __init__(self, stored: StoredSavepoint, target: ObjectStore, root: str, bring: Bring, scratch: Path) -> None:
        self._names = stored.savepoint.files
        self._target = target
        self._root = root
        self._bring = bring
        self._scratch = scratch
        self._copy = stored.copies_to(target.uri)

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
        if self._copy is not None and inner != METADATA:
            self._copy(name)
            return
        path = self._fetched(name)
        if inner == METADATA:
            self._target.create(name, path.read_bytes())
        elif path.stat().st_size <= _WHOLE:
            self._target.write(name, path.read_bytes())
        else:
            self._target.upload(name, path)
        path.unlink()

    def _fetched(self, name: str) -> Path:
        path = self._scratch / new_id()
        self._bring(name, path)
        return path


def restore(stored: StoredSavepoint, target: Path, *, spark_version: str | None = None) -> None:
    """Create ``<target>/<query>``, a checkpoint location for Spark, for every query of a savepoint.

    :param target: Must not exist; appears with all queries or not at all.
    :param spark_version: The release that will start from it; the one in the manifest by default.
    :raises CheckpointCorruptError: The savepoint differs from its manifest, or a query could not continue from it.
    :raises ConfigurationError: The target has no parent directory.
    :raises ObjectExistsError: The target exists.
    """
    place = target.parent.resolve() / target.name
    with _attempt(stored, target, spark_version) as (hidden, bring):
        for query, part in stored.savepoint.queries.items():
            (hidden / query).mkdir()
            for name in part.files:
                bring(f"{query}/{name}", hidden / query / name)
            relocate(hidden / query, place / query)


def copied(stored: StoredSavepoint, target: WritableTree) -> Savepoint:
    """Copy a savepoint to *target*; return the new manifest.

    :raises CheckpointCorruptError: The source differs from its manifest.
    :raises ObjectExistsError: A file of the target exists.
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
    made = _described(stored.savepoint, files)
    target.create(MANIFEST, made.to_bytes())
    return made


@contextmanager
def fetched(stored: StoredSavepoint, target: Path) -> Iterator[tuple[Path, Savepoint]]:
    """Yield a temporary local copy; removes leftovers of a killed process too.

    :param target: The copy is made next to it; raises as :func:`fetch` does.
    """
    with scratch_directory(target) as scratch:
        directory = scratch / "savepoint"
        yield directory, fetch(stored, directory)


def fetch(stored: StoredSavepoint, target: Path) -> Savepoint:
    """Copy any savepoint into a local directory; return its manifest, completed with missing digests.

    :param target: Must not exist; appears complete or not at all.
    :raises CheckpointCorruptError: The savepoint differs from its manifest.
    :raises ObjectExistsError: The target exists.
    """
    with _attempt(stored, target, None) as (hidden, bring):
        files = {name: bring(name, hidden / name) for name in stored.savepoint.files}
        made = _described(stored.savepoint, files)
        write_manifest(hidden, made)
    return made


def _described(savepoint: Savepoint, files: dict[str, ManifestFile]) -> Savepoint:
    digested = all(file.digested_by for file in files.values())
    return savepoint.model_copy(update={"files": files, "digested": digested, "shares_inodes": False})


@contextmanager
def _attempt(stored: StoredSavepoint, target: Path, spark_version: str | None) -> Iterator[tuple[Path, Bring]]:
    """Yield a hidden directory and its copy function; it becomes *target* when every query can be restored from it."""
    with directory_attempt(target) as hidden, stored.reader() as bring:
        yield hidden, bring
        look = verifier("quick", spark_version or stored.savepoint.spark_version)
        bad = damage(LocalTree(hidden), stored.savepoint.cut, look)
        if bad is not None:
            raise bad
