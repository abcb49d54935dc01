"""Restore of checkpoints from a pool savepoint into another prefix of the bucket.

Invariant: the savepoint stays unchanged. S3 has no rename, so a prefix fills up file by file: the files that Spark
reads
first come last, the query id by a conditional create. Spark does not start from an interrupted restore.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.format.layout import METADATA
from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.savepoints.judge import check
from airflow_provider_ha.checkpoints.savepoints.order import stages
from airflow_provider_ha.checkpoints.savepoints.pool.layout import SavepointInPool
from airflow_provider_ha.checkpoints.savepoints.pool.pool import Place, Pool
from airflow_provider_ha.checkpoints.trees.at_once import each
from airflow_provider_ha.checkpoints.working.relocation import checked_by, is_relocated, relocated
from airflow_provider_ha.errors import ConfigurationError, ObjectExistsError


def restore_prefix(stored: SavepointInPool, target: Place, *, spark_version: str | None = None) -> None:
    """Create ``<target>/<query>``, a checkpoint location for Spark, for every query of a savepoint.

    :param target: Prefix of the same bucket; must be empty.
    :param spark_version: The release that will start from it; the one in the manifest by default.
    :raises CheckpointCorruptError: The savepoint differs from its manifest, or a query could not continue from it.
    :raises ConfigurationError: The target is in another bucket.
    :raises ObjectExistsError: The target is not empty.
    :raises StorageUnavailableError: A read or write failed, or a sweep is running.
    """
    pool = stored.pool
    if target.bucket != pool.place.bucket or not target.prefix:
        raise ConfigurationError(
            f"{target} is not a prefix of bucket {pool.place.bucket}",
            next_step="Choose one: the server copies within a bucket",
        )
    if next(iter(pool.store.list(target.prefix)), None) is not None:
        raise ObjectExistsError(f"{target} is not empty", next_step="Choose another prefix")
    with stored.use() as held:
        check(stored, spark_version=spark_version)

        def put(name: str) -> None:
            held.check()
            _put(pool, stored.savepoint, name, target)

        for stage in stages(stored.savepoint):
            each(put, stage)


def _put(pool: Pool, savepoint: Savepoint, name: str, target: Place) -> None:
    query, _, inner = name.partition("/")
    source, key = pool.members + savepoint.files[name].member, target.prefix + name
    moved, path = None, f"{query}/{checked_by(inner)}"
    if is_relocated(checked_by(inner)) and path in savepoint.files:
        data = pool.store.read(pool.members + savepoint.files[path].member)
        moved = relocated(data, path, f"s3a://{target.bucket}/{target.prefix}{query}")
    if moved is None:
        pool.store.copy(source, key, if_absent=inner == METADATA)
    elif not name.endswith(".crc"):  # Spark's checksum would cover the old bytes
        pool.store.write(key, moved)
