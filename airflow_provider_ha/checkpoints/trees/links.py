"""Directories made of hard links, complete or not there.

Invariant: nothing below a link is ever edited. Links share inodes with the directory that they were made from, so what
has to differ is written aside and renamed over (spark-facts section 1, condition 1). A directory is built under a
hidden name and renamed when it is complete: a half-made one is never mistaken for a whole one.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ObjectExistsError
from airflow_provider_ha.storage.durable import (
    PRIVATE_DIRECTORY,
    directories_as_above,
    flush_directory,
    private_directories,
)
from airflow_provider_ha.storage.outage import is_outage, outages, unavailable


_BUFFER = 1024 * 1024
NO_LINKS = frozenset({errno.EXDEV, errno.EMLINK, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""What a file system answers that gives a file no second name: it is another one, has too many names, or has none."""
_FLUSHES = 4
# Thousands of files are linked: to make a Path of each takes longer than its link.
StrPath: TypeAlias = "str | os.PathLike[str]"


@contextmanager
def building(target: Path, *, private: bool = True) -> Iterator[Path]:
    """Yield a hidden directory that becomes *target*, flushed to disk, when the block ends without an error.

    :param private: Whether it is for its owner only; else the process decides (umask): others may read an output.
    :raises ObjectExistsError: *target* exists.
    :raises StorageUnavailableError: The file system does not answer, in the block or here.
    """
    with outages("made", target):
        _refuse_existing(target)
        hidden = target.parent / f".{target.name}.{new_id()}.tmp"
        if private:
            private_directories(target.parent)
            hidden.mkdir(PRIVATE_DIRECTORY)
        else:
            hidden.mkdir(parents=True)
        try:
            yield hidden
            flush_tree(hidden)
            _refuse_existing(target)
            hidden.rename(target)
        except BaseException:
            shutil.rmtree(hidden, ignore_errors=True)
            raise
        flush_directory(target.parent)


def linked(source: StrPath, target: StrPath) -> bool:
    """Give a file a second name; return whether the file system could.

    :raises FileNotFoundError: The file is not there.
    :raises StorageUnavailableError: The file system does not answer.
    """
    try:
        try:
            os.link(source, target)
        except FileNotFoundError:
            # Of either: only the first file of a directory finds the directory missing.
            directories_as_above(Path(target).parent)
            os.link(source, target)
    except OSError as error:
        if error.errno in NO_LINKS:
            return False
        if is_outage(error):
            raise unavailable(f"{os.fspath(source)} could not be linked to {os.fspath(target)}", error) from error
        raise
    return True


def link(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it if the file system cannot.

    :raises FileNotFoundError: The file is not there.
    :raises StorageUnavailableError: The file system does not answer.
    """
    if not linked(source, target):
        with outages("copied", source), source.open("rb") as reader, target.open("xb") as writer:
            shutil.copyfileobj(reader, writer, _BUFFER)
            writer.flush()
            os.fsync(writer.fileno())


def write_aside(path: Path, data: bytes) -> None:
    """Write a file durably under a temporary name that Spark ignores, then give it its name.

    The checksum file that Hadoop may have left next to an older file of this name is removed first: it would not fit.

    :raises StorageUnavailableError: The file system does not answer.
    """
    with outages("written", path):
        directories_as_above(path.parent)
        aside = path.parent / f".{path.name}.{new_id()}.tmp"
        try:
            with aside.open("xb") as writer:
                writer.write(data)
                writer.flush()
                os.fsync(writer.fileno())
            hidden_checksum(path).unlink(missing_ok=True)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
        flush_directory(path.parent)


def hidden_checksum(path: Path) -> Path:
    """Path of the checksum that Hadoop's local file system keeps next to a file."""
    return path.parent / f".{path.name}.crc"


def flush_tree(root: Path) -> None:
    """Flush all directories below *root* to the disk, *root* last."""
    below = [directory for directory, _, _ in os.walk(root, topdown=False)][:-1]
    # A disk answers several in hardly more time than one.
    with ThreadPoolExecutor(_FLUSHES) as pool:
        for _ in pool.map(flush_directory, below):
            pass
    flush_directory(root)


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise ObjectExistsError(
            f"directory {target} exists already",
            next_step="Each epoch and each checkpoint makes its own directory",
        )
