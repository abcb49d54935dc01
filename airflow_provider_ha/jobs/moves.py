"""The move of a job to another cluster: what its old place and its new place know of it.

Invariants:

- No run is made at the old place while ``moved`` is there, and it is made only when the job has no live run. So of all
  clusters one at most has a live run of the job.
- ``arriving`` is made before ``moved``, and never again for the same move. The transaction that makes the run at the
  new place removes it: a move that was abandoned, which removes it too, makes no run any more.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.records import Record


class Moved(Record):
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


class Arrival(Record):
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


def read_moved(coordinator: Coordinator, paths: JobPaths) -> tuple[Moved, Node] | None:
    """Return where the job has gone; ``None`` when it has not.

    :raises RecordCorruptError: The node cannot be read.
    """
    node = coordinator.find(paths.moved)
    return None if node is None else (Moved.from_bytes(node.data, source=node.path), node)


def read_arrival(coordinator: Coordinator, paths: JobPaths) -> tuple[Arrival, Node] | None:
    """Return which move brings the job here; ``None`` when none does.

    :raises RecordCorruptError: The node cannot be read.
    """
    node = coordinator.find(paths.arriving)
    return None if node is None else (Arrival.from_bytes(node.data, source=node.path), node)
