"""Directories and files that appear atomically, also when their creator is killed.

Invariant: an unfinished target has a hidden name, and its creator holds a lock on it that ends with the process. So the
next attempt can distinguish the remains of a killed process from the work of a live one, and removes them.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from airflow_provider_ha.checkpoints.trees.links import building
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ConfigurationError, ObjectExistsError, StorageUnavailableError
from airflow_provider_ha.storage.durable import PRIVATE_FILE, flush, flush_directory, try_lock


@contextmanager
def directory_attempt(target: Path) -> Iterator[Path]:
    """Yield a hidden directory that becomes *target* when the block ends without an error.

    :raises ObjectExistsError: *target* exists.
    :raises ConfigurationError: The directory that it is to be in is not there.
    :raises StorageUnavailableError: The file system refused.
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
    """Yield a hidden directory next to *place* that is gone when the block ends; what dead ones left is removed.

    :raises StorageUnavailableError: The file system refused.
    """
    with storage_errors(f"cannot work beside {place}"), ExitStack() as held:
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
            raise ObjectExistsError(f"{target} exists already", next_step="Name one that does not exist yet")


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
        raise ObjectExistsError(f"{doing}: it exists", next_step="Name one that does not exist yet") from error
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
