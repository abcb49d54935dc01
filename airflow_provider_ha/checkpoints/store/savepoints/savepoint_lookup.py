"""Savepoints of a job: lookup by id, prefix or label, reading in place in a work area, and adoption of an archive.

Invariant: each file is compared with the manifest when it is copied out. In a work area only the job's leader removes
files, and a reader's lease prevents that, so these functions take no lock.

Invariant: a word names exactly one savepoint, or the lookup fails. The refusal lists all candidates, including those
whose pointer cannot be read, and never chooses: the word may belong to a removal.

Invariant: an adopted savepoint becomes known by its pointer, like every other, after every byte was read again. Only
the job named in the manifest can adopt it: the rest of a restore, such as the job graph, belongs to that job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile, Savepoint, SavepointPointer
from airflow_provider_ha.checkpoints.spark.atomic import scratch_directory, storage_errors
from airflow_provider_ha.checkpoints.spark.checksums import difference, digest_of
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, NotAFileError, opened
from airflow_provider_ha.checkpoints.spark.tree import OpenFile, Tree
from airflow_provider_ha.checkpoints.store.pointer_scan import Commit
from airflow_provider_ha.checkpoints.store.savepoints.archive import unpack
from airflow_provider_ha.checkpoints.store.savepoints.manifest import (
    MANIFEST,
    SequentialReader,
    check_manifest,
)
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import SavepointDirectory
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import Bring, StoredSavepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import SavepointTree
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import fetched
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError, ConfigurationError, JobStateError
from airflow_provider_ha.names import check_savepoint_id
from airflow_provider_ha.storage.durable import directories_as_above, flush, make_directories, remove_tree


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
class SavepointInTree(SavepointTree):
    """A savepoint that is not on a local file system."""

    location: str

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


def check_adoptable(savepoints: SavepointStore, job_id: str, savepoint: Savepoint) -> None:
    """Refuse a savepoint that the job cannot adopt; change nothing.

    :raises ConfigurationError: Its id is not a valid name.
    :raises JobStateError: It belongs to another job, or the job already has a savepoint with that id.
    """
    check_savepoint_id(savepoint.savepoint_id)
    if savepoint.job_id != job_id:
        raise JobStateError(
            f"the archive holds a savepoint of job {savepoint.job_id!r}, not of {job_id!r}",
            next_step="Import it with --to, and restore it from there",
        )
    try:
        savepoints.pointer(savepoint.savepoint_id)
    except CheckpointMissingError:
        return
    raise JobStateError(
        f"job {job_id!r} already has a savepoint {savepoint.savepoint_id!r}",
        next_step="Check it with `spark-ha savepoint verify`",
    )


def adopt(
    savepoints: SavepointStore,
    job_id: str,
    commit: Commit,
    archive: Path,
    expected: Savepoint,
    *,
    scratch: Path | None = None,
) -> Savepoint:
    """Unpack an archive and make it a savepoint of the job.

    :param commit: ``leadership.commit`` of the job's leader.
    :param expected: The manifest that ``archive.described`` returned.
    :param scratch: Directory for temporary files when the job's savepoints are on S3 or HDFS; by default the directory
        of
        the archive.
    :raises CheckpointCorruptError: The archive is refused; no part is kept.
    :raises JobStateError: As :func:`check_adoptable`, or the files of an earlier savepoint with that id are still being
        read.
    """
    check_adoptable(savepoints, job_id, expected)
    directory = savepoints.tree(expected.savepoint_id).local_path
    if directory is None:
        with scratch_directory((scratch or archive.parent) / archive.name) as beside:
            unpacked = beside / "savepoint"
            return savepoints.receive(
                commit, SavepointDirectory(unpacked, unpack(archive, unpacked, expected=expected))
            )
    savepoints.finish_removal(commit, expected.savepoint_id)
    make_directories(directory.parent)
    if directory.exists():
        remove_tree(directory)  # left by a process that died before it wrote the pointer: without one it has no owner
    savepoint = unpack(archive, directory, expected=expected)
    try:
        savepoints.publish(commit, savepoint)
    except CheckpointCorruptError:
        remove_tree(directory)
        raise
    return savepoint
