"""A savepoint of a work area, read where it lies: a directory of this host, or files of S3 or HDFS.

Invariant: each file is compared with the manifest on its way out. Below a work area only the job's leader removes, and
a reader's lease keeps it from that, so nothing here is locked.
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
    """A savepoint that is not on a file system of this host.

    :param place: Its directory.
    :param savepoint: Its manifest.
    :param location: Its URI.
    """

    place: Tree
    savepoint: Savepoint
    location: str
    layout = "directory"

    def tree(self, query: str) -> Tree:
        """Return the directory of one query."""
        return self.place / query

    def wrong_files(self, *, only: Container[str] | None = None) -> list[CheckpointCorruptError]:
        """Compare every file with the manifest; return what is wrong, in its order."""
        return check_files(self.place, self.savepoint, digests=True, only=only)

    def strangers(self) -> list[CheckpointCorruptError]:
        """Return what lies in it and is not in the manifest."""
        found = set(_names(self.place, "")) - set(self.savepoint.files) - {MANIFEST}
        return [CheckpointCorruptError(name, "it is not in the manifest") for name in sorted(found)]

    def at_hand(self, target: Path) -> AbstractContextManager[tuple[Path, Savepoint]]:
        """Return a copy that is removed afterwards; what a killed process left of one is removed as well."""
        return fetched(self, target)

    @contextmanager
    def reader(self) -> Iterator[Bring]:
        """Yield what copies its files to this host; each is compared with the manifest on its way."""
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
            raise CheckpointCorruptError(name, problem, next_step="See `spark-ha savepoint verify`; nothing was made")
        return found


def stored_savepoint(store: SavepointStore, savepoint_id: str) -> StoredSavepoint:
    """Return a savepoint of a job, wherever the job works.

    :raises CheckpointMissingError: There is no such savepoint, or its manifest is gone.
    :raises CheckpointCorruptError: The manifest is not the one that the pointer's writer wrote.
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
        raise CheckpointCorruptError(name, "it is in the manifest and not there") from None


def _names(place: Tree, below: str) -> Iterator[str]:
    """Yield the path of every file below a directory."""
    for name in place.names(below):
        path = f"{below}/{name}" if below else name
        if (place / path).is_directory():
            yield from _names(place, path)
        else:
            yield path
