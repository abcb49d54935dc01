"""Creation of a checkpoint directory from another: the closure of one batch, by hard links or by copy.

Invariant: the source never changes, and only the closure is taken. Format 1 would silently load state of a later
version, and source entries above the cut would merge their files into one batch with later ones (spark-facts
section 1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from airflow_provider_ha.checkpoints.format.closure import closure
from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.checkpoints.trees.copying import copy_file, copy_out
from airflow_provider_ha.checkpoints.trees.files import FileGoneError
from airflow_provider_ha.checkpoints.trees.links import building, link
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.working.relocation import relocate
from airflow_provider_ha.errors import CheckpointMissingError


def fork(source: Path, target: Path, *, batch: int | None = None, keep_planned: bool, copy: bool = False) -> int:
    """Create *target* with *batch* as its last committed batch; return the number of files.

    :param source: Checkpoint directory of one query; fenced, pinned or a savepoint: no process writes to it.
    :param target: Does not exist yet; appears complete or not at all.
    :param batch: N; by default the last committed one.
    :param keep_planned: Whether to include batch N + 1 when it is planned: Spark then executes exactly it.
    :param copy: Whether to share no file with the source, because it has another owner: links share inodes.
    :raises CheckpointCorruptError: A file of the closure is damaged or missing.
    :raises CheckpointMissingError: Batch N does not exist.
    :raises ObjectExistsError: The target exists.
    """
    last = progress(LocalTree(source)).committed if batch is None else batch
    files = closure(LocalTree(source), last, with_planned=keep_planned).files
    with building(target) as hidden:
        _take_closure(source, hidden, list(files), last, partial(copy_file, algorithm=None) if copy else link)
        relocate(hidden, target)
    return len(files)


def fetch(source: Tree, target: Path, *, batch: int | None = None) -> int:
    """Create *target* from a checkpoint on remote storage; otherwise as :func:`fork`.

    :raises CheckpointMissingError: Batch N does not exist, or was purged during the copy.
    """
    last = progress(source).committed if batch is None else batch
    files = list(closure(source, last, with_planned=False).files)
    with building(target) as hidden:
        for name in files:
            try:
                copy_out(source, name, hidden / name)
            except FileGoneError:  # noqa: PERF203  # names the file
                raise _purged(source, last, name) from None
        relocate(hidden, target)
    return len(files)


def _take_closure(
    source: Path, target: Path, files: list[str], batch: int, take: Callable[[Path, Path], object]
) -> None:
    for name in files:
        try:
            take(source / name, target / name)
        except FileNotFoundError:  # noqa: PERF203  # names the file
            raise _purged(source, batch, name) from None


def _purged(source: object, batch: int, name: str) -> CheckpointMissingError:
    return CheckpointMissingError(
        f"batch {batch} of {source} was purged while it was linked or copied: {name} is gone",
        next_step="Choose a newer batch",
    )
