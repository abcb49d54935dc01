"""Objects as files below one directory, usually a share that every host mounts.

Invariant: objects appear atomically and survive a power cut. A missing root is never treated as empty, because an
unmounted share must not look like a cluster without checkpoints. The root of a cluster has a marker, and a write never
creates it: a directory without the marker is on the host's own disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError, StorageUnavailableError
from airflow_provider_ha.storage.durable import copy_file, create_file, flush_directory, make_directories, replace_file
from airflow_provider_ha.storage.keys import check_copy, check_key, check_prefix
from airflow_provider_ha.storage.limits import check_held
from airflow_provider_ha.storage.object_store import ObjectInfo
from airflow_provider_ha.storage.outage import unavailable
from airflow_provider_ha.storage.roots import MARKER, Roots, is_marked, probe
from airflow_provider_ha.uris import file_uri


class LocalStore:
    """``ObjectStore`` on a file system. Safe in any thread and process.

    :param root: Absolute directory; never created by a read.
    :param roots: Roots of its cluster; without them, the first write creates *root*.
    """

    def __init__(self, root: Path, *, roots: Roots | None = None) -> None:
        self._root = root
        self._roots = roots
        self._settled = False

    @property
    def uri(self) -> str:
        """URI of the root."""
        return file_uri(self._root)

    def read(self, key: str) -> bytes:
        """Return the bytes of an object.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or the root is gone.
        """
        with self._finding(key, "read"), self._path(key).open("rb") as file:
            check_held(os.fstat(file.fileno()).st_size)
            return file.read()

    def create(self, key: str, data: bytes) -> None:
        """Write an object that must not exist yet.

        :raises ObjectExistsError: It exists.
        :raises StorageUnavailableError: It could not be written.
        """
        with self._translated(key, "created"):
            target = self._target(key)
            try:
                create_file(target, data)
            except FileExistsError as error:
                raise self._exists(key) from error

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

    def copy(self, source: str, target: str, *, if_absent: bool = False) -> ObjectInfo:
        """Copy an object, sharing its blocks where the file system can (a reflink).

        :param if_absent: The target must not exist yet; otherwise it is replaced.
        :raises ObjectMissingError: The source is missing.
        :raises ObjectExistsError: The target exists, and *if_absent* is set.
        :raises StorageUnavailableError: It could not be copied, or its source changed during the copy.
        """
        check_copy(source, target)
        with self._finding(source, "read"):
            original = self._path(source).open("rb")
        with original, self._translated(target, f"copied from {source!r}"):
            path = self._target(target)
            try:
                copy_file(original, path, if_absent=if_absent)
            except FileExistsError as error:
                raise self._exists(target) from error
            return _info(target, path.stat())

    def info(self, key: str) -> ObjectInfo | None:
        """Return the metadata of an object; ``None`` when it is missing.

        :raises StorageUnavailableError: It could not be read.
        """
        try:
            with self._finding(key, "looked up"):
                return _info(key, self._path(key).stat())
        except ObjectMissingError:
            return None

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield every object whose key begins with *prefix*, in the order of their keys, except the marker of a root.

        Objects that appear or vanish during the listing may or may not be among them.

        :raises StorageUnavailableError: A directory could not be read: a part is never passed off as the whole.
        """
        directory, _, _ = check_prefix(prefix).rpartition("/")
        with self._translated(prefix, "listed"):
            self._check_root()
            yield from self._walk(directory, prefix)
            self._check_root()

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is not an error.

        :raises StorageUnavailableError: It could not be removed.
        """
        path = self._path(key)
        try:
            with self._finding(key, "removed"):
                path.unlink()
                flush_directory(path.parent)
        except ObjectMissingError:
            return

    def touch(self, key: str) -> None:
        """Renew the modification time of an object.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: The storage did not answer.
        """
        with self._finding(key, "touched"):
            os.utime(self._path(key))

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
        return self._root / check_key(key)

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

    def _exists(self, key: str) -> ObjectExistsError:
        return ObjectExistsError(f"object {key!r} exists already in {self.uri}")

    def _check_root(self) -> None:
        if self._roots is not None and not is_marked(self._root):
            self._roots.require()
        if not self._root.is_dir():
            raise StorageUnavailableError(
                f"storage root {self._root} does not exist",
                next_step="Check that its file system is mounted on this host; the first submission creates it",
            )

    def _walk(self, directory: str, prefix: str) -> Iterator[ObjectInfo]:
        for name, is_directory in _entries(self._root / directory):
            key = f"{directory}/{name}" if directory else name
            if is_directory:
                if f"{key}/".startswith(prefix) or prefix.startswith(f"{key}/"):
                    yield from self._walk(key, prefix)
            elif key.startswith(prefix) and key != MARKER:
                info = self.info(key)
                if info is not None:
                    yield info

    @contextmanager
    def _finding(self, key: str, verb: str) -> Iterator[None]:
        """Translate errors of a block that needs the object to exist."""
        with self._translated(key, verb):
            try:
                yield
            except (FileNotFoundError, NotADirectoryError) as error:
                self._check_root()
                raise ObjectMissingError(f"object {key!r} is not in {self.uri}") from error

    @contextmanager
    def _translated(self, key: str, verb: str) -> Iterator[None]:
        """Translate all errors of the file system, because callers expect errors of an object store."""
        try:
            yield
        except OSError as error:
            raise unavailable(f"object {key!r} in {self.uri} could not be {verb}", error) from error


def _entries(directory: Path) -> list[tuple[str, bool]]:
    """Return the names in key order, without files in preparation, and whether they are directories."""
    try:
        with os.scandir(directory) as scan:
            found = [(item.name, item.is_dir()) for item in scan if not item.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    # "a-b" sorts before "a/b", so a directory is sorted by its name with the final slash.
    return sorted(found, key=lambda item: f"{item[0]}/" if item[1] else item[0])


def _info(key: str, stat: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, stat.st_size, datetime.fromtimestamp(stat.st_mtime, timezone.utc))
