"""Lookup of a savepoint by id, prefix or label, and its reading in place in a work area.

Invariant: each file is compared with the manifest when it is copied out. In a work area only the job's leader removes
files, and a reader's lease prevents that, so these functions take no lock.

Invariant: a word names exactly one savepoint, or the lookup fails. The refusal lists all candidates, including those
whose pointer cannot be read, and never chooses: the word may belong to a removal.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile, Savepoint, SavepointPointer
from airflow_provider_ha.checkpoints.spark.atomic import storage_errors
from airflow_provider_ha.checkpoints.spark.digests import difference, digest_of
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, NotAFileError, opened
from airflow_provider_ha.checkpoints.spark.tree import OpenFile, Tree
from airflow_provider_ha.checkpoints.store.savepoints.manifest import (
    MANIFEST,
    SequentialReader,
    check_files,
    check_manifest,
)
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import SavepointDirectory
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import Bring, StoredSavepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import fetched
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError, ConfigurationError
from airflow_provider_ha.storage.durable import directories_as_above, flush


_SHOWN = 10  # candidates in the message


def named_savepoint(store: SavepointStore, word: str) -> SavepointPointer:
    """Return the pointer of the savepoint that *word* names. An exact id is never ambiguous.

    :raises CheckpointMissingError: No savepoint has this label or an id with this prefix.
    :raises ConfigurationError: Several match; the message lists them.
    :raises RecordCorruptError: The pointer of the matching savepoint cannot be read.
    """
    if not word.strip():
        raise ConfigurationError("the savepoint name is empty", next_step=_list_them(store))
    try:
        return store.pointer(word)
    except (CheckpointMissingError, ConfigurationError):
        candidates = _candidates(store, word)
    if not candidates:
        raise CheckpointMissingError(
            f"job {store.job_id!r} has no savepoint {word!r}: none has this id, an id with this prefix, or this label",
            next_step=_list_them(store),
        )
    if len(candidates) > 1:
        named = ", ".join(candidates[:_SHOWN])
        more = f" and {len(candidates) - _SHOWN} more" if len(candidates) > _SHOWN else ""
        raise ConfigurationError(
            f"{word!r} may name {len(candidates)} savepoints of job {store.job_id!r}: {named}{more}",
            next_step="Give a longer prefix of the id",
        )
    return store.pointer(candidates[0])


def _candidates(store: SavepointStore, word: str) -> list[str]:
    """Return the ids that *word* may mean, newest first, then those with an unreadable pointer."""
    listing = store.list()
    found = [each.savepoint_id for each in listing if each.savepoint_id.startswith(word) or each.label == word]
    labelled = any(each.label == word for each in listing)
    # The label of an unreadable pointer is unknown: it may match.
    return found + [each.name for each in listing.unreadable if each.name.startswith(word) or labelled]


def _list_them(store: SavepointStore) -> str:
    return f"List them with `spark-ha savepoint list {store.job_id}`"


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

    def copies_to(self, uri: str) -> Callable[[str], object] | None:  # noqa: ARG002  # interface
        """Return ``None``: the files may refer to files of another directory."""
        return None

    def _bring(self, name: str, target: Path) -> ManifestFile:
        expected = self.savepoint.files[name]
        with storage_errors(f"cannot write {target}"):
            directories_as_above(target.parent)
            with _there(self.place, name) as file, target.open("xb") as writer:
                found = digest_of(
                    SequentialReader(file), writer.write, algorithm=expected.digested_by or Algorithm.SHA256
                )
                flush(writer)
        if problem := difference(found, expected):
            raise CheckpointCorruptError(name, problem, next_step="Run `spark-ha savepoint verify`")
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
