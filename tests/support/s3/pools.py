"""Savepoints over a pool as tests make and read them: the pool and the savepoint first, as the sentence goes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree
from airflow_provider_ha.checkpoints.store.savepoints import creation as taking
from airflow_provider_ha.checkpoints.store.savepoints import savepoint_report
from airflow_provider_ha.checkpoints.store.savepoints import savepoint_restore as on_this_host
from airflow_provider_ha.checkpoints.store.savepoints.pool import Pool, PoolPlace
from airflow_provider_ha.checkpoints.store.savepoints.pool_layout import PoolLayout, SavepointInPool, restore_prefix
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource


def take(
    pool: Pool,
    name: str,
    sources: Sequence[SavepointSource[PoolPlace]],
    *,
    holder: str,
    label: str = "",
    spark_version: str | None = None,
) -> Savepoint:
    """Make a savepoint of checkpoints in the bucket of the pool."""
    return taking.take(sources, PoolLayout(pool, name, holder), label=label, spark_version=spark_version)


def stored(pool: Pool, savepoint: Savepoint, holder: str = "a test") -> SavepointInPool:
    """Return a savepoint as the commands read it, by a manifest that need not lie in the pool."""
    return SavepointInPool(pool, savepoint.savepoint_id, savepoint, holder)


def restore(pool: Pool, savepoint: Savepoint, target: PoolPlace, *, holder: str) -> None:
    """Make checkpoints of a savepoint in another prefix."""
    restore_prefix(stored(pool, savepoint, holder), target)


def fetch(pool: Pool, savepoint: Savepoint, target: Path, *, holder: str) -> Savepoint:
    """Make a savepoint in a directory of one in a pool."""
    return on_this_host.fetch(stored(pool, savepoint, holder), target)


def check(pool: Pool, savepoint: Savepoint) -> None:
    """See that a savepoint is whole."""
    savepoint_report.check(stored(pool, savepoint))


def tree_of(pool: Pool, savepoint: Savepoint, query: str) -> ObjectTree:
    """Return one query's part of a savepoint."""
    return stored(pool, savepoint).tree(query)
