"""Reading files that Spark may delete or replace at any moment, without ever following a name out of the directory.

Invariant: what is known to be bad or gone is a ``CheckpointCorruptError`` with the file's relative path; what could not
be read (permissions, a broken disk) is ``StorageUnavailableError`` and says nothing about the checkpoint (contract 6).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError


class NotAFileError(CheckpointCorruptError):
    """A directory or a link stands where a file has to be."""


class UnreadableError(StorageUnavailableError):
    """A file or directory could not be read.

    :param path: Which one, relative to the checkpoint where that is known.
    """

    def __init__(self, path: str, error: OSError) -> None:
        self.path = path
        super().__init__(f"cannot read {path}: {error}", next_step="Give this user the right to read it, and try again")


class FileGoneError(CheckpointCorruptError):
    """A file that is needed is not there: never written, lost, or purged by Spark meanwhile."""


def names(directory: Path) -> list[str]:
    """Return all names in *directory*, sorted; none when it is not there or not a directory.

    :raises UnreadableError: It is there and cannot be listed.
    """
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208  # ten thousands of names: pathlib takes twice as long
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UnreadableError(directory.name, error) from error


def is_directory(directory: Path) -> bool:
    """Whether *directory* is one.

    :raises UnreadableError: It could not be found out.
    """
    try:
        return directory.is_dir()
    except OSError as error:
        raise UnreadableError(directory.name, error) from error


def exists(directory: Path, name: str) -> bool:
    """Whether *name* is a regular file below *directory*, not reached through a symbolic link of its own."""
    path = directory / name
    try:
        return path.is_file() and not path.is_symlink()
    except OSError as error:
        raise UnreadableError(name, error) from error


def size(directory: Path, name: str) -> int:
    """Return the size of a file in bytes.

    :raises FileGoneError: It is not there.
    :raises NotAFileError: It is not a regular file.
    """
    check_name(name)
    try:
        status = (directory / name).lstat()
    except (FileNotFoundError, NotADirectoryError):
        raise FileGoneError(name, "it is needed and not there") from None
    except OSError as error:
        raise UnreadableError(name, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise NotAFileError(name, "it is not a regular file")
    return status.st_size


def read(directory: Path, name: str) -> bytes:
    """Return the bytes of a file.

    :raises FileGoneError: It is not there.
    :raises NotAFileError: It is not a regular file.
    :raises UnreadableError: It could not be read.
    """
    size(directory, name)
    try:
        return (directory / name).read_bytes()
    except FileNotFoundError:
        raise FileGoneError(name, "it is needed and not there") from None
    except OSError as error:
        raise UnreadableError(name, error) from error


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that is read in pieces. What stands under its name meanwhile does not matter.

    :param name: Relative to the checkpoint.
    :param size: Bytes when it was opened.
    """

    name: str
    size: int
    _descriptor: int

    def read_at(self, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; fewer at the end.

        :raises UnreadableError: They could not be read.
        """
        try:
            return os.pread(self._descriptor, length, offset)
        except OSError as error:
            raise UnreadableError(self.name, error) from error


@contextmanager
def opened(directory: Path, name: str) -> Iterator[OpenFile]:
    """Open a file for as long as the block runs; raises as :func:`read` does."""
    size(directory, name)
    try:
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise FileGoneError(name, "it is needed and not there") from None
    except OSError as error:
        raise UnreadableError(name, error) from error
    try:
        yield OpenFile(name, os.fstat(descriptor).st_size, descriptor)
    finally:
        os.close(descriptor)


def read_text(directory: Path, name: str) -> str:
    """Return a file as UTF-8 text; raises as :func:`read` does, and ``CheckpointCorruptError`` when it is not text."""
    try:
        return read(directory, name).decode()
    except UnicodeDecodeError as error:
        raise CheckpointCorruptError(name, f"it is not UTF-8 text: {error}") from None


def check_name(name: str) -> str:
    """Return *name* when it stays below the checkpoint: names come out of files that anyone may have damaged.

    :raises CheckpointCorruptError: It leads out of the directory.
    """
    if name.startswith("/") or "\0" in name or any(part in {"", ".", ".."} for part in name.split("/")):
        raise CheckpointCorruptError(name, "the name leads out of the checkpoint")
    return name
