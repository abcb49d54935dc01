"""A checkpoint directory outside the cluster: its query id, and its removal after a job has claimed it.

Invariant: a removal deletes only Spark's files of the claimed query, by name, and only while the directory has the same
query id and no later batch. A path that was replaced, is in use again, or is in a record by mistake, loses no file. The
id goes last, so that an interrupted removal can continue.
"""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.spark.atomic import hidden_checksum
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    progress,
)
from airflow_provider_ha.checkpoints.spark.files import names, read_text
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError
from airflow_provider_ha.storage.durable import flush_directory


log = logging.getLogger(__name__)


def query_id(directory: Tree) -> str:
    """Return Spark's own query id of a checkpoint directory.

    :raises CheckpointCorruptError: It has no id. Spark would create a new one, and sinks that identify batches by it
        would
        accept every batch as new (SPARK-55058).
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
        METADATA, reason, next_step="Put back its metadata file; with a new id sinks would repeat batches"
    )


def remove_adopted(claimed: AdoptedCheckpoint) -> None:
    """Remove a claimed checkpoint directory. Repeatable; files that are not Spark's stay, with their directory.

    :raises StorageUnavailableError: It could not be read or removed: the next call continues.
    """
    directory = Path(claimed.path)
    if directory.is_symlink() or not directory.is_dir():
        log.info("%s is no longer a directory: no file is removed", directory)
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
            next_step="Check the file system (rights, mounts); the job's leader tries again",
        ) from error


def _changed(directory: Path, claimed: AdoptedCheckpoint) -> str:
    """Return why a directory differs from the claim; empty when it matches or is the remains of a removal.

    A removal that was interrupted at its last step leaves an empty directory.
    """
    try:
        found = query_id(LocalTree(directory))
    except CheckpointCorruptError as error:
        return f"it is no longer a checkpoint of query {claimed.query_id} ({error.reason})"
    if found != claimed.query_id:
        return f"it is now a checkpoint of query {found}, not of {claimed.query_id}"
    now = progress(LocalTree(directory))
    if now.planned > claimed.planned or now.committed > claimed.committed:
        return f"its query has advanced from batch {claimed.committed} to {now.planned} since it was claimed"
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
        log.warning("%s stays, because it has files that are not Spark's: %s", directory, ", ".join(left[:5]))
        return
    directory.rmdir()
    flush_directory(directory.parent)
