"""Checkpoint whose files are objects below a prefix: one listing, reads of single objects, concurrent requests.

S3 has no directories. A name counts as a directory if keys begin with it, or if S3A left a marker: an empty object
whose key ends with a slash.

Invariant: names and sizes are from one listing, made on first use. Files purged since are missing when read; a failed
read gives no information about the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

from airflow_provider_ha.checkpoints.spark.files import (
    NAMES,
    FileGoneError,
    NotAFileError,
    RecentBytes,
    UnreadableError,
    check_size,
    crowded,
)
from airflow_provider_ha.checkpoints.spark.tree import OpenFile
from airflow_provider_ha.errors import CheckpointCorruptError, ObjectMissingError, StorageUnavailableError
from airflow_provider_ha.storage.object_store import ObjectInfo, ObjectReader
from airflow_provider_ha.uris import of_log, split


SCHEMES = frozenset({"s3", "s3a", "s3n"})
"""Schemes of the URIs of S3 objects: the common one, and Hadoop's."""

# An object up to this size is one request; a larger one is read in blocks of it, two of which are held.
BLOCK = 4 << 20
# Fewer than the connections that boto3 keeps open.
AT_ONCE = 8
# Of small objects, the ones that were read last: the lineage of a changelog is read first, and then its content.
_RECENT = 32 << 20


@dataclass
class _Names:
    """Names below a prefix.

    :ivar files: Path relative to the prefix -> object.
    :ivar directories: Path of a directory -> the names in it.
    """

    files: dict[str, ObjectInfo] = field(default_factory=dict)
    directories: dict[str, set[str]] = field(default_factory=dict)


class _Listing:
    """Names below a prefix, listed on first use: all of them, or those in one of its directories.

    :param places: The directories; everything when empty.
    """

    def __init__(self, objects: ObjectReader, prefix: str, places: Sequence[str] = ()) -> None:
        self.objects = objects
        self.prefix = prefix
        self.recent = RecentBytes(_RECENT)
        self._listed: dict[str, _Names] = {}
        self._places = places
        self._lock = Lock()

    def names(self, path: str) -> _Names:
        """Return the names around a path; none outside of the directories that may be listed."""
        place = path.partition("/")[0] if self._places else ""
        if self._places and place not in self._places:
            return _Names()
        with self._lock:
            if place not in self._listed:
                self._listed[place] = self._list(f"{self.prefix}{place}/" if place else self.prefix)
            return self._listed[place]

    def forget(self) -> None:
        """Have it listed again when it is needed next, and believe nothing that was read."""
        with self._lock:
            self._listed.clear()
            self.recent = RecentBytes(_RECENT)

    def _list(self, prefix: str) -> _Names:
        found = _Names()
        files, directories = found.files, found.directories
        try:
            for item in self.objects.list(prefix, markers=True):
                path = item.key.removeprefix(self.prefix)
                parent, _, name = path.rpartition("/")
                _enter(directories, parent, name)
                if name:
                    files[path] = item
                    if len(files) > NAMES:
                        raise crowded(self.prefix.rstrip("/") or ".")
        except UnreadableError:
            raise
        except StorageUnavailableError as error:
            raise unreadable(self.prefix.rstrip("/") or ".", error) from error
        return found


def _enter(directories: dict[str, set[str]], place: str, name: str) -> None:
    """Make *name* known in its directory, and the directory in its own; a marker has no name."""
    known = place in directories
    names = directories.setdefault(place, set())
    if name:
        names.add(name)
    if place and not known:
        parent, _, own = place.rpartition("/")
        _enter(directories, parent, own)


def unreadable(path: str, error: StorageUnavailableError) -> UnreadableError:
    """Return the error of a store as the error of a file of a checkpoint."""
    return UnreadableError(path, error.message, next_step=error.next_step)


class ObjectTree:
    """A :class:`~airflow_provider_ha.checkpoints.spark.tree.Tree` of objects. Safe in several threads.

    :param prefix: Of their keys; empty, or it ends with a slash.
    :param places: The directories that are listed, each at its first read; everything when empty.
    """

    def __init__(self, objects: ObjectReader, prefix: str = "", places: Sequence[str] = ()) -> None:
        self._listing = _Listing(objects, prefix, places)
        self._place = ""

    def __str__(self) -> str:
        return f"{self._listing.objects.uri}/{self._listing.prefix}{self._place}".rstrip("/")

    def __truediv__(self, place: str) -> ObjectTree:
        """Return a directory below this one, of the same listing."""
        below = ObjectTree.__new__(ObjectTree)
        below._listing, below._place = self._listing, self._path(place)
        return below

    @property
    def name(self) -> str:
        """The last part of its URI."""
        return str(self).rpartition("/")[2]

    @property
    def at_once(self) -> int:
        """Number of concurrent requests."""
        return AT_ONCE

    @property
    def keeps_times(self) -> bool:
        """Return whether directories have times: here, they do not."""
        return False

    @property
    def may_be_fenced(self) -> bool:
        """Return whether a log may end with the record of a takeover: not where none of our drivers works."""
        return False

    @property
    def has_hidden_checksums(self) -> bool:
        """Return whether Hadoop hides a checksum next to every file: only its local file system does."""
        return False

    @property
    def local_path(self) -> None:
        """Path on this host: ``None``."""

    def absolute(self) -> ObjectTree:
        """Return the same directory: its place is absolute."""
        return self

    def absence(self) -> tuple[str, str]:
        """Return the reason why it is not a directory, and the next step: a wrong name and an empty one look alike."""
        return "is not there: no object has this prefix", "Check bucket and prefix"

    def require(self) -> None:
        """Assert that the storage is there: a listing that could not be made is an error, never an empty one."""

    def expect(self, names: Iterable[str]) -> None:
        """Fetch small files together, as many as are kept until they are read."""
        wanted, room = [], _RECENT // 2
        for name in dict.fromkeys(names):
            item = self._item(self._path(name))
            if item is not None and item.size <= room:
                wanted.append((name, item))
                room -= item.size
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for fetched in [pool.submit(self._whole, name, item) for name, item in wanted]:
                with suppress(CheckpointCorruptError, StorageUnavailableError):
                    fetched.result()

    def fresh(self, *places: str) -> ObjectTree:
        """Return the same directory with its own listing, of *places* alone if there are any."""
        place = f"{self._place}/" if self._place else ""
        return ObjectTree(self._listing.objects, self._listing.prefix + place, places)

    def names(self, place: str = "") -> list[str]:
        """Return all names in it, or in *place* below it, sorted; none when it is not there."""
        path = self._path(place) if place else self._place
        return sorted(self._listing.names(path).directories.get(path, ()))

    def is_directory(self) -> bool:
        """Return whether anything is below it, or a marker represents it."""
        return self._place in self._listing.names(self._place).directories

    def has(self, name: str) -> bool:
        """Return whether *name* is an object below it."""
        return self._item(self._path(name)) is not None

    def file_size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        return self.listed(name).size

    def changed(self, place: str = "") -> None:
        """Return ``None``: directories have no times here, and objects are only replaced."""

    def identity(self, name: str) -> Hashable | None:  # noqa: ARG002  # of every tree
        """Return nothing: an object has one name."""
        return None

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""
        item = self.listed(name)
        check_size(name, item.size)
        return self._whole(name, item)

    @contextmanager
    def opened(self, name: str) -> Iterator[OpenFile]:
        """Open a file for as long as the block runs."""
        item = self.listed(name)
        large = item.size > BLOCK
        yield _InBlocks(name, item, self._listing.objects) if large else _Held(name, self._whole(name, item))

    def below(self, uri: str) -> str | None:
        """Return the path of the object at *uri* relative to this directory; ``None`` when it is elsewhere."""
        own, other = split(str(self)), split(of_log(uri))
        prefix = f"{own.path.rstrip('/')}/"
        alike = other.scheme == own.scheme or {other.scheme, own.scheme} <= SCHEMES
        if not alike or other.authority != own.authority or not other.path.startswith(prefix):
            return None
        return other.path.removeprefix(prefix)

    def _item(self, path: str) -> ObjectInfo | None:
        return self._listing.names(path).files.get(path)

    def _path(self, name: str) -> str:
        return f"{self._place}/{name}" if self._place else name

    def listed(self, name: str) -> ObjectInfo:
        """Return the object that a file is.

        :raises NotAFileError: It is a directory.
        :raises FileGoneError: It is not there.
        :raises UnreadableError: It could not be listed.
        """
        path = self._path(name)
        item = self._item(path)
        if item is not None:
            return item
        if path in self._listing.names(path).directories:
            raise NotAFileError(name, "it is not a regular file")
        raise FileGoneError(name, "it is needed and not there")

    def _whole(self, name: str, item: ObjectInfo) -> bytes:
        recent = self._listing.recent
        found = recent.get(item.key)
        if found is None:
            with _translated(name):
                found = self._listing.objects.read(item.key)
            recent.put(item.key, found)
        return found


@dataclass(frozen=True, slots=True)
class _Held:
    """Small file, read whole by one request."""

    name: str
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read_at(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]


class _InBlocks:
    """A large file. Its last block is kept: a table file is begun at its end. Of the others, one at a time is."""

    def __init__(self, name: str, item: ObjectInfo, objects: ObjectReader) -> None:
        self.name = name
        self.size = item.size
        self._item = item
        self._objects = objects
        self._blocks: dict[int, bytes] = {}

    def read_at(self, offset: int, length: int) -> bytes:
        end = min(offset + length, self.size)
        first, pieces = offset // BLOCK, []
        for block in range(first, (max(end, offset + 1) - 1) // BLOCK + 1):
            data, start = self._block(block), block * BLOCK
            pieces.append(data[max(offset - start, 0) : max(end - start, 0)])
        return b"".join(pieces)

    def _block(self, block: int) -> bytes:
        if block not in self._blocks:
            with _translated(self.name):
                data = self._objects.read_range(self._item, block * BLOCK, BLOCK)
            last = (self.size - 1) // BLOCK
            self._blocks = {number: kept for number, kept in self._blocks.items() if number == last} | {block: data}
        return self._blocks[block]


@contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        yield
    except ObjectMissingError:
        raise FileGoneError(name, "it is needed and not there") from None
    except StorageUnavailableError as error:
        raise unreadable(name, error) from error


Item = TypeVar("Item")
Result = TypeVar("Result")


def each(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return the result of *work* for every item, in order; when it raises, items that are not begun are skipped."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        try:
            return list(threads.map(work, items))
        finally:
            threads.shutdown(cancel_futures=True)
