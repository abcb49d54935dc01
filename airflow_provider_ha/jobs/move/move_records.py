"""Request, result and records of a job move.

Invariants:

- The old place refuses new runs while ``moved`` exists, and ``moved`` is created only for a job without a live run. So
  at most one cluster has a live run of the job.
- ``arriving`` is created before ``moved``, and only once per move. The transaction that creates the run at the new
  place removes it. An abandoned move has also removed it, and so cannot create a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal

from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Node
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.records import Record


class MoveRecord(Record):
    """``moved``: the job is on its way to another cluster, or has arrived there.

    :param move_id: Id of the move, and request id of the run there.
    :param cluster: The other cluster: hosts of ZooKeeper, and the node below which it keeps jobs.
    :param place: Its work root with the cluster id.
    :param run: Number of the run there; ``None`` while the job is on its way.
    :param by: The user or process that moves the job.
    :param at: Start of the move.
    """

    kind: ClassVar[str] = "moved"

    move_id: str
    cluster: str
    place: str
    run: int | None = None
    by: str
    at: datetime

    @property
    def sentence(self) -> str:
        """Destination of the job for users, as the predicate of a sentence about the job."""
        where = f"to cluster {self.cluster} ({self.place})"
        return f"is being moved {where}" if self.run is None else f"was moved {where} on {self.at:%Y-%m-%d}"


class ArrivalRecord(Record):
    """``arriving``: the job is on its way here.

    :param move_id: Id of the move.
    :param cluster: The old cluster.
    :param by: The user or process that moves the job.
    """

    kind: ClassVar[str] = "arrival"

    move_id: str
    cluster: str
    by: str
    at: datetime


def cluster_name(config: HaConfig) -> str:
    """Return a name that distinguishes clusters: ZooKeeper's hosts in sorted order, and the parent node of its jobs."""
    hosts = ",".join(sorted(config.zookeeper.split(",")))
    return f"{hosts}{config.chroot or ''}/{config.root}/{config.cluster_id}"


def read_moved(coordinator: Coordinator, paths: JobPaths) -> tuple[MoveRecord, Node] | None:
    """Return the record of the job's departure; ``None`` without one.

    :raises RecordCorruptError: The node cannot be read.
    """
    node = coordinator.find(paths.moved)
    return None if node is None else (MoveRecord.from_bytes(node.data, source=node.path), node)


def read_arrival(coordinator: Coordinator, paths: JobPaths) -> tuple[ArrivalRecord, Node] | None:
    """Return the record of the job's arrival; ``None`` without one.

    :raises RecordCorruptError: The node cannot be read.
    """
    node = coordinator.find(paths.arriving)
    return None if node is None else (ArrivalRecord.from_bytes(node.data, source=node.path), node)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRequest:
    """Move of a job to another cluster and its store.

    :param stop: Whether to stop a running job with a checkpoint; without it, a running job is refused.
    :param wait: Seconds to wait for the end of its run.
    :param conf: Spark conf for the new place, added to the graph's; an empty value removes a key.
    :param packages: Replacement for the graph's ``packages``; ``None`` keeps them.
    :param master: Replacement for the graph's Spark master; ``None`` keeps it.
    :param accept_verdicts: Accepted verdicts on the start at the new place.
    :param accept_unverified: Queries for which unverified facts are accepted; judged as LOSS_POSSIBLE.
    :param kafka_bootstrap: Query -> ``host:port,host:port`` of its brokers, as for a restore.
    :param lineage: Conf for OpenLineage's listener in Spark, as for a restore.
    """

    requested_by: str
    stop: bool = False
    wait: float = 600.0
    conf: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] | None = None
    master: str | None = None
    accept_verdicts: frozenset[Verdict] = frozenset({Verdict.SAFE})
    accept_unverified: frozenset[str] = frozenset()
    kafka_bootstrap: Mapping[str, str] = field(default_factory=dict)
    lineage: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A planned or completed move.

    :param origin: The old cluster: hosts of ZooKeeper, and the node below which it keeps jobs.
    :param destination: The new cluster.
    :param place: Work root with the cluster id at the destination.
    :param state: ``planned``: the job is unchanged; ``moved``: the job has its run at the new place; ``abandoned``: the
        job may be started at its old place again.
    :param move_id: Id of the move, and request id of its run; ``None`` before the start of the move.
    :param steps: Remaining steps, in order; empty after the move.
    :param source: Start of the job there: ``savepoint-<id>`` or ``checkpoint-<n>``; ``None`` while unknown.
    :param cut: Query -> last batch included.
    :param replayed: Query -> batches that are executed again with their own boundaries.
    :param files: Number of files to copy, including the application's files; ``None`` while unknown.
    :param bytes: Their total size.
    :param verdict: Verdict of the restore plan; ``None`` without a plan.
    :param run: Number of the run at the new place; ``None`` before the run exists.
    """

    job_id: str
    origin: str
    destination: str
    place: str
    state: Literal["planned", "moved", "abandoned"]
    move_id: str | None = None
    steps: tuple[str, ...] = ()
    source: str | None = None
    cut: Mapping[str, int] = field(default_factory=dict)
    replayed: Mapping[str, int] = field(default_factory=dict)
    files: int | None = None
    bytes: int | None = None
    verdict: Verdict | None = None
    run: int | None = None
