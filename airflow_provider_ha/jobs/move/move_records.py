"""Request, result and records of a job move.

Invariants:

- No run is made at the old place while ``moved`` is there, and it is made only when the job has no live run. So of all
  clusters one at most has a live run of the job.
- ``arriving`` is made before ``moved``, and never again for the same move. The transaction that makes the run at the
  new place removes it: a move that was abandoned, which removes it too, makes no run any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal

from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Node
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.records import Record


class MoveRecord(Record):
    """``moved``: the job is on its way to another cluster, or there.

    :param move_id: Of the move; the request id of its run there.
    :param cluster: Which cluster, as :func:`cluster_name` names it.
    :param place: Its work root with the cluster id.
    :param run: Number of its run there; ``None`` while it is on its way.
    :param by: Who moves it.
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
        """Where the job has gone, for people: what follows the name of the job."""
        where = f"to cluster {self.cluster} ({self.place})"
        return f"is being moved {where}" if self.run is None else f"was moved {where} on {self.at:%Y-%m-%d}"


class ArrivalRecord(Record):
    """``arriving``: the job comes here.

    :param move_id: Of the move.
    :param cluster: Where it comes from.
    :param by: Who moves it.
    """

    kind: ClassVar[str] = "arrival"

    move_id: str
    cluster: str
    by: str
    at: datetime


def cluster_name(config: HaConfig) -> str:
    """Return what tells clusters apart: hosts of ZooKeeper in their order, and the node below which it keeps jobs."""
    hosts = ",".join(sorted(config.zookeeper.split(",")))
    return f"{hosts}{config.chroot or ''}/{config.root}/{config.cluster_id}"


def read_moved(coordinator: Coordinator, paths: JobPaths) -> tuple[MoveRecord, Node] | None:
    """Return where the job has gone; ``None`` when it has not.

    :raises RecordCorruptError: The node cannot be read.
    """
    node = coordinator.find(paths.moved)
    return None if node is None else (MoveRecord.from_bytes(node.data, source=node.path), node)


def read_arrival(coordinator: Coordinator, paths: JobPaths) -> tuple[ArrivalRecord, Node] | None:
    """Return which move brings the job here; ``None`` when none does.

    :raises RecordCorruptError: The node cannot be read.
    """
    node = coordinator.find(paths.arriving)
    return None if node is None else (ArrivalRecord.from_bytes(node.data, source=node.path), node)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRequest:
    """Move a job to another cluster, and with it to the store where that one works.

    :param requested_by: The requester, as recorded for people.
    :param stop: Whether a job that runs is stopped with a checkpoint; else it is refused.
    :param wait: Seconds to wait for the end of its run.
    :param conf: Spark conf that the job needs at its new place, on top of what it has; an empty value removes a key.
    :param packages: In place of the graph's ``packages``; ``None`` keeps them.
    :param master: In place of the graph's Spark master; ``None`` keeps it.
    :param accept_verdicts: Verdicts that are accepted for what the job goes on from.
    :param accept_unverified: Queries for which unverified facts are accepted; judged as LOSS_POSSIBLE.
    :param kafka_bootstrap: Query -> ``host:port,host:port`` of the brokers that it reads from, as for a restore.
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
    """A move, planned or done.

    :param origin: The old cluster.
    :param destination: The new cluster.
    :param place: Where the job works there: work root with the cluster id.
    :param state: ``"planned"``: nothing was changed; ``"moved"``: the job has its run at the new place;
        ``"abandoned"``: it may be started at its old place again.
    :param steps: Remaining steps, in order; empty after the move.
    :param source: What it goes on from: ``savepoint-<id>`` or ``checkpoint-<n>``; ``None`` while that is not known.
    :param cut: Query -> last batch that is brought along.
    :param replayed: Query -> batches that are executed again with their own boundaries.
    :param files: How many files are copied; ``None`` while that is not known.
    :param bytes: How many bytes they have.
    :param verdict: Of the restore plan.
    :param run: Number of the run at the new place.
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
