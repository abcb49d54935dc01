"""Savepoints as local directories: creation by copies or hard links, lookup and reading.

Invariant: first the files, then the manifest, then verification, then the name of the directory. The directory appears
only after every byte was read again.

Invariant: a copy is digested while it is read, and must be read again to prove that the disk holds it. A link is the
live file itself: it is read at most once in its life. Its digest is the CRC32C that Spark wrote with the file, or the
cached digest from an earlier savepoint of this very file, or else it is computed now.

Invariant: a digest counts only for the same file: same name, inode, size and modification time. A change within the
granularity of that time leaves no trace, so files that young are not cached. The reference time comes from the file
system: it is the modification time of a directory created there before the first read. The cache is an optimization:
one that is damaged or cannot be written is dropped with a log line.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from airflow_provider_ha.checkpoints.areas.pins import SINKS, purged
from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.atomic import StrPath, directory_attempt, linked, storage_errors, write_aside
from airflow_provider_ha.checkpoints.spark.checksums import (
    copy_file,
    crc32c_digits,
    digest_of,
    recorded,
    recorded_crc32c,
    shares_inode,
)
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, read
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.rocksdb import has_unique_name
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
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    ConfigurationError,
    RecordCorruptError,
    StorageUnavailableError,
)
from airflow_provider_ha.records import Model, Record


log = logging.getLogger(__name__)

CACHE = ".spark-ha-digests.json"  # in the directory of the savepoints that it serves
# The coarsest clock of a file system that Linux mounts (FAT), in nanoseconds.
GRANULARITY_NS = 2_000_000_000


class CachedDigest(Model):
    """State of a file when it was read."""

    inode: int
    device: int
    size: int
    modified_ns: int
    sha256: str


class CachedDigests(Record):
    """Content of the cache file.

    :param files: Path relative to the savepoint -> its file.
    """

    kind: ClassVar[str] = "known-digests"

    files: dict[str, CachedDigest] = {}


class DigestCache:
    """The known digests, for one savepoint.

    :param new: An empty directory, just created where the savepoint will be.
    :raises OSError: *new* could not be inspected.
    """

    def __init__(self, path: Path, new: Path) -> None:
        made = new.lstat()
        self._path = path
        self._device = made.st_dev
        self._young = made.st_mtime_ns - GRANULARITY_NS
        self._before = _read(path)
        self._now: dict[str, CachedDigest] = {}

    def known(self, name: str, status: os.stat_result) -> str | None:
        """Return the sha256 of a file; ``None`` when this file was not read before.

        :param name: Path relative to the savepoint.
        """
        found = self._before.get(name)
        if found is None or found != _identity(status, found.sha256):
            return None
        self._now[name] = found
        return found.sha256

    def learn(self, name: str, status: os.stat_result, sha256: str) -> None:
        """Remember a file that was read from start to end.

        :param status: Its status before the first byte was read.
        """
        # The clock of another device proves nothing.
        if status.st_dev == self._device and status.st_mtime_ns < self._young:
            self._now[name] = _identity(status, sha256)

    def save(self) -> None:
        """Write the known digests. A query of this savepoint keeps only its current files, to bound the cache."""
        queries = {_query(name) for name in self._now}
        others = {name: file for name, file in self._before.items() if _query(name) not in queries}
        if self._now == self._before:
            return
        try:
            write_aside(self._path, CachedDigests(files=others | self._now).to_bytes())
        except (OSError, StorageUnavailableError) as error:
            log.warning("the next savepoint will read every byte again: cannot write %s: %s", self._path, error)


def _query(name: str) -> str:
    first, _, rest = name.partition("/")
    return rest.partition("/")[0] if first == SINKS else first


def _identity(status: os.stat_result, sha256: str) -> CachedDigest:
    return CachedDigest(
        inode=status.st_ino,
        device=status.st_dev,
        size=status.st_size,
        modified_ns=status.st_mtime_ns,
        sha256=sha256,
    )


def _read(path: Path) -> dict[str, CachedDigest]:
    try:
        return CachedDigests.from_bytes(read(LocalTree(path.parent), path.name), source=str(path)).files
    except FileGoneError:
        return {}
    except (CheckpointCorruptError, StorageUnavailableError, RecordCorruptError, RecursionError) as error:
        log.warning("reading every byte again, without the digests of earlier savepoints: %s", error)
        return {}


class Transfer:
    """Copies or links files into a savepoint.

    :param link: Whether to use hard links where possible; otherwise files are copied.
    :param cache: Digests of earlier savepoints, for links; ``None`` for links without digests.
    """

    def __init__(self, *, link: bool = False, cache: DigestCache | None = None) -> None:
        self._cache = cache
        #: The copied files: their content on disk is unproven until they are read again. ``None``: all.
        self.copied: set[str] | None = set() if link else None

    def __call__(self, name: str, source: StrPath, target: StrPath) -> ManifestFile:
        """Create *target* from *source* and return its manifest entry.

        :param name: Path relative to the savepoint.
        :raises FileNotFoundError: The source does not exist, or no longer.
        """
        if self.copied is None:
            return copy_file(Path(source), Path(target))
        if not linked(source, target):
            self.copied.add(name)
            return copy_file(Path(source), Path(target))
        if self._cache is None:
            return ManifestFile(size=os.lstat(target).st_size)
        return self._digested(self._cache, name, Path(source), Path(target))

    def done(self) -> None:
        """Save the digests for the next savepoint, after this one is complete."""
        if self._cache is not None:
            self._cache.save()

    def _digested(self, cache: DigestCache, name: str, source: Path, target: Path) -> ManifestFile:
        with target.open("rb", buffering=0) as reader:
            status = os.fstat(reader.fileno())
            by_spark = _sum_of_spark(source, status.st_size)
            if by_spark is not None:
                return by_spark
            known = cache.known(name, status)
            if known is not None:
                return recorded(status.st_size, Algorithm.SHA256, known)
            found = digest_of(reader)
        cache.learn(name, status, found.sha256)
        return found


def _sum_of_spark(source: Path, size: int) -> ManifestFile | None:
    """Return a file's digest from Spark's checksum file; ``None`` without a reliable one.

    Under a name that another attempt may rewrite, the checksum may be that of the other attempt's file.
    """
    if not has_unique_name(source.name):
        return None
    try:
        value = recorded_crc32c(read(LocalTree(source.parent), f"{source.name}.crc"), size)
    except (CheckpointCorruptError, StorageUnavailableError):
        return None
    return None if value is None else recorded(size, Algorithm.CRC32C, crc32c_digits(value))


@dataclass(frozen=True, slots=True)
class SavepointDirectory:
    """A savepoint in a local directory."""

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
    """An unfinished savepoint in an empty directory with a hidden name."""

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
