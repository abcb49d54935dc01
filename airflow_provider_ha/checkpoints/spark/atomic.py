"""Directories and files that appear atomically: built aside, by writes or by hard links, then renamed.

Invariant: an unfinished target has a hidden name, and its creator holds a lock on it that ends with the process. So the
next attempt can distinguish the remains of a killed process from the work of a live one, and removes them.

Invariant: nothing below a link is ever edited. Links share inodes with the directory that they were made from, so what
has to differ is written aside and renamed over (spark-facts section 1, condition 1). A directory is built under a
hidden name and renamed when it is complete: a half-made one is never mistaken for a whole one.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TypeAlias

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ConfigurationError, ObjectExistsError, StorageUnavailableError
from airflow_provider_ha.storage.durable import (
    PRIVATE_DIRECTORY,
    PRIVATE_FILE,
    directories_as_above,
    flush,
    flush_directory,
    private_directories,
    try_lock,
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
    """
    if not linked(source, target):
        with outages("copied", source), source.open("rb") as reader, target.open("xb") as writer:
            shutil.copyfileobj(reader, writer, _BUFFER)
            writer.flush()
            os.fsync(writer.fileno())


def write_aside(path: Path, data: bytes) -> None:
    """Write a file durably under a temporary name that Spark ignores, then give it its name.

    The checksum file that Hadoop may have left next to an older file of this name is removed first: it would not fit.
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
            next_step="Each epoch and each checkpoint creates its own directory",
        )


@contextmanager
def directory_attempt(target: Path) -> Iterator[Path]:
    """Yield a hidden directory that becomes *target* when the block ends without an error.

    :raises ObjectExistsError: *target* exists.
    :raises ConfigurationError: The directory that it is to be in is not there.
    """
    with storage_errors(f"cannot make {target}"), ExitStack() as held:
        check_target(target)
        with building(target, private=False) as hidden:
            held.enter_context(_locked(os.open(hidden, os.O_RDONLY | os.O_DIRECTORY)))
            yield hidden


@contextmanager
def file_attempt(target: Path) -> Iterator[IO[bytes]]:
    """Yield an open file that becomes *target* when the block ends without an error; raises as directories do.

    Only its owner can read it: it holds the data of a job.
    """
    with storage_errors(f"cannot make {target}"):
        check_target(target)
        hidden = target.parent / f".{target.name}.{new_id()}.tmp"
        descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        try:
            with os.fdopen(descriptor, "wb") as stream, _locked(os.dup(descriptor)):
                yield stream
                flush(stream)
                # A link, not a rename: it fails when another process made the target first.
                os.link(hidden, target)
        finally:
            hidden.unlink(missing_ok=True)
        flush_directory(target.parent)


@contextmanager
def scratch_directory(place: Path) -> Iterator[Path]:
    """Yield a hidden directory next to *place* that is gone when the block ends; what dead ones left is removed."""
    with storage_errors(f"cannot work in the parent directory of {place}"), ExitStack() as held:
        _collect(place)
        hidden = place.parent / f".{place.name}.{new_id()}.tmp"
        hidden.mkdir(mode=0o700)
        held.callback(shutil.rmtree, hidden)
        held.enter_context(_locked(os.open(hidden, os.O_RDONLY | os.O_DIRECTORY)))
        yield hidden


def check_target(target: Path) -> None:
    """Refuse a target that cannot be created, before any work is done; raises as :func:`directory_attempt`.

    Remains of dead attempts are removed, also of an attempt that died just after it had created the target.
    """
    with storage_errors(f"cannot make {target}"):
        if not target.parent.is_dir():
            raise ConfigurationError(
                f"{target.parent} is not a directory", next_step="Make it first, or mount its file system"
            )
        _collect(target)
        if os.path.lexists(target):
            raise ObjectExistsError(f"{target} exists already", next_step="Choose a name that does not exist yet")


@contextmanager
def storage_errors(doing: str) -> Iterator[None]:
    """Translate errors of the file system.

    :param doing: The failed action, as the beginning of a sentence.
    :raises ObjectExistsError: Another process created the target first.
    :raises StorageUnavailableError: Any other error.
    """
    try:
        yield
    except FileExistsError as error:
        raise ObjectExistsError(f"{doing}: it exists", next_step="Choose a name that does not exist yet") from error
    except OSError as error:
        raise StorageUnavailableError(
            f"{doing}: {error}", next_step="Look at the file system (space, rights, mounts), then try again"
        ) from error


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    try:
        try_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _collect(target: Path) -> None:
    """Remove what attempts at *target* left whose process died."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{32}}\.tmp")
    for path in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        if ours.fullmatch(path.name) and not path.is_symlink():
            _remove_dead(path)


def _remove_dead(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return  # its maker has just finished
    try:
        if try_lock(descriptor):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
