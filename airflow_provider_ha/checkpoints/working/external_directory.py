"""A checkpoint directory outside of the cluster: its query, and its removal once a job has claimed it.

Invariant: only what Spark makes of one query is ever removed, by name, and only from a directory that still has the id
of the query that was claimed, and no batch more than then. A path that has become something else since, that is in use
again, or that a record names by mistake, loses nothing. The id goes last, so that a removal which dies in between is
taken up again.
"""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

from airflow_provider_ha.checkpoints.format.layout import COMMITS, METADATA, OFFSETS, SOURCES, STATE, progress
from airflow_provider_ha.checkpoints.trees.files import names, read_text
from airflow_provider_ha.checkpoints.trees.links import hidden_checksum
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError
from airflow_provider_ha.pointers.ownership import AdoptedCheckpoint
from airflow_provider_ha.storage.durable import flush_directory


log = logging.getLogger(__name__)


def query_id(directory: Tree) -> str:
    """Return Spark's own id of the query of a checkpoint directory.

    :raises CheckpointCorruptError: It has none. Spark would make a new one, and sinks that go by it would take every
        batch for a new one (SPARK-55058).
    :raises StorageUnavailableError: It could not be read.
    """
    try:
        found = json.loads(read_text(directory, METADATA))["id"]
    except CheckpointCorruptError as error:
        raise _without_id(error.reason) from None
    except (ValueError, KeyError, TypeError):
        raise _without_id("it holds no query id") from None
    if not isinstance(found, str) or not found:
        raise _without_id("it holds no query id")
    return found


def _without_id(reason: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        METADATA, reason, next_step="Put back the file that belongs to it; with a new id sinks would repeat batches"
    )


def remove_adopted(claimed: AdoptedCheckpoint) -> None:
    """Remove a checkpoint directory that was claimed. Repeatable; what is not Spark's stays, and its directory with it.

    :raises StorageUnavailableError: It could not be read or removed: the next call goes on.
    """
    directory = Path(claimed.path)
    if directory.is_symlink() or not directory.is_dir():
        log.info("%s is no directory any more: nothing of it is removed", directory)
        return
    other = _changed(directory, claimed) if names(LocalTree(directory)) else ""
    if other:
        log.warning("%s stays: %s", directory, other)
        return
    try:
        _remove_parts(directory)
    except OSError as error:
        raise StorageUnavailableError(
            f"claimed checkpoint {directory} could not be removed: {error}",
            next_step="Look at the file system (rights, mounts); the job's leader tries again",
        ) from error


def _changed(directory: Path, claimed: AdoptedCheckpoint) -> str:
    """Return why a directory is not what was claimed; nothing when it is, or is what a removal has left of it.

    A removal that was interrupted at its last step leaves an empty one.
    """
    try:
        found = query_id(LocalTree(directory))
    except CheckpointCorruptError as error:
        return f"it is no checkpoint of query {claimed.query_id} any more ({error.reason})"
    if found != claimed.query_id:
        return f"it is a checkpoint of query {found} by now, not of {claimed.query_id}"
    now = progress(LocalTree(directory))
    if now.planned > claimed.planned or now.committed > claimed.committed:
        return f"its query has gone on from batch {claimed.committed} to {now.planned} since it was claimed"
    return ""


def _remove_parts(directory: Path) -> None:
    for part in (STATE, SOURCES, COMMITS, OFFSETS):
        place = directory / part
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
    flush_directory(directory)
    for path in (hidden_checksum(directory / METADATA), directory / METADATA):
        path.unlink(missing_ok=True)
    left = sorted(path.name for path in directory.iterdir())
    if left:
        log.warning("%s stays, because it holds what is not Spark's: %s", directory, ", ".join(left[:5]))
        return
    directory.rmdir()
    flush_directory(directory.parent)
