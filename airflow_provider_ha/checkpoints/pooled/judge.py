"""A savepoint over a pool: whether every member is there as the manifest says, and each query can be restored."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.format.tree import Directory
from airflow_provider_ha.checkpoints.pooled.records import PooledSavepoint
from airflow_provider_ha.checkpoints.verification.codes import Code
from airflow_provider_ha.checkpoints.verification.report import Report
from airflow_provider_ha.checkpoints.verification.verify import Depth, verify
from airflow_provider_ha.errors import CheckpointCorruptError
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


def judge_query(directory: Directory, batch: int, depth: Depth, spark_version: str) -> tuple[bool | None, Report]:
    """Return whether a query can be restored to *batch* (``None``: it could not be found out), and the whole report."""
    report = verify(directory, depth=depth, spark_version=spark_version)
    if batch in report.restorable:
        return True, report
    unknown = any(finding.code is Code.UNREADABLE for finding in report.findings)
    return None if unknown else False, report
