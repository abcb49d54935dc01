"""A savepoint over a pool: whether every member is there as the manifest says, and each query can be restored."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.savepoints.pool.pool import Pool
from airflow_provider_ha.checkpoints.savepoints.pool.records import PooledSavepoint
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.report import Report
from airflow_provider_ha.checkpoints.verify.verify import Depth, verify
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError
from airflow_provider_ha.storage.reading import Listed


def missing(savepoint: PooledSavepoint, present: dict[str, Listed]) -> list[CheckpointCorruptError]:
    """Return what is not in the pool as the manifest says, in the order of the manifest.

    A member is created once, and the store says by its etag whether it is still that object: no byte is read.
    """
    found: list[CheckpointCorruptError] = []
    for name, file in savepoint.files.items():
        item = present.get(file.member)
        if item is None:
            found.append(CheckpointCorruptError(name, "it is in the manifest, and not in the pool"))
        elif item.size != file.size:
            found.append(CheckpointCorruptError(name, f"it has {item.size} bytes, the manifest says {file.size}"))
        elif item.etag != file.etag:
            found.append(CheckpointCorruptError(name, "it was replaced in the pool: its etag is another one"))
    return found


def judge_query(directory: Tree, batch: int, depth: Depth, spark_version: str) -> tuple[bool | None, Report]:
    """Return whether a query can be restored to *batch* (``None``: it could not be found out), and the whole report."""
    report = verify(directory, depth=depth, spark_version=spark_version)
    if batch in report.restorable:
        return True, report
    unknown = any(finding.code is Code.UNREADABLE for finding in report.findings)
    return None if unknown else False, report


def check(pool: Pool, savepoint: PooledSavepoint, spark_version: str | None = None) -> None:
    """See that the pool has a savepoint as its manifest says, and that each query can be restored from that.

    :param spark_version: The release that is to start from it; the one in the manifest by default.
    :raises CheckpointCorruptError: The first thing that is wrong.
    :raises StorageUnavailableError: It could not be found out.
    """
    present = pool.present()
    for problem in missing(savepoint, present):
        raise problem
    for query, part in savepoint.queries.items():
        directory = pool.tree_of(savepoint, query, present)
        restorable, report = judge_query(directory, part.batch, "quick", spark_version or savepoint.spark_version)
        if restorable is None:
            raise StorageUnavailableError(f"query {query!r} of the savepoint could not be read", next_step="Try again")
        if not restorable:
            path, said = next(((f.path, f.message) for f in report.findings), (".", "its batch is not restorable"))
            raise CheckpointCorruptError(f"{query}/{path}", f"batch {part.batch} cannot be restored: {said}")
