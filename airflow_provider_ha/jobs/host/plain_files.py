"""Reads the files of a driver's directory, where the driver may have put anything in the place of a file.

Where the work root is shared, other hosts read it: a link would show a file of such a host to who may see
the driver's log. A pipe would hold up its reader without limit.

Invariant: no symbolic link below the root is followed, none in the place of a directory either, and opening never
blocks. What leads to the root is the choice of its administrator.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from airflow_provider_ha.errors import LogMissingError


_ENTER = os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY  # needs no permission to list it
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_OTHERS = {errno.ELOOP, errno.ENOTDIR, errno.ENXIO}  # a link, no directory, a socket
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFREG: "a file",
}


@dataclass(frozen=True, slots=True)
class PlainFiles:
    """The regular files of one directory. Every answer is of the moment.

    :param directory: Where they lie.
    :param root: The same directory or one above it, below which no link is followed.
    """

    directory: Path
    root: Path

    def found(self, pattern: re.Pattern[str]) -> dict[str, os.stat_result]:
        """Return the files whose names match.

        :raises OSError: The directory cannot be read.
        :raises LogMissingError: It is not reached without a link.
        """
        with self._entered() as at:
            listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
            try:
                with os.scandir(listed) as entries:
                    names = [entry.name for entry in entries if pattern.fullmatch(entry.name)]
            finally:
                os.close(listed)
            there = {}
            for name in names:
                try:
                    status = os.lstat(name, dir_fd=at)
                except FileNotFoundError:  # it has just got another name
                    continue
                if stat.S_ISREG(status.st_mode):
                    there[name] = status
            return there

    def size(self, name: str) -> int:
        """Return the bytes of a file; raises as :meth:`opened` does."""
        with self.opened(name) as file:
            return os.fstat(file.fileno()).st_size

    @contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO]:
        """Open a file for as long as the block runs.

        :raises OSError: It is not there, or cannot be read.
        :raises LogMissingError: It is no regular file, or not reached without a link; says what it is.
        """
        with self._entered() as at:
            descriptor = _open(name, _READ, at, self.directory / name)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            raise _refusal(self.directory / name, mode)
        with os.fdopen(descriptor, "rb") as file:
            yield file

    @contextmanager
    def _entered(self) -> Iterator[int]:
        """Open the directory, one step after the other: a link that comes in between is not followed either."""
        at, path = os.open(self.root, _ENTER), self.root
        try:
            for name in self.directory.relative_to(self.root).parts:
                path /= name
                below = _open(name, _ENTER | os.O_NOFOLLOW, at, path)
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)


def _open(name: str, flags: int, at: int, path: Path) -> int:
    try:
        return os.open(name, flags, dir_fd=at)
    except OSError as error:
        if error.errno in _OTHERS:
            raise _refusal(path, os.lstat(name, dir_fd=at).st_mode) from None
        raise


def _refusal(path: Path, mode: int) -> LogMissingError:
    kind = _KINDS.get(stat.S_IFMT(mode), "a device")
    return LogMissingError(
        f"{path} is {kind}. It is not read, because what the driver runs may have put it there",
        next_step="Look at it on its host. A link may lead to the work root, and none may lie below it",
    )
