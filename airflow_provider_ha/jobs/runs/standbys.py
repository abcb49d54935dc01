"""Standby drivers of a run: their records, and how they join.

A standby driver is no submission: states, limits and delays of a job ignore it. Its node is ephemeral, so that it ends
with its process, and nothing remains to be removed. The transaction that promotes it removes the node and creates the
submission that it becomes (``jobs.recovery.transactions``).

One that waits in the queue of a cluster has no process yet. Its node is persistent until its process replaces it, so
that the request is not repeated while it waits.

Invariant: a run never has more standby drivers than its job requests. Each one joins in a transaction that checks the
version of their parent, which it raises.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from enum import Enum
from typing import ClassVar

from airflow_provider_ha.coordination.coordinator import (
    Check,
    Coordinator,
    Create,
    Delete,
    ReadResponse,
    Reads,
    SetData,
)
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import NodeExistsError, NodeMissingError, RecordCorruptError, VersionConflictError
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.runs.run_store import decode
from airflow_provider_ha.jobs.runs.submissions import DriverHandle
from airflow_provider_ha.records import Record


TURN_SECONDS = 2.0  # that a ready standby driver has before others claim a loss: a promotion takes less than one


class StandbyLevel(str, Enum):
    """What a standby driver has done in advance.

    ``REQUESTED``: it waits in the queue of a cluster, or its supervisor waits for memory. ``CONNECTED``: its Python has
    a session of ZooKeeper, and waits for Spark, or for an executor. ``SESSION``: a Spark session exists, and has
    executed batches of queries that belong to this package.
    """

    REQUESTED = "requested"
    CONNECTED = "connected"
    SESSION = "session"


class Standby(Record):
    """``runs/<n>/standbys/<id>``: a living standby driver.

    :param since: When it reached the level.
    :param host: Empty while it waits in the queue of a cluster.
    :param pid: Process id of its Python; of its supervisor while that waits for memory; 0 without a process.
    :param log: Location of its log on its host.
    :param memory: Bytes of its Python and its JVM 20 s after it reached the level, and until then at that moment, as
        the host counts them: a page that processes share counts in part (PSS). 0 before that.
    :param warmed_up_at: When its JVM had executed batches; ``None`` for one that has not.
    :param note: What keeps it from a higher level, or makes its takeover slower; empty for nothing.
    :param limited: Whether the conf of the job allows no higher level: nothing is missing.
    :param queued: The engine's handle of one that waits in the queue of a cluster; ``None`` once it has a process.
    """

    kind: ClassVar[str] = "standby"

    standby_id: str
    level: StandbyLevel
    since: datetime
    host: str
    pid: int
    log: str = ""
    memory: int = 0
    warmed_up_at: datetime | None = None
    note: str = ""
    limited: bool = False
    queued: DriverHandle | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it has done everything in advance that the job allows."""
        return self.level is StandbyLevel.SESSION or self.limited


class StandbyStore:
    """Reads and writes the standby drivers of a run. Owns nothing.

    :param run: Number of the run.
    """

    def __init__(self, coordinator: Coordinator, paths: JobPaths, run: int) -> None:
        self._coordinator = coordinator
        self._paths = paths
        self._run = run

    def living(self) -> tuple[Standby, ...]:
        """Return the living standby drivers, in the order of their ids. Unreadable records are left out."""
        paths = tuple(self._paths.standby(self._run, each) for each in self.ids())
        return standbys_in(self._coordinator.read(Reads(paths)))

    def ids(self) -> list[str]:
        """Return the ids of the living standby drivers."""
        return self._coordinator.children(self._paths.standbys(self._run))

    def is_ready(self) -> bool:
        """Return whether one of them is ready."""
        return any(standby.is_ready for standby in self.living())

    def joined(self) -> int:
        """Return the number of those that have a process."""
        return sum(standby.queued is None for standby in self.living())

    def join(self, standby: Standby, most: int) -> bool:
        """Create the node of a standby driver; ``False`` if the run has as many as it may have, or is over.

        The node of one with a process replaces the node that it had in the queue of a cluster.

        :param most: Number of standby drivers that the job requests.
        :raises OutcomeUnknownError: The node may exist: call again.
        """
        parent, own = self._paths.standbys(self._run), self._paths.standby(self._run, standby.standby_id)
        pointer = self._coordinator.find(self._paths.job_graph)
        graph = decode(pointer, GraphPointer)
        if pointer is None or graph is None or graph.run != self._run:
            return False
        is_live = Check(pointer.path, pointer.version)
        node = self._coordinator.find(parent)
        try:
            if node is None:
                self._coordinator.commit(is_live, Create(parent))
                node = self._coordinator.get(parent)
            others = [name for name in self._coordinator.children(parent) if name != standby.standby_id]
            if len(others) >= most:  # guard: more-standbys-than-requested
                return False
            joins = Create(own, standby.to_bytes(), ephemeral=standby.queued is None)
            left = () if standby.queued is not None else self._leave_queue_ops(standby.standby_id)
            self._coordinator.commit(is_live, SetData(parent, b"", node.version), *left, joins)
        except NodeExistsError as error:
            return error.path == own
        except (NodeMissingError, VersionConflictError):  # the run has ended, or another one has joined
            return False
        return True

    def drop(self, standby: Standby) -> None:
        """Remove the node of a standby driver that waited in the queue of a cluster, unless its process has joined."""
        if ops := self._leave_queue_ops(standby.standby_id):
            with suppress(NodeMissingError, VersionConflictError):
                self._coordinator.commit(*ops)

    def _leave_queue_ops(self, standby_id: str) -> tuple[Delete, ...]:
        """Return the removal of the node that a standby driver has in the queue of a cluster; nothing without one."""
        node = self._coordinator.find(self._paths.standby(self._run, standby_id))
        found = decode(node, Standby)
        return () if node is None or found is None or found.queued is None else (Delete(node.path, node.version),)

    def update(self, standby: Standby) -> None:
        """Replace the record of a standby driver.

        :raises NodeMissingError: Its session has ended.
        """
        self._coordinator.commit(SetData(self._paths.standby(self._run, standby.standby_id), standby.to_bytes()))

    def leave_op(self, standby_id: str) -> Delete:
        """Return the removal of a standby driver, for the transaction that promotes it.

        It fails if the session of the standby driver has ended.
        """
        return Delete(self._paths.standby(self._run, standby_id))


def standbys_in(seen: ReadResponse) -> tuple[Standby, ...]:
    """Return the readable standby drivers of a response."""
    found = []
    for node in seen.nodes.values():
        try:
            if (standby := decode(node, Standby)) is not None:
                found.append(standby)
        except RecordCorruptError:  # noqa: PERF203  # one bad record hides no other
            continue
    return tuple(found)
