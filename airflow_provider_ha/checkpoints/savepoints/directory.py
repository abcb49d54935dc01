"""A savepoint as a directory of this host: made, found, read.

Invariant: files, then the manifest, then verification, then the name of the directory: it appears when every byte was
read again, never before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from airflow_provider_ha.checkpoints.connectors.file_sink_log import LOG
from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.savepoints.digest_cache import CACHE, DigestCache
from airflow_provider_ha.checkpoints.savepoints.judge import check
from airflow_provider_ha.checkpoints.savepoints.layout import Bring, SavepointSource, TornError
from airflow_provider_ha.checkpoints.savepoints.manifest_names import check_manifest
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import (
    MANIFEST,
    check_files,
    manifest_bytes,
    parse_manifest,
    write_manifest,
)
from airflow_provider_ha.checkpoints.savepoints.transfer import Transfer
from airflow_provider_ha.checkpoints.trees.attempts import directory_attempt, storage_errors
from airflow_provider_ha.checkpoints.trees.copying import copy_file, shares_inode
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.working.pins import purged
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import CheckpointCorruptError, ConfigurationError, StorageUnavailableError


@dataclass(frozen=True, slots=True)
class SavepointDirectory:
    """A savepoint that lies in a directory.

    :param savepoint: Its manifest.
    """

    directory: Path
    savepoint: Savepoint
    layout = "directory"

    @property
    def location(self) -> str:
        """Its path."""
        return str(self.directory)

    def tree(self, query: str) -> LocalTree:
        """Return the directory of one query."""
        return LocalTree(self.directory / query)

    def wrong_files(self, *, only: Container[str] | None = None) -> list[CheckpointCorruptError]:
        """Compare every file with the manifest; return what is wrong, in its order."""
        return check_files(LocalTree(self.directory), self.savepoint, digests=True, only=only)

    def strangers(self) -> list[CheckpointCorruptError]:
        """Return what lies in it and is not in the manifest."""
        with storage_errors(f"cannot read {self.directory}"):
            found = set(_names(self.directory)) - set(self.savepoint.files) - {MANIFEST}
        return [CheckpointCorruptError(name, "it is not in the manifest") for name in sorted(found)]

    def at_hand(self, target: Path) -> AbstractContextManager[tuple[Path, Savepoint]]:  # noqa: ARG002  # as every one
        """Return the directory itself."""
        return nullcontext((self.directory, self.savepoint))

    @contextmanager
    def reader(self) -> Iterator[Bring]:
        """Yield what copies its files; each is compared with the manifest on its way."""
        check_manifest(self.savepoint)
        yield self._bring

    def _bring(self, name: str, target: Path) -> ManifestFile:
        expected = self.savepoint.files[name]
        try:
            copied = copy_file(self.directory / name, target, expected.digested_by)
        except (FileNotFoundError, NotADirectoryError):
            raise CheckpointCorruptError(name, "it is in the manifest and not there") from None
        if copied != expected:
            raise CheckpointCorruptError(
                name, "it is not what the manifest says", next_step="See `spark-ha savepoint verify`; nothing was made"
            )
        return copied


def read_savepoint(directory: Path) -> SavepointDirectory:
    """Return the savepoint in a directory of any author.

    :raises CheckpointMissingError: It is not a savepoint.
    :raises CheckpointCorruptError: Its manifest is damaged, or names what no savepoint has.
    :raises StorageUnavailableError: It could not be read, or the directory is not there.
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
    """A savepoint that is being made under a hidden name.

    :param hidden: Its directory; empty.
    :param transfer: How a file comes along.
    """

    def __init__(self, hidden: Path, transfer: Transfer) -> None:
        self._hidden = hidden
        self._transfer = transfer

    def bring(self, files: Iterable[tuple[str, LocalTree, str]]) -> dict[str, ManifestFile]:
        """Copy or link files, one after the other."""
        taken: dict[str, ManifestFile] = {}
        for name, directory, inner in files:
            try:
                taken[name] = self._transfer(name, f"{directory}/{inner}", f"{self._hidden}/{name}")
            except FileNotFoundError:  # noqa: PERF203  # the first one ends the attempt
                raise purged(f"{directory}/{inner}") from None
        return taken

    def copied(self, files: Mapping[str, ManifestFile], query: str) -> LocalTree:  # noqa: ARG002  # as every draft
        """Return the copied part of one query."""
        return LocalTree(self._hidden / query)

    def describe(self, savepoint: Savepoint) -> Savepoint:
        """Write the manifest and return it: it says whether files are links of live ones."""
        links = self._transfer.copied is not None
        shared = links and any(shares_inode(self._hidden / name) for name in savepoint.files)
        described = savepoint.model_copy(update={"shares_inodes": shared})
        write_manifest(self._hidden, described)
        return described

    def seal(self, savepoint: Savepoint) -> Savepoint:
        """Write the manifest, and read again what was written."""
        described = self.describe(savepoint)
        try:
            # A link is the file that was digested: only what was written has to be read again.
            check(SavepointDirectory(self._hidden, described), only=self._transfer.copied)
        except CheckpointCorruptError as error:
            raise TornError(error.path, error.reason, next_step="Look with `spark-ha checkpoint verify`") from error
        self._transfer.done()
        return described


@dataclass(frozen=True, slots=True)
class DirectoryLayout:
    """A savepoint that is to be a directory.

    :param target: The directory; must not exist.
    :param link: Whether to make hard links where they are possible; the manifest says so.
    :param digests: Whether links are digested; then a file is read once, for the first savepoint that has it, and those
        that have a checksum of Spark's are not read at all. Copies always are.
    """

    target: Path
    link: bool = False
    digests: bool = True

    def check(self, sources: Sequence[SavepointSource[Path]]) -> None:
        """See that the directory can be made of *sources*.

        :raises ConfigurationError: It cannot.
        :raises StorageUnavailableError: A checkpoint is not there.
        """
        if not (self.link or self.digests):
            raise ConfigurationError(
                "a copy is digested on its way, so leaving that out saves nothing",
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
                    f"{self.target} lies in the checkpoint that is to be saved",
                    next_step="Save it to another directory",
                )

    def named(self, created_at: datetime) -> str:
        """Return an id that no other savepoint has."""
        return f"{created_at:%Y%m%dT%H%M%SZ}-{new_id()[:8]}"

    def tree(self, place: Path) -> LocalTree:
        """Return a directory as it is now, which it always is."""
        return LocalTree(place)

    def sink_log(self, output: Path) -> LocalTree:
        """Return the log of a file sink."""
        return LocalTree(output / LOG)

    def uri(self, place: Path) -> str:
        """Return the absolute path of a place."""
        return str(place.absolute())

    @contextmanager
    def drafts(self) -> Iterator[Callable[[], AbstractContextManager[DirectoryDraft]]]:
        """Yield what begins an attempt, in a hidden directory that becomes the savepoint."""
        yield self._draft

    @contextmanager
    def _draft(self) -> Iterator[DirectoryDraft]:
        with directory_attempt(self.target) as hidden:
            cache = DigestCache(self.target.parent / CACHE, hidden) if self.link and self.digests else None
            yield DirectoryDraft(hidden, Transfer(link=self.link, cache=cache))


def _names(directory: Path) -> Iterator[str]:
    """Yield the path of everything below *directory* that is not a directory."""
    for place, directories, names in os.walk(directory, onerror=_raise):
        links = [name for name in directories if Path(place, name).is_symlink()]
        yield from (str(Path(place, name).relative_to(directory)) for name in [*names, *links])


def _raise(error: OSError) -> None:
    raise error
