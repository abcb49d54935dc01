"""What a word of ``spark-ha checkpoint diff`` stands for: a directory, a savepoint, or either of them on S3.

On HDFS it is a directory. Of a managed job both may lie anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

from airflow_provider_ha.checkpoints.comparison.side import Side, read_side
from airflow_provider_ha.checkpoints.connectors.places import directory_at
from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.savepoints.directory import read_savepoint
from airflow_provider_ha.checkpoints.savepoints.pool.pool import Place, Pool, member_of, savepoint_place
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import MANIFEST
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.trees.object_tree import ObjectTree
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError


Sides = Mapping[str, Side]
"""Query -> its checkpoint."""


def of_path(path: Path, batch: int | None) -> Sides:
    """Return what lies at *path*: a savepoint where it has a manifest, else a checkpoint directory.

    :param batch: Of a checkpoint directory, the newest committed one by default.
    :raises ConfigurationError: A batch of a savepoint is named.
    """
    if not (path / MANIFEST).is_file():
        return {path.resolve().name: read_side(LocalTree(path), batch)}
    _check_batch(path, batch)
    return of_savepoint(LocalTree(path), read_savepoint(path).savepoint)


def of_savepoint(directory: Tree, savepoint: Savepoint) -> Sides:
    """Return the queries of a savepoint in a directory, wherever that lies."""
    return {
        query: read_side(
            directory / query,
            part.batch,
            spark_version=savepoint.spark_version,
            digests={name: savepoint.files[f"{query}/{name}"] for name in part.files},
        )
        for query, part in savepoint.queries.items()
    }


def on_hdfs(uri: str) -> Callable[[int | None], Sides]:
    """Return what reads the batches of the checkpoint at *uri*; raises as :func:`on_s3` says."""

    @cache
    def directory() -> Tree:
        return directory_at(uri)

    return lambda batch: {directory().name: read_side(directory(), batch)}


def on_s3(uri: str) -> Callable[[int | None], Sides]:
    """Return what reads the batches of what lies at *uri*: a savepoint where a manifest has its name, else a prefix.

    Nothing is asked for before the first batch is, and the prefix is listed once for all.

    :returns: A function that raises as :func:`of_path` does, and ``StorageUnavailableError`` when the store refuses.
    """
    opened = cache(_opened)

    def sides(batch: int | None) -> Sides:
        return opened(uri)(batch)

    return sides


def _opened(uri: str) -> Callable[[int | None], Sides]:
    pool, savepoint = _savepoint(uri)
    if savepoint is None:
        place = Place.of(uri)
        directory = pool.tree_at(place)
        query = place.name or place.bucket
        return lambda batch: {query: read_side(directory, batch, identity=_identity(directory))}

    def sides(batch: int | None) -> Sides:
        _check_batch(uri, batch)
        return _of_pooled(pool, savepoint)

    return sides


def _savepoint(uri: str) -> tuple[Pool, Savepoint | None]:
    try:
        place, name = savepoint_place(uri)
    except ConfigurationError:  # a savepoint cannot have this name, and a checkpoint can
        return Pool(Place.of(uri)), None
    pool = Pool(place)
    try:
        return pool, pool.read(name)
    except CheckpointMissingError:
        return pool, None


def _of_pooled(pool: Pool, savepoint: Savepoint) -> Sides:
    present = pool.present()
    return {
        query: read_side(
            pool.tree_of(savepoint.files, query, present),
            part.batch,
            spark_version=savepoint.spark_version,
            identity=partial(_member, savepoint, query),
        )
        for query, part in savepoint.queries.items()
    }


def _member(savepoint: Savepoint, query: str, name: str) -> str:
    return savepoint.files[f"{query}/{name}"].member


def _identity(directory: ObjectTree) -> Callable[[str], str]:
    """Return what names a file as the pool does that it would be copied into."""

    def identity(name: str) -> str:
        item = directory.listed(name)
        return member_of(item.etag, item.size)

    return identity


def _check_batch(place: object, batch: int | None) -> None:
    if batch is not None:  # guard: savepoints-have-other-batches
        raise ConfigurationError(f"{place} is a savepoint: it has one batch only", next_step="Leave --batch out")
