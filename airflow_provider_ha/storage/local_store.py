"""Objects as files below one directory, usually a share that every host mounts.

Invariant: objects appear atomically and survive a power cut. A missing root is never treated as empty, because an
unmounted share must not look like a cluster without checkpoints. The root of a cluster has a marker, and a write never
creates it: a directory without the marker is on the host's own disk.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError, StorageUnavailableError
from airflow_provider_ha.storage.durable import (
    PREPARED,
    REMAINS,
    create_file,
    flush_directory,
    make_directories,
    replace_file,
)
from airflow_provider_ha.storage.keys import check_object_key, check_prefix
from airflow_provider_ha.storage.limits import check_held
from airflow_provider_ha.storage.object_store import EPOCH, ObjectInfo
from airflow_provider_ha.storage.outage import unavailable
from airflow_provider_ha.storage.roots import Roots, is_marked, probe
from airflow_provider_ha.uris import file_uri


class LocalStore:
    """``ObjectStore`` on a file system. Safe in any thread and process.

    :param root: Absolute directory; never created by a read.
    :param roots: Roots of its cluster; without them, the first write creates *root*.
    :param new: A missing root is an empty one, because it may not have been created yet.
    """

    def __init__(self, root: Path, *, roots: Roots | None = None, new: bool = False) -> None:
        self._root = root
        self._roots = roots
        self._new = new
        self._settled = False

    @property
    def uri(self) -> str:
        """URI of the root."""
        return file_uri(self._root)

    def list(self, prefix: str, *, markers: bool = False) -> Iterator[ObjectInfo]:  # noqa: ARG002  # has real directories
        """Yield every object whose key begins with *prefix*, in the order of their keys.

        :raises StorageUnavailableError: A directory could not be read: a part is never passed off as the whole.
        """
        return self._listed(check_prefix(prefix), prepared=False)

    def prepared(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield the files in preparation, also of dead writers; raises as :meth:`list`."""
        return self._listed(check_prefix(prefix), prepared=True)

    def names(self, prefix: str) -> Sequence[str]:
        """Return the names of objects and directories directly below *prefix*, except empty directories.

        :raises StorageUnavailableError: They could not be listed.
        """
        check_prefix(prefix, directory=True)
        with self._translated(prefix or ".", "listed"):
            self._check_root()
            found = self._entries(prefix, prepared=False)
            return sorted(
                name.removesuffix("/")
                for name in found
                if not name.endswith("/") or any(self._walk(f"{prefix}{name}", "", prepared=False))
            )

    def info(self, key: str) -> ObjectInfo | None:
        """Return the metadata of an object; ``None`` when it is missing or a directory.

        :raises StorageUnavailableError: It could not be read.
        """
        try:
            with self._finding(key, "looked up"):
                status = self._path(key).stat()
        except ObjectMissingError:
            return None
        return _info(key, status) if stat.S_ISREG(status.st_mode) else None

    def read(self, key: str) -> bytes:
        """Return the bytes of an object.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or the root is gone.
        """
        with self._finding(key, "read"), self._path(key).open("rb") as file:
            check_held(os.fstat(file.fileno()).st_size)
            return file.read()

    def read_range(self, item: ObjectInfo, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; fewer at the end of the object.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or was replaced since it was listed.
        """
        with self._finding(item.key, "read"), self._path(item.key).open("rb") as file:
            if _info(item.key, os.fstat(file.fileno())) != item:
                raise StorageUnavailableError(
                    f"object {item.key!r} in {self.uri} was replaced while it was read", next_step="Try again"
                )
            return os.pread(file.fileno(), length, offset)

    def create(self, key: str, data: bytes, *, writer: str = "") -> None:  # noqa: ARG002  # a link shows its own outcome
        """Write an object that must not exist yet.

        :raises ObjectExistsError: It exists.
        :raises StorageUnavailableError: It could not be written.
        """
        with self._translated(key, "created"):
            target = self._target(key)
            try:
                create_file(target, data)
            except FileExistsError as error:
                raise ObjectExistsError(f"object {key!r} exists already in {self.uri}") from error

    def write(self, key: str, data: bytes) -> None:
        """Write an object, replacing an existing one.

        :raises StorageUnavailableError: It could not be written.
        """
        with self._translated(key, "written"):
            replace_file(self._target(key), data)

    def upload(self, key: str, source: Path) -> None:
        """Write an object from a local file, replacing an existing one.

        :raises StorageUnavailableError: It could not be written, or *source* could not be read.
        """
        with self._translated(key, f"uploaded from {source}"):
            replace_file(self._target(key), source)

    def download(self, key: str, target: Path) -> None:
        """Copy an object to a local file.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or *target* could not be written.
        """
        source = self._path(key)
        with self._finding(key, "opened"):
            source.stat()
        with self._translated(key, f"downloaded to {target}"):
            make_directories(target.parent)
            replace_file(target, source)

    def touch(self, key: str) -> None:
        """Renew the modification time of an object.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: The storage did not answer.
        """
        with self._finding(key, "touched"):
            os.utime(self._path(key))

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is not an error. Its directories stay.

        :raises StorageUnavailableError: It could not be removed.
        """
        path = self._path(key)
        try:
            with self._finding(key, "removed"):
                path.unlink()
                flush_directory(path.parent)
        except ObjectMissingError:
            return

    def check_writable(self) -> None:
        """Write, read and remove a probe.

        :raises StorageUnavailableError: With the reason and the next step.
        """
        try:
            probe(self)
        except StorageUnavailableError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            # The name of a probe would not help a person, so the error omits it.
            reason = error.__cause__.strerror or str(error.__cause__)
            raise StorageUnavailableError(
                f"storage root {self.uri} cannot be written: {reason}", next_step=error.next_step
            ) from error.__cause__

    def _path(self, key: str) -> Path:
        return self._root / check_object_key(key)

    def _target(self, key: str) -> Path:
        path = self._path(key)
        if self._roots is None:
            make_directories(path.parent)
            return path
        # On each write, because a mount can disappear from a running process.
        if not self._settled or not is_marked(self._root):
            self._roots.settle()
            self._settled = True
        make_directories(path.parent, below=self._root)
        return path

    def _check_root(self) -> None:
        if self._roots is not None and not is_marked(self._root):
            self._roots.require()
        if not self._new and not self._root.is_dir():
            raise StorageUnavailableError(
                f"storage root {self._root} does not exist",
                next_step="Check that its file system is mounted on this host; the first submission creates it",
            )

    def _listed(self, prefix: str, *, prepared: bool) -> Iterator[ObjectInfo]:
        with self._translated(prefix or ".", "listed"):
            self._check_root()
            yield from self._walk(prefix[: prefix.rfind("/") + 1], prefix, prepared=prepared)
            self._check_root()

    def _walk(self, directory: str, prefix: str, *, prepared: bool) -> Iterator[ObjectInfo]:
        for name in self._entries(directory, prepared=prepared):
            key = f"{directory}{name}"
            if key.endswith("/") and key.startswith(prefix):
                yield from self._walk(key, prefix, prepared=prepared)
            elif key.startswith(prefix) and (found := self.info(key)) is not None:
                yield found

    def _entries(self, directory: str, *, prepared: bool) -> Sequence[str]:
        """Return the directories, with a final slash, and the files of a kind, in the order of their keys."""
        try:
            with os.scandir(self._root / directory) as scan:
                found = [f"{item.name}/" if item.is_dir() else item.name for item in scan if not _is_removed(item.name)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name for name in found if name.endswith("/") or name.startswith(PREPARED) == prepared)

    @contextmanager
    def _finding(self, key: str, verb: str) -> Iterator[None]:
        """Translate errors of a block that needs the object to exist."""
        with self._translated(key, verb):
            try:
                yield
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
                self._check_root()
                raise ObjectMissingError(f"object {key!r} is not in {self.uri}") from error

    @contextmanager
    def _translated(self, key: str, verb: str) -> Iterator[None]:
        """Translate all errors of the file system, because callers expect errors of an object store."""
        try:
            yield
        except OSError as error:
            raise unavailable(f"object {key!r} in {self.uri} could not be {verb}", error) from error


def _is_removed(name: str) -> bool:
    return name.startswith(".") and REMAINS.fullmatch(name) is not None


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, status.st_size, EPOCH + timedelta(microseconds=status.st_mtime_ns // 1000))
