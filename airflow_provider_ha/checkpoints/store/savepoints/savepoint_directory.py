"""Savepoints as local directories: creation, lookup and reading.

Invariant: first the files, then the manifest, then verification, then the name of the directory. The directory appears
only after every byte was read again.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.pins import purged
from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.atomic import directory_attempt, storage_errors
from airflow_provider_ha.checkpoints.spark.digests import copy_file, shares_inode
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store.savepoints.file_transfer import CACHE, DigestCache, Transfer
from airflow_provider_ha.checkpoints.store.savepoints.manifest import (
    MANIFEST,
    check_files,
    check_manifest,
    manifest_bytes,
    parse_manifest,
    write_manifest,
)
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import Bring, SavepointSource, TornError
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import check
from airflow_provider_ha.errors import CheckpointCorruptError, ConfigurationError, StorageUnavailableError


@dataclass(frozen=True, slots=True)
class SavepointDirectory:
    """A savepoint in a local directory.

    :param savepoint: Its manifest.
    """

    directory: Path
    savepoint: Savepoint

    @property
    def location(self) -> str:
        """The path."""
        return str(self.directory)

    def tree(self, query: str) -> LocalTree:
        """Return the directory of a query."""
        return LocalTree(self.directory / query)

    def wrong_files(self, *, only: Container[str] | None = None) -> list[CheckpointCorruptError]:
        """Compare every file with the manifest; return the mismatches in manifest order."""
        return check_files(LocalTree(self.directory), self.savepoint, digests=True, only=only)

    def strangers(self) -> list[CheckpointCorruptError]:
        """Return the files that are not in the manifest."""
        with storage_errors(f"cannot read {self.directory}"):
            found = set(_names(self.directory)) - set(self.savepoint.files) - {MANIFEST}
        return [CheckpointCorruptError(name, "it is not in the manifest") for name in sorted(found)]

    def at_hand(self, target: Path) -> AbstractContextManager[tuple[Path, Savepoint]]:  # noqa: ARG002  # interface
        """Return the directory itself."""
        return nullcontext((self.directory, self.savepoint))

    @contextmanager
    def reader(self) -> Iterator[Bring]:
        """Yield a function that copies one file and compares it with the manifest."""
        check_manifest(self.savepoint)
        yield self._bring

    def copies_to(self, uri: str) -> None:
        """Return ``None``: the files are on this host."""

    def _bring(self, name: str, target: Path) -> ManifestFile:
        expected = self.savepoint.files[name]
        try:
            copied = copy_file(self.directory / name, target, expected.digested_by)
        except (FileNotFoundError, NotADirectoryError):
            raise CheckpointCorruptError(name, "it is in the manifest but missing") from None
        if copied != expected:
            raise CheckpointCorruptError(
                name, "it differs from the manifest", next_step="Run `spark-ha savepoint verify`"
            )
        return copied


def read_savepoint(directory: Path) -> SavepointDirectory:
    """Return the savepoint in an untrusted directory.

    :raises CheckpointMissingError: It is not a savepoint.
    :raises CheckpointCorruptError: Its manifest is damaged, or contains names that a savepoint cannot have.
    :raises StorageUnavailableError: The directory does not exist or could not be read.
    """
    with storage_errors(f"cannot read {directory}"):
        if not directory.is_dir():
            raise StorageUnavailableError(
                f"{directory} is not a directory of this host",
                next_step="Check its path, and that its file system is mounted",
            )
    tree = LocalTree(directory)
    return SavepointDirectory(directory, check_manifest(parse_manifest(tree, manifest_bytes(tree))))


class DirectoryDraft:
    """An unfinished savepoint under a hidden name.

    :param hidden: Its directory; empty.
    :param transfer: Copies or links a file.
    """

    def __init__(self, hidden: Path, transfer: Transfer) -> None:
        self._hidden = hidden
        self._transfer = transfer

    def bring(self, files: Iterable[tuple[str, LocalTree, str]]) -> dict[str, ManifestFile]:
        """Copy or link files one by one."""
        taken: dict[str, ManifestFile] = {}
        for name, directory, inner in files:
            try:
                taken[name] = self._transfer(name, f"{directory}/{inner}", f"{self._hidden}/{name}")
            except FileNotFoundError:  # noqa: PERF203  # the first one ends the attempt
                raise purged(f"{directory}/{inner}") from None
        return taken

    def copied(self, files: Mapping[str, ManifestFile], query: str) -> LocalTree:  # noqa: ARG002  # interface
        """Return the copied part of a query."""
        return LocalTree(self._hidden / query)

    def describe(self, savepoint: Savepoint) -> Savepoint:
        """Write and return the manifest; it records whether files are hard links of live files."""
        links = self._transfer.copied is not None
        shared = links and any(shares_inode(self._hidden / name) for name in savepoint.files)
        described = savepoint.model_copy(update={"shares_inodes": shared})
        write_manifest(self._hidden, described)
        return described

    def seal(self, savepoint: Savepoint) -> Savepoint:
        """Write the manifest, then read the written files again."""
        described = self.describe(savepoint)
        try:
            # A link is the file that was digested: only copies need a second read.
            check(SavepointDirectory(self._hidden, described), only=self._transfer.copied)
        except CheckpointCorruptError as error:
            raise TornError(error.path, error.reason, next_step="Run `spark-ha checkpoint verify`") from error
        self._transfer.done()
        return described


@dataclass(frozen=True, slots=True)
class DirectoryLayout:
    """Layout of a savepoint in a local directory.

    :param target: The directory; must not exist.
    :param link: Whether to use hard links where possible; the manifest records it.
    :param digests: Whether links are digested. If so, each file is read once, for the first savepoint that contains it,
        and a file with a Spark checksum is not read. Copies are always digested.
    """

    target: Path
    link: bool = False
    digests: bool = True

    def check(self, sources: Sequence[SavepointSource[Path]]) -> None:
        """Check that the savepoint can be made of *sources*.

        :raises ConfigurationError: It cannot.
        :raises StorageUnavailableError: A checkpoint does not exist.
        """
        if not (self.link or self.digests):
            raise ConfigurationError(
                "a copy is always digested, so skipping digests saves nothing",
                next_step="Link instead of copy, or digest",
            )
        place = self.target.resolve()
        for source in sources:
            if not LocalTree(source.directory).is_directory():
                raise StorageUnavailableError(
                    f"checkpoint {source.directory} of query {source.query!r} is not a directory of this host",
                    next_step="Check its path, and that its file system is mounted",
                )
            if place.is_relative_to(source.directory.resolve()):
                raise ConfigurationError(
                    f"{self.target} is inside the checkpoint to save",
                    next_step="Save it to another directory",
                )

    def tree(self, place: Path) -> LocalTree:
        """Return the current content of a directory."""
        return LocalTree(place)

    def sink_log(self, output: Path) -> LocalTree:
        """Return the log of a file sink."""
        return LocalTree(output / LOG)

    def uri(self, place: Path) -> str:
        """Return the absolute path of a place."""
        return str(place.absolute())

    @contextmanager
    def draft(self) -> Iterator[DirectoryDraft]:
        """Yield an attempt in a hidden directory that becomes the savepoint."""
        with directory_attempt(self.target) as hidden:
            cache = DigestCache(self.target.parent / CACHE, hidden) if self.link and self.digests else None
            yield DirectoryDraft(hidden, Transfer(link=self.link, cache=cache))


def _names(directory: Path) -> Iterator[str]:
    """Yield all non-directory paths below *directory*."""
    for place, directories, names in os.walk(directory, onerror=_raise):
        links = [name for name in directories if Path(place, name).is_symlink()]
        yield from (str(Path(place, name).relative_to(directory)) for name in [*names, *links])


def _raise(error: OSError) -> None:
    raise error
