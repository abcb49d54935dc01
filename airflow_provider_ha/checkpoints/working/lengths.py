"""Comparison of a working directory with the file lengths recorded by its checkpoint.

Spark never rewrites a file of a committed batch, so another length is damage. A missing file may have been purged: the
fork of the directory shows whether it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ha.checkpoints.trees import files
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError


def check_lengths(directory: Tree, recorded: Mapping[str, Mapping[str, int]]) -> None:
    """Assert that files have their recorded lengths.

    :param directory: Working directory: one directory per query.
    :param recorded: Query -> relative path -> bytes.
    :raises CheckpointCorruptError: The length of a file differs.
    :raises StorageUnavailableError: A file could not be inspected.
    """
    for query, lengths in recorded.items():
        for name, expected in lengths.items():
            try:
                found = files.size(directory / query, name)
            except files.FileGoneError:
                continue
            if found != expected:
                reason = f"it has {found} bytes, and had {expected} when a checkpoint was taken"
                raise CheckpointCorruptError(f"{query}/{name}", reason)
