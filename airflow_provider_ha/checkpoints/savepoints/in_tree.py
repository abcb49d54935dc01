"""Savepoints of a work area, read in place: a local directory, or files on S3 or HDFS.

Invariant: each file is compared with the manifest when it is copied out. In a work area only the job's leader removes
files, and a reader's lease prevents that, so these functions take no lock.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.savepoints.directory import SavepointDirectory
from airflow_provider_ha.checkpoints.savepoints.layout import Bring, StoredSavepoint
from airflow_provider_ha.checkpoints.savepoints.manifest_names import check_manifest
from airflow_provider_ha.checkpoints.savepoints.restore import fetched
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import MANIFEST, InOrder, check_files
from airflow_provider_ha.checkpoints.savepoints.store import SavepointStore
from airflow_provider_ha.checkpoints.trees.attempts import storage_errors
from airflow_provider_ha.checkpoints.trees.digests import difference, digest_of
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, NotAFileError, opened
from airflow_provider_ha.checkpoints.trees.tree import OpenFile, Tree
from airflow_provider_ha.errors import CheckpointCorruptError
from airflow_provider_ha.storage.durable import directories_as_above, flush


@dataclass(frozen=True, slots=True)
class SavepointInTree:
    """A savepoint that is not on a local file system.

    :param place: Its directory.
    :param savepoint: Its manifest.
    :param location: Its URI.
    """

    place: Tree
    savepoint: Savepoint
    location: str
    layout = "directory"

    def tree(self, query: str) -> Tree:
        """Return the directory of a query."""
        return self.place / query

    def wrong_files(self, *, only: Container[str] | None = None) -> list[CheckpointCorruptError]:
        """Compare every file with the manifest; return the mismatches in manifest order."""
        return check_files(self.place, self.savepoint, digests=True, only=only)

    def strangers(self) -> list[CheckpointCorruptError]:
        """Return the files that are not in the manifest."""
        found = set(_names(self.place, "")) - set(self.savepoint.files) - {MANIFEST}
        return [CheckpointCorruptError(name, "it is not in the manifest") for name in sorted(found)]

    def at_hand(self, target: Path) -> AbstractContextManager[tuple[Path, Savepoint]]:
        """Return a temporary local copy; removes leftovers of a killed process too."""
        return fetched(self, target)

    @contextmanager
    def reader(self) -> Iterator[Bring]:
        """Yield a function that copies one file to this host and compares it with the manifest."""
        check_manifest(self.savepoint)
        yield self._bring

    def _bring(self, name: str, target: Path) -> ManifestFile:
        expected = self.savepoint.files[name]
        with storage_errors(f"cannot write {target}"):
            directories_as_above(target.parent)
            with _there(self.place, name) as file, target.open("xb") as writer:
                found = digest_of(InOrder(file), writer.write, algorithm=expected.digested_by)
                flush(writer)
        if problem := difference(found, expected):
            raise CheckpointCorruptError(
                name, problem, next_step="Run `spark-ha savepoint verify`; nothing was written"
            )
        return found


def stored_savepoint(store: SavepointStore, savepoint_id: str) -> StoredSavepoint:
    """Return a savepoint of a job, from any storage.

    :raises CheckpointMissingError: The savepoint does not exist, or its manifest is missing.
    :raises CheckpointCorruptError: The manifest differs from the digest in the pointer.
    """
    savepoint, place = store.load(savepoint_id), store.tree(savepoint_id)
    if place.local_path is not None:
        return SavepointDirectory(place.local_path, savepoint)
    return SavepointInTree(place, savepoint, store.uri(savepoint_id))


@contextmanager
def _there(place: Tree, name: str) -> Iterator[OpenFile]:
    try:
        with opened(place, name) as file:
            yield file
    except (FileGoneError, NotAFileError):
        raise CheckpointCorruptError(name, "it is in the manifest but missing") from None


def _names(place: Tree, below: str) -> Iterator[str]:
    """Yield all file paths below a directory."""
    for name in place.names(below):
        path = f"{below}/{name}" if below else name
        if (place / path).is_directory():
            yield from _names(place, path)
        else:
            yield path
