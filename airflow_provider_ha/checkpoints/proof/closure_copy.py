"""The copy that Spark gets: the closure of a batch, sharing nothing with the checkpoint that a write could change.

Invariant: the checkpoint is only read. Its schema paths are rewritten in the copy, so that Spark never looks back.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from airflow_provider_ha.checkpoints.format.closure import closure
from airflow_provider_ha.checkpoints.format.content import ContentCheck
from airflow_provider_ha.checkpoints.format.releases import release
from airflow_provider_ha.checkpoints.format.state import StateReader
from airflow_provider_ha.checkpoints.proof.scratch import check_space
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, opened
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.working.relocation import relocate
from airflow_provider_ha.errors import CheckpointMissingError, StorageUnavailableError
from airflow_provider_ha.storage.durable import COPY_BUFFER, private_directories, reflink


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
    files = closure(tree, batch, with_planned=False, reader=whole).files
    size = sum(files.values())
    check_space(target.parent, size)
    try:
        for name in files:
            _copy(tree, name, target / name)
    except FileGoneError as error:
        raise CheckpointMissingError(
            f"batch {batch} of {tree} was purged while it was copied: {error.path} is gone",
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
            _copy_file(tree.local_path / name, target)
        except FileNotFoundError:
            raise FileGoneError(name, "it is needed and not there") from None
        return
    with opened(tree, name) as source, target.open("xb") as writer:
        for offset in range(0, source.size, COPY_BUFFER):
            writer.write(source.read_at(offset, COPY_BUFFER))


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("xb") as writer:
        if not reflink(reader, writer):
            shutil.copyfileobj(reader, writer, COPY_BUFFER)
