"""The copy that Spark gets: the closure of one batch, sharing nothing with the checkpoint that a write could change.

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
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.working.relocation import relocate
from airflow_provider_ha.errors import CheckpointMissingError, StorageUnavailableError
from airflow_provider_ha.storage.durable import COPY_BUFFER, private_directories, reflink


def copy_closure(directory: Path, batch: int, target: Path) -> int:
    """Copy what Spark needs to go on after *batch*; return its size in bytes.

    :param directory: The checkpoint; its query may be running.
    :param target: Does not exist yet, absolute.
    :raises CheckpointMissingError: The batch does not exist, or Spark has purged it.
    :raises CheckpointCorruptError: A file is missing or bad.
    :raises StorageUnavailableError: A file could not be read or written, or there is no space for it.
    """
    # Where this release goes on from an older snapshot, that one has to come along, not the bad one.
    tree = LocalTree(directory)
    whole = StateReader(tree, ContentCheck(tree, release(None)))
    files = closure(tree, batch, with_planned=False, reader=whole).files
    size = sum(files.values())
    check_space(target.parent, size)
    try:
        for name in files:
            _copy(directory / name, target / name)
    except FileNotFoundError as error:
        raise CheckpointMissingError(
            f"batch {batch} of {directory} was purged while it was copied: {error.filename} is gone",
            next_step="Choose a newer batch",
        ) from None
    except OSError as error:
        raise StorageUnavailableError(
            f"batch {batch} of {directory} could not be copied to {target}: {error}",
            next_step="Look at both file systems (space, rights), or name another directory with --scratch",
        ) from error
    relocate(target, target)
    return size


def _copy(source: Path, target: Path) -> None:
    """Copy through one open file: a rename over it changes nothing of the copy. No flush: it is temporary."""
    private_directories(target.parent)
    with source.open("rb") as reader, target.open("xb") as writer:  # guard: copies-share-their-files
        if not reflink(reader, writer):
            shutil.copyfileobj(reader, writer, COPY_BUFFER)
