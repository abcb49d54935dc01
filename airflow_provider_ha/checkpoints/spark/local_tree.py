"""A directory of this host as a :class:`~airflow_provider_ha.checkpoints.spark.tree.Tree`.

Paths are put together as text here: pathlib takes longer for one than the system for the question.

Invariant: no symbolic link below the directory is followed, and opening one never blocks.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.spark.atomic import write_aside
from airflow_provider_ha.checkpoints.spark.checksums import copy_file
from airflow_provider_ha.checkpoints.spark.files import (
    FileGoneError,
    NotAFileError,
    UnreadableError,
    check_name,
    check_size,
    crowded,
    first_names,
)
from airflow_provider_ha.checkpoints.spark.tree import OpenFile, Tree
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ConfigurationError, ObjectExistsError, StorageUnavailableError
from airflow_provider_ha.storage.durable import flush_directory
from airflow_provider_ha.storage.outage import outages


# What is read in large pieces is read to its end: the disk works on what follows while a piece is decoded.
_LARGE, _AHEAD = 128 << 10, 4 << 20
_PIECE = 16 << 10
# Opening a pipe must not block; O_NONBLOCK has no effect on a regular file.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class LocalFile:
    """An :class:`OpenFile` of this host."""

    name: str
    size: int
    _descriptor: int

    def read_at(self, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; fewer at the end."""
        try:
            if length >= _LARGE:
                os.posix_fadvise(self._descriptor, offset, length + _AHEAD, os.POSIX_FADV_WILLNEED)
            return os.pread(self._descriptor, length, offset)
        except OSError as error:
            raise UnreadableError(self.name, error) from error


class LocalTree:
    """A :class:`~airflow_provider_ha.checkpoints.spark.tree.WritableTree` of this host. Safe in several threads.

    It holds no listing: every answer is of the moment.
    """

    __slots__ = ("_text",)

    # Files of this host are small, and decoding them holds Python's lock: two threads gained nothing.
    at_once = 1
    keeps_times = True
    has_hidden_checksums = True
    may_be_fenced = False

    def __init__(self, path: Path) -> None:
        self._text = os.fspath(path)

    def __repr__(self) -> str:
        return f"LocalTree({self._text!r})"

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalTree) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __truediv__(self, place: str) -> LocalTree:
        """Return a directory below this one."""
        below = LocalTree.__new__(LocalTree)
        below._text = f"{self._text}/{place}"
        return below

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.local_path.name

    @property
    def local_path(self) -> Path:
        """Path of the tree on this host, for operations on local files."""
        return Path(self._text)

    def absolute(self) -> LocalTree:
        """Return the same directory by a place that does not depend on the working directory of the process."""
        return LocalTree(self.local_path.absolute())

    def fresh(self, *places: str) -> LocalTree:  # noqa: ARG002  # listings are cheap here
        """Return the same directory as it is now: it always is."""
        return self

    def require(self) -> None:
        """Assert that the directory is there that would hold it."""
        if not self.local_path.parent.is_dir():  # guard: missing-mount-counts-as-damage
            raise StorageUnavailableError(
                f"{self.local_path.parent} is not there", next_step="Mount the file system that holds the checkpoints"
            )

    def expect(self, names: Iterable[str]) -> None:
        """Announce the files that are read next; of no effect here."""

    def absence(self) -> tuple[str, str]:
        """Return the reason why it is not a directory, as the end of a sentence, and the next step."""
        if os.path.lexists(self._text):
            return "is a file; a checkpoint is a directory", "Name the directory that holds offsets and commits"
        return "is not a directory of this host", "Correct the path, or mount its file system"

    def names(self, place: str = "") -> list[str]:
        """Return all names in it or in *place* below it, sorted; none when it is not there or not a directory."""
        try:
            with os.scandir(f"{self._text}/{place}") as found:
                listed = first_names(entry.name for entry in found)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise UnreadableError(place or self.local_path.name, error) from error
        if listed is None:
            raise crowded(place or self.local_path.name)
        return sorted(listed)

    def is_directory(self) -> bool:
        """Return whether it is there, and a directory."""
        try:
            return stat.S_ISDIR(self.local_path.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False
        except OSError as error:
            if error.errno == errno.ELOOP:
                return False
            raise UnreadableError(self.local_path.name, error) from error

    def has(self, name: str) -> bool:
        """Return whether *name* is a regular file below it, not reached through a symbolic link below it."""
        try:
            return stat.S_ISREG(os.lstat(f"{self._text}/{name}").st_mode)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False
        except OSError as error:
            if error.errno == errno.ELOOP:
                return False
            raise UnreadableError(name, error) from error

    def file_size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        try:
            status = os.lstat(f"{self._text}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            raise FileGoneError(name, "it is needed and not there") from None
        except OSError as error:
            raise UnreadableError(name, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise NotAFileError(name, "it is not a regular file")
        return status.st_size

    def changed(self, place: str = "") -> int | None:
        """Return when a directory or file was last changed, in nanoseconds; ``None`` when it cannot be asked."""
        try:
            status = os.lstat(f"{self._text}/{place}") if place else self.local_path.stat()
        except OSError:
            return None
        return status.st_mtime_ns

    def identity(self, name: str) -> Hashable | None:
        """Return an identity that is equal for two names of a file, in any tree."""
        try:
            status = (self.local_path / name).stat()
        except FileNotFoundError:
            raise FileGoneError(name, "it is needed and not there") from None
        except OSError as error:
            raise UnreadableError(name, error) from error
        return status.st_dev, status.st_ino

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""
        descriptor, found = self._open(name)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            check_size(name, found)
            return _whole(file, name, found)

    @contextmanager
    def opened(self, name: str) -> Iterator[OpenFile]:
        """Open a file for as long as the block runs."""
        descriptor, found = self._open(name)
        try:
            yield LocalFile(name, found, descriptor)
        finally:
            os.close(descriptor)

    def write(self, name: str, data: bytes) -> None:
        """Write a file durably under a name that Spark ignores, then give it its name."""
        write_aside(Path(f"{self._text}/{check_name(name)}"), data)

    def create(self, name: str, data: bytes) -> None:
        """Write a file that must not exist yet, in one step."""
        target = Path(f"{self._text}/{check_name(name)}")
        aside = target.with_name(f".{target.name}.{new_id()}.tmp")
        with outages("written", target):
            write_aside(aside, data)
            try:
                os.link(aside, target)
            except FileExistsError:
                raise ObjectExistsError(f"file {target} exists already") from None
            finally:
                aside.unlink()
            flush_directory(target.parent)

    def upload(self, name: str, source: Path) -> None:
        """Write a file from another one durably; it appears complete or not at all."""
        target = Path(f"{self._text}/{check_name(name)}")
        aside = target.with_name(f".{target.name}.{new_id()}.tmp")
        with outages("written", target):
            copy_file(source, aside, algorithm=None)
            aside.replace(target)
            flush_directory(target.parent)

    def remove(self, name: str) -> None:
        """Remove a file; of no effect when it is not there."""
        target = Path(f"{self._text}/{check_name(name)}")
        with outages("removed", target):
            target.unlink(missing_ok=True)

    def below(self, uri: str) -> str | None:  # noqa: ARG002  # the interface asks with it
        """Return ``None``: a log opens a local file by its URI, anywhere on this host."""
        return None

    def _open(self, name: str) -> tuple[int, int]:
        """Return (descriptor, bytes) of a regular file."""
        try:
            descriptor = os.open(f"{self._text}/{name}", _READ)
        except FileNotFoundError:
            raise FileGoneError(name, "it is needed and not there") from None
        except OSError as error:
            self.file_size(name)  # what is no file may refuse to be opened for that
            raise UnreadableError(name, error) from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise NotAFileError(name, "it is not a regular file")
        return descriptor, status.st_size


def path_on_this_host(tree: Tree) -> Path:
    """Return the path of a tree, for operations on local files.

    :raises ConfigurationError: It has no local path.
    """
    if tree.local_path is None:
        raise ConfigurationError(
            f"{tree} is not on a file system of this host",
            next_step="Mount it, or copy it to a directory of this host first",
        )
    return tree.local_path


def _whole(file: io.FileIO, name: str, expected: int) -> bytes:
    """Read to the end: a file that grows in the process is bounded too."""
    pieces, length = [], 0
    while piece := file.read(max(expected + 1 - length, _PIECE)):
        pieces.append(piece)
        length += len(piece)
        check_size(name, length)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
