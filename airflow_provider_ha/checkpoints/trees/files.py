"""Reading files that Spark may delete or replace at any moment, without ever following a name out of the directory.

A directory is one of this host, read here, or a :class:`~airflow_provider_ha.checkpoints.trees.tree.Tree`, asked.

Invariant: what is known to be bad or gone is a ``CheckpointCorruptError`` with the file's relative path; what could not
be read (permissions, a broken disk) is ``StorageUnavailableError`` and says nothing about the checkpoint (contract 6).
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.trees.memory_bounds import NAMES, check_size, first_names
from airflow_provider_ha.checkpoints.trees.tree import Directory, OpenFile
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError


# Paths are put together as text here: pathlib takes longer for one than the system for the question.
_LEADING_OUT = frozenset({"", ".", ".."})
# What is read in large pieces is read to its end: the disk works on what follows while a piece is decoded.
_LARGE, _AHEAD = 128 << 10, 4 << 20
_PIECE = 16 << 10
_MORE_MEMORY = "Give this process more memory, and try again"
# Opening a pipe must not block; O_NONBLOCK has no effect on a regular file.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class NotAFileError(CheckpointCorruptError):
    """A directory or a link stands where a file has to be."""


class UnreadableError(StorageUnavailableError):
    """A file or directory could not be read.

    :param path: Which one, relative to the checkpoint where that is known.
    :param error: Why.
    :param next_step: What to do about it.
    """

    def __init__(
        self, path: str, error: object, *, next_step: str = "Give this user the right to read it, and try again"
    ) -> None:
        self.path = path
        super().__init__(f"cannot read {path}: {error}", next_step=next_step)


class FileGoneError(CheckpointCorruptError):
    """A file that is needed is not there: never written, lost, or purged by Spark meanwhile."""


def names(directory: Directory, place: str = "") -> list[str]:
    """Return all names in *directory*, sorted; none when it is not there or not a directory.

    :param place: Of a directory below it instead, by its path relative to it.
    :raises UnreadableError: It is there and cannot be listed.
    """
    if not isinstance(directory, Path):
        return (directory / place if place else directory).names()
    try:
        with os.scandir(f"{directory}/{place}") as found:
            listed = first_names(entry.name for entry in found)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UnreadableError(place or directory.name, error) from error
    if listed is None:
        raise crowded(place or directory.name)
    return sorted(listed)


def crowded(place: str) -> UnreadableError:
    """Return the error of a directory that has more names than are listed."""
    return UnreadableError(
        place,
        f"it has more than {NAMES:,} entries",
        next_step="Check that it is a checkpoint of Spark, which never needs that many, and name the checkpoint itself",
    )


def fresh(directory: Directory) -> Directory:
    """Return *directory* as it is now; a directory of this host always is."""
    return directory if isinstance(directory, Path) else directory.fresh()


def at_once(directory: Directory) -> int:
    """Return how many files of *directory* are to be read at a time.

    One on this host: its files are small, and decoding them holds Python's lock: two threads gained nothing.
    """
    return 1 if isinstance(directory, Path) else directory.at_once


def expect(directory: Directory, names: Iterable[str]) -> None:
    """Announce the files that are read next; on this host it has no effect."""
    if not isinstance(directory, Path):
        directory.expect(names)


def is_directory(directory: Directory) -> bool:
    """Whether *directory* is one.

    :raises UnreadableError: It could not be found out.
    """
    if not isinstance(directory, Path):
        return directory.is_directory()
    try:
        return directory.is_dir()
    except OSError as error:
        raise UnreadableError(directory.name, error) from error


def exists(directory: Directory, name: str) -> bool:
    """Whether *name* is a regular file below *directory*, not reached through a symbolic link of its own."""
    if not isinstance(directory, Path):
        return directory.has(name)
    try:
        return stat.S_ISREG(os.lstat(f"{directory}/{name}").st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise UnreadableError(name, error) from error


def size(directory: Directory, name: str) -> int:
    """Return the size of a file in bytes.

    :raises FileGoneError: It is not there.
    :raises NotAFileError: It is not a regular file.
    """
    check_name(name)
    if not isinstance(directory, Path):
        return directory.file_size(name)
    try:
        status = os.lstat(f"{directory}/{name}")
    except (FileNotFoundError, NotADirectoryError):
        raise FileGoneError(name, "it is needed and not there") from None
    except OSError as error:
        raise UnreadableError(name, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise NotAFileError(name, "it is not a regular file")
    return status.st_size


def read(directory: Directory, name: str) -> bytes:
    """Return the bytes of a file that is held as a whole: an entry of a log, metadata, a schema.

    :raises FileGoneError: It is not there.
    :raises NotAFileError: It is not a regular file.
    :raises CheckpointCorruptError: It is larger than any such file is.
    :raises UnreadableError: It could not be read.
    """
    try:
        if not isinstance(directory, Path):
            check_size(name, directory.file_size(check_name(name)))
            return directory.read(name)
        descriptor, found = _open(directory, name)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            check_size(name, found)
            return _whole(file, name, found)
    except OSError as error:
        raise UnreadableError(name, error) from error
    except MemoryError:
        raise UnreadableError(name, "it does not fit into the memory that is left", next_step=_MORE_MEMORY) from None


def _whole(file: io.FileIO, name: str, expected: int) -> bytes:
    """Read to the end: a file that grows in the process is bounded as well."""
    pieces, length = [], 0
    while piece := file.read(max(expected + 1 - length, _PIECE)):
        pieces.append(piece)
        length += len(piece)
        check_size(name, length)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


@dataclass(frozen=True, slots=True)
class LocalFile:
    """An :class:`OpenFile` of this host."""

    name: str
    size: int
    _descriptor: int

    def read_at(self, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; fewer at the end.

        :raises UnreadableError: They could not be read.
        """
        try:
            if length >= _LARGE:
                os.posix_fadvise(self._descriptor, offset, length + _AHEAD, os.POSIX_FADV_WILLNEED)
            return os.pread(self._descriptor, length, offset)
        except OSError as error:
            raise UnreadableError(self.name, error) from error


@contextmanager
def opened(directory: Directory, name: str) -> Iterator[OpenFile]:
    """Open a file for as long as the block runs; raises as :func:`read` does."""
    if not isinstance(directory, Path):
        with directory.opened(check_name(name)) as file:
            yield file
        return
    descriptor, found = _open(directory, name)
    try:
        yield LocalFile(name, found, descriptor)
    finally:
        os.close(descriptor)


def read_text(directory: Directory, name: str) -> str:
    """Return a file as UTF-8 text; raises as :func:`read` does, and ``CheckpointCorruptError`` when it is not text."""
    try:
        return read(directory, name).decode()
    except UnicodeDecodeError as error:
        raise CheckpointCorruptError(name, f"it is not UTF-8 text: {error}") from None
    except MemoryError:
        raise UnreadableError(name, "it does not fit into the memory that is left", next_step=_MORE_MEMORY) from None


def check_name(name: str) -> str:
    """Return *name* when it stays below the checkpoint: names come from files of any author.

    :raises CheckpointCorruptError: It leads out of the directory.
    """
    if "\0" in name or not _LEADING_OUT.isdisjoint(name.split("/")):
        raise CheckpointCorruptError(name, "the name leads out of the checkpoint")
    return name


def _open(directory: Path, name: str) -> tuple[int, int]:
    """Return (descriptor, bytes) of a regular file; raises as :func:`read` does."""
    try:
        descriptor = os.open(f"{directory}/{check_name(name)}", _READ)
    except FileNotFoundError:
        raise FileGoneError(name, "it is needed and not there") from None
    except OSError as error:
        size(directory, name)  # what is no file may refuse to be opened for that
        raise UnreadableError(name, error) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise NotAFileError(name, "it is not a regular file")
    return descriptor, status.st_size
