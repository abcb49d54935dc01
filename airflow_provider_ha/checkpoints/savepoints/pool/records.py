"""What lies beside a pool: one manifest for each savepoint, and the leases of the processes at work."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from airflow_provider_ha.checkpoints.model import QueryCut
from airflow_provider_ha.records import Model, Record


class PooledFile(Model):
    """One file of a savepoint.

    :param size: Bytes.
    :param member: Key of the object in the pool, relative to it; others may name the same.
    :param etag: What the store calls the version of that object.
    :param algorithm: Of *digest*, as the store names it; empty when the store keeps none.
    :param digest: The store's own checksum of all bytes, or the sha256 of what was imported; in hex.
    """

    size: int
    member: str
    etag: str
    algorithm: str = ""
    digest: str = ""


class PooledSavepoint(Record):
    """The manifest of a savepoint over a pool; written last. What has none is not a savepoint.

    :param files: Path (``<query>/offsets/12``, ``sinks/<query>/_spark_metadata/12``) -> what it is.
    :param queries: The cut.
    :param digested: Whether every file has a digest.
    :param job_id: Of the managed job that it came from in an archive, with *run*, *epoch* and *graph*; empty for one
        that was taken of prefixes.
    """

    kind: ClassVar[str] = "pooled-savepoint"

    savepoint_id: str
    created_at: datetime
    label: str = ""
    queries: dict[str, QueryCut]
    files: dict[str, PooledFile]
    digested: bool = False
    spark_version: str
    job_id: str = ""
    run: int = 0
    epoch: int = 0
    graph: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files, whether or not they are shared with other savepoints."""
        return sum(file.size for file in self.files.values())


class PoolLease(Record):
    """A process is at work. The lease counts from when the store wrote it: no two hosts compare their clocks.

    :param seconds: How long it counts.
    :param purpose: ``"use"`` of members that may have no manifest yet, or ``"sweep"``.
    :param holder: Name of the process, for the operator.
    """

    kind: ClassVar[str] = "pool-lease"

    purpose: str
    holder: str
    seconds: float
