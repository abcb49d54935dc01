"""Read view of a working directory: own files first, then the names in the base of each query.

Invariant: a file that may have been replaced under its name is compared with its base entry before any byte counts.
Writes go to the own directory only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

from airflow_provider_ha.checkpoints.areas.layered.base_file import FILE, Base, BaseEntry, parse_base
from airflow_provider_ha.checkpoints.spark.files import check_name
from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree
from airflow_provider_ha.errors import CheckpointCorruptError, ObjectMissingError
from airflow_provider_ha.storage.object_store import ObjectInfo, ObjectStore


MARKER = "_ha_directory"
"""Marks an empty directory."""
REMOVED = "_ha_removed"
"""Marks a directory as removed for its readers; its files go when no base names them."""
NEEDS = "_ha_needs"
"""The collector's finding about the needs of a query directory (``needs_record``)."""
OURS = frozenset({FILE, MARKER, REMOVED, NEEDS})


class Bases:
    """Reader of bases, each read once: they never change. Thread-safe.

    A base is written before any other file of its directory, so a directory with files but without a base never gets
    one.
    """

    def __init__(self, files: ObjectStore) -> None:
        self._files = files
        self._known: dict[str, Base | None] = {}
        self._lock = Lock()

    def of(self, directory: str, *, begun: bool = False) -> Base | None:
        """Return the base of a query directory; ``None`` when it has none.

        :param begun: Whether another of its files was seen before this call; otherwise it may still get a base.
        :raises CheckpointCorruptError: It is refused.
        """
        with self._lock:
            if directory in self._known:
                return self._known[directory]
        try:
            known = parse_base(self._files.read(f"{directory}/{FILE}"))
        except ObjectMissingError:
            if not begun:
                return None
            known = None
        self.remember(directory, known)
        return known

    def remember(self, directory: str, base: Base | None) -> None:
        """Keep what was read, or written by this process."""
        with self._lock:
            self._known[directory] = base


class LayeredReader:
    """An :class:`~airflow_provider_ha.storage.object_store.ObjectReader` of the own and inherited files of a directory.

    :param query_of: Returns the query directory that contains, or is, a key; ``None`` for a key above them.
    """

    def __init__(self, files: ObjectStore, bases: Bases, query_of: Callable[[str], str | None]) -> None:
        self.files = files
        self.bases = bases
        self.query_of = query_of
        self._own: dict[str, ObjectInfo] = {}
        self._inherited: dict[str, BaseEntry] = {}
        self._ours: set[str] = set()

    @property
    def uri(self) -> str:
        """URI of the storage root."""
        return self.files.uri

    def list(self, prefix: str, *, markers: bool = True) -> Iterator[ObjectInfo]:  # noqa: ARG002  # a tree has them
        """Yield every file below *prefix*, own files first, and a marker for a directory with internal files.

        What earlier listings have found below it is forgotten.

        :raises CheckpointCorruptError: A base is refused.
        """
        owners = set()
        self._own = {key: file for key, file in self._own.items() if not key.startswith(prefix)}
        self._inherited = {key: entry for key, entry in self._inherited.items() if not key.startswith(prefix)}
        self._ours = {key for key in self._ours if not key.startswith(prefix)}
        others = len(self._own)
        for file in self.files.list(prefix):
            place, _, name = file.key.rpartition("/")
            if name == FILE and self.query_of(place) == place:
                owners.add(place)
            if name in OURS:
                self._ours.add(file.key)
                yield ObjectInfo(f"{place}/", 0)
                continue
            self._own[file.key] = file
            yield file
        above = self.query_of(prefix.removesuffix("/"))
        for owner in sorted(owners | ({above} if above is not None else set())):
            yield from self._from_base(owner, prefix, begun=owner == above and len(self._own) > others)

    def _from_base(self, owner: str, prefix: str, *, begun: bool) -> Iterator[ObjectInfo]:
        base = self.bases.of(owner, begun=begun)
        for entry in base.entries if base is not None else ():
            key = f"{owner}/{entry.name}"
            if key.startswith(prefix) and key not in self._own:  # guard: bases-hide-own-files
                self._inherited[key] = entry
                yield ObjectInfo(key, entry.length, etag=entry.etag)

    def read(self, key: str) -> bytes:
        """Return the bytes of a file.

        :raises CheckpointCorruptError: It differs from its base entry.
        """
        entry = self._inherited.get(key)
        if entry is None:
            return self.files.read(key)
        if entry.replaceable:
            self._check(entry)
        return self.files.read(entry.place)

    def read_range(self, item: ObjectInfo, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset* of a file as it was when it was listed; fewer at its end.

        :raises CheckpointCorruptError: It differs from its base entry.
        """
        entry = self._inherited.get(item.key)
        file = self._check(entry) if entry is not None else self._own[item.key]
        return self.files.read_range(file, offset, length)

    def lists(self, key: str) -> bool:
        """Whether an internal file, hidden from listings, existed at the last listing."""
        return key in self._ours

    def entry(self, key: str) -> BaseEntry | None:
        """Return the base entry of a listed file; ``None`` for an own file."""
        return self._inherited.get(key)

    def identity(self, key: str) -> Hashable:
        """Return place, size, time and etag of a listed file: a replaced file has another identity."""
        entry = self._inherited.get(key)
        if entry is not None:
            return self.uri, entry.place, entry.length, entry.mtime, entry.etag
        own = self._own[key]
        return self.uri, own.key, own.size, own.mtime, own.etag

    def entries(self, prefix: str) -> dict[str, BaseEntry]:
        """Return path relative to *prefix* -> base entry for all files of the last listing."""
        own = (BaseEntry(key, key, file.size, file.mtime, file.etag) for key, file in self._own.items())
        known = {**self._inherited, **{entry.name: entry for entry in own}}
        return {key.removeprefix(prefix): replace(entry, name=key.removeprefix(prefix)) for key, entry in known.items()}

    def _check(self, entry: BaseEntry) -> ObjectInfo:
        """Return the current file of an entry if it still matches the entry."""
        found = self.files.info(entry.place)
        if found is None:
            raise ObjectMissingError(f"file {entry.place!r} is not in {self.uri}")
        changed = found.etag != entry.etag if entry.etag else bool(entry.mtime) and found.mtime != entry.mtime
        # guard: replaced-files-are-inherited
        if entry.replaceable and (found.size != entry.length or changed):
            raise CheckpointCorruptError(
                entry.name,
                f"{entry.place} differs from its base entry: it has {found.size} bytes instead of "
                f"{entry.length}, or was written again",
                next_step="Restore the job from its latest checkpoint",
            )
        return found


class LayeredTree(ObjectTree):
    """A :class:`~airflow_provider_ha.checkpoints.spark.tree.WritableTree` of own and inherited files.

    Names come from one listing, made on first use and updated by writes through this tree.

    :param reader: Reads the files; used by no other tree.
    :param prefix: Of their keys; ends with a slash.
    :param places: The directories that are listed, each at its first read; everything when empty.
    """

    def __init__(self, reader: LayeredReader, prefix: str, places: Sequence[str] = ()) -> None:
        super().__init__(reader, prefix, places)
        self._reader = reader
        self._prefix = prefix

    def __truediv__(self, place: str) -> LayeredTree:
        """Return a directory below this one, from the same listing."""
        below = type(self).__new__(type(self))
        below._listing, below._place = self._listing, self._path(place)
        below._reader, below._prefix = self._reader, self._prefix
        return below

    @property
    def may_be_fenced(self) -> bool:
        """Whether a log may end with the record of a takeover, the fence of storage without renames."""
        return True

    @property
    def has_needs(self) -> bool:
        """Whether the collector has recorded the needs of this query directory (``needs_record``)."""
        self.names()  # lists it unless done before
        return self._reader.lists(f"{self._prefix}{self._path(NEEDS)}")

    def fresh(self, *places: str) -> LayeredTree:
        """Return the same directory with a new listing, of *places* alone if there are any."""
        place = f"{self._place}/" if self._place else ""
        again = LayeredReader(self._reader.files, self._reader.bases, self._reader.query_of)
        return LayeredTree(again, self._prefix + place, places)

    def identity(self, name: str) -> Hashable | None:
        """Return a value that is equal for one stored file in every directory that owns or inherits it."""
        return self._reader.identity(self.listed(name).key)

    def write(self, name: str, data: bytes) -> None:
        """Write an own file durably and replace an existing one; it hides an inherited file of this name."""
        self._reader.files.write(self._key(name), data)
        self._listing.forget()

    def create(self, name: str, data: bytes) -> None:
        """Write an own file that must not exist yet."""
        self._reader.files.create(self._key(name), data)
        self._listing.forget()

    def upload(self, name: str, source: Path) -> None:
        """Write an own file from a local one."""
        self._reader.files.upload(self._key(name), source)
        self._listing.forget()

    def remove(self, name: str) -> None:
        """Remove an own file; no effect when it is missing."""
        self._reader.files.delete(self._key(name))
        self._listing.forget()

    def _key(self, name: str) -> str:
        return f"{self._prefix}{self._path(check_name(name))}"

    def entries(self) -> dict[str, BaseEntry]:
        """Return name -> base entry for all files below it, own or inherited.

        :raises CheckpointCorruptError: A base is refused.
        :raises UnreadableError: It could not be listed.
        """
        self.names()  # lists it unless done before
        return self._reader.entries(f"{self._prefix}{self._place}/" if self._place else self._prefix)

    def place_of(self, name: str) -> BaseEntry | None:
        """Return the base entry of a file; ``None`` for an own file. Requires an earlier listing."""
        return self._reader.entry(f"{self._prefix}{self._path(name)}")


class FencedTree(LayeredTree):
    """Tree of a fenced directory: its logs have ended, so its first listing stays valid."""

    def fresh(self, *places: str) -> LayeredTree:  # noqa: ARG002  # it is listed whole, once
        """Return the same directory, with the same listing."""
        return self
