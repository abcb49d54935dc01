"""The copy that Spark gets, in a temporary directory: the closure of a batch, independent of the checkpoint.

Invariant: the checkpoint is only read. Its schema paths are rewritten in the copy, so that Spark never looks back.

Invariant: the copy is removed when its process ends. A killed process loses its lock, and the next process with the
same directory removes the remains.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_ha.checkpoints.spark.closure import StateReader, closure
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, opened
from airflow_provider_ha.checkpoints.spark.operators import relocate
from airflow_provider_ha.checkpoints.spark.releases import release
from airflow_provider_ha.checkpoints.spark.state_content import ContentCheck
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError, StorageUnavailableError
from airflow_provider_ha.storage.durable import COPY_BUFFER, private_directories, reflink, try_lock


PREFIX = ".spark-ha-prove-"
# Time from the creation of a directory to its lock: a younger directory is not taken for a dead one.
_NEWBORN_SECONDS = 60.0
# The copy, what Spark unpacks of it to load it, and what the next batch writes.
_TIMES = 3


@contextmanager
def scratch(beside: Path | None, chosen: Path | None) -> Iterator[Path]:
    """Yield an empty private directory; it is always removed at the end.

    :param beside: The checkpoint: on its disk a copy can share blocks, so its parent is tried first; ``None`` for one
        that is on no disk of this host.
    :param chosen: Where it has to be instead; must exist.
    :raises ConfigurationError: *chosen* is not a directory that can be written to.
    """
    parent = _parent(beside, chosen)
    _remove_dead(parent)
    try:
        place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    except OSError as error:
        raise ConfigurationError(
            f"a directory cannot be created in {parent} ({error.strerror})", next_step="Name another with --scratch"
        ) from error
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try_lock(descriptor)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(descriptor)


def check_space(place: Path, size: int) -> None:
    """Refuse a copy that could fill the disk, on which the query itself may be running.

    :raises StorageUnavailableError: The space is too small for the copy and Spark's files.
    """
    free = shutil.disk_usage(place).free
    if free < _TIMES * size:
        raise StorageUnavailableError(
            f"{place.parent} has {free} bytes free, and a proof of {size} bytes of files needs {_TIMES * size}",
            next_step="Name a directory on a larger disk with --scratch",
        )


def _parent(beside: Path | None, chosen: Path | None) -> Path:
    if chosen is not None:
        if not chosen.is_dir():
            raise ConfigurationError(
                f"the scratch directory {chosen} is not a directory", next_step="Make it first, or name another"
            )
        return chosen.resolve()
    if beside is None:
        return Path(tempfile.gettempdir())
    parent = beside.resolve().parent
    return parent if os.access(parent, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def _remove_dead(parent: Path) -> None:
    for path in parent.glob(f"{PREFIX}*"):
        try:
            status = path.lstat()
            if path.is_symlink() or status.st_uid != os.getuid() or time.time() - status.st_mtime < _NEWBORN_SECONDS:
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # gone, or not ours: nothing that has to be removed for us
        try:
            if try_lock(descriptor):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)


def copy_closure(tree: Tree, batch: int, target: Path) -> int:
    """Copy the files that Spark needs to continue after *batch*; return their size in bytes.

    :param tree: The checkpoint; its query may be running.
    :param target: Absolute; must not exist.
    :raises CheckpointMissingError: The batch does not exist, or Spark has purged it.
    :raises CheckpointCorruptError: A file is missing or bad.
    :raises StorageUnavailableError: A file could not be read or written, or there is no space for it.
    """
    # Where this release goes on from an older snapshot, that one has to come along, not the bad one.
    whole = StateReader(tree, ContentCheck(tree, release(None)))
    files = closure(tree, batch, with_planned=False, reader=whole)
    size = sum(files.values())
    check_space(target.parent, size)
    try:
        for name in files:
            _copy(tree, name, target / name)
    except FileGoneError as error:
        raise CheckpointMissingError(
            f"batch {batch} of {tree} was purged during the copy: {error.path} is missing",
            next_step="Choose a newer batch",
        ) from None
    except OSError as error:
        raise StorageUnavailableError(
            f"batch {batch} of {tree} could not be copied to {target}: {error}",
            next_step="Look at both file systems (space, rights), or name another directory with --scratch",
        ) from error
    relocate(target, target)
    return size


def _copy(tree: Tree, name: str, target: Path) -> None:
    """Copy through one open file: a rename over it does not affect the copy. No flush: the copy is temporary."""
    private_directories(target.parent)
    if tree.local_path is not None:
        try:
            with (tree.local_path / name).open("rb") as reader, target.open("xb") as writer:
                if not reflink(reader, writer):
                    shutil.copyfileobj(reader, writer, COPY_BUFFER)
        except FileNotFoundError:
            raise FileGoneError(name, "it is needed and not there") from None
        return
    with opened(tree, name) as source, target.open("xb") as writer:
        for offset in range(0, source.size, COPY_BUFFER):
            writer.write(source.read_at(offset, COPY_BUFFER))
