"""Checkpoints out of a savepoint over a pool, in another prefix of the bucket.

Invariant: the savepoint stays as it is. S3 has no rename, so a prefix fills up file by file: what Spark looks for first
comes last, the query id by a conditional create. What is killed before that is nothing that Spark would start from.
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
    """Make ``<target>/<query>``, a checkpoint location that Spark can start from, for every query of a savepoint.

    :param target: Of the same bucket; nothing may lie below it.
    :param spark_version: The release that is to start from it; the one in the manifest by default.
    :raises CheckpointCorruptError: The savepoint is not what its manifest says, or a query could not go on from it.
    :raises ConfigurationError: The target lies in another bucket.
    :raises ObjectExistsError: Something lies below the target.
    :raises StorageUnavailableError: Something could not be read or written, or a sweep is under way.
    """
    pool = stored.pool
    if target.bucket != pool.place.bucket or not target.prefix:
        raise ConfigurationError(
            f"{target} is not a prefix of bucket {pool.place.bucket}", next_step="Its server copies the files: name one"
        )
    if next(iter(pool.store.list(target.prefix)), None) is not None:
        raise ObjectExistsError(f"something lies below {target} already", next_step="Choose another prefix")
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
    elif not name.endswith(".crc"):  # Spark's checksum would be of the old bytes
        pool.store.write(key, moved)
