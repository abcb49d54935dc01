"""Comparing a working directory with what a checkpoint that was taken in it has recorded: the lengths of its files.

Spark writes no file of a committed batch again, so another length is damage. A file that is gone may have been purged:
whether it is needed shows when the directory is forked.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ha.checkpoints.trees import files
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError


def check_lengths(directory: Tree, recorded: Mapping[str, Mapping[str, int]]) -> None:
    """Assert that files have the lengths that they had.

    :param directory: Working directory: one directory per query.
    :param recorded: Query -> relative path -> bytes.
    :raises CheckpointCorruptError: One of them has another length.
    :raises StorageUnavailableError: One could not be looked at.
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
