"""Reports when a job graph begins or ceases to be persisted, in any job of a cluster.

Invariants (J5): only unknown graphs are added and only known ones are removed, so a listener gets no report of changes
that it made itself, and a repeated event reports nothing twice. After :meth:`GraphWatcher.stop` there are no reports. A
graph that cannot be read is reported as well. A watch is a dirty bit: a report rests on a read, and a slow poll finds
what a lost watch missed. A connection that breaks fires every watch, and the read that follows waits for the next
connection and arms them again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.node_names import is_job, ours
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import ConfigurationError, CoordinationError, RecordCorruptError
from airflow_provider_ha.jobs.model import GraphPointer


log = logging.getLogger(__name__)

POLL_SECONDS = 30.0
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class GraphListener:
    """Receives the reports, always from one thread. An error that a callback raises is logged; the report is repeated.

    :param added: Job id and pointer of a graph that was not known. A newer run's graph is another graph.
    :param removed: Job id, of a known graph that is gone.
    :param unreadable: Job id and reason: there is a pointer that cannot be read. Reported once per change of it.
    """

    added: Callable[[str, GraphPointer], None]
    removed: Callable[[str], None]
    unreadable: Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class _Mark:
    """A watch of one job. Equal for equal jobs, so that arming it again does not pile up in kazoo's registry."""

    watcher: GraphWatcher
    job_id: str

    def __call__(self) -> None:
        self.watcher.changed(self.job_id)


class GraphWatcher:
    """Watches the graphs of one cluster, in its own thread.

    :param known: Job id -> run of the graphs that the listener knows already.
    :param poll_seconds: How often everything is read again, also when no watch fires.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        cluster: ClusterPaths,
        listener: GraphListener,
        *,
        known: Mapping[str, int] | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._coordinator = coordinator
        self._cluster = cluster
        self._listener = listener
        self._poll_seconds = poll_seconds
        self._known = dict(known or {})
        self._expected: dict[str, int] = {}
        self._reported: dict[str, int] = {}
        self._watched: set[str] = set()
        self._dirty: set[str] = set()
        self._list_again = True
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="graph-watcher", daemon=True)

    def start(self) -> None:
        """Begin to watch. The first reports are of what is persisted now and not known."""
        self._thread.start()

    def stop(self) -> None:
        """End: when this returns, there are no more reports. Idempotent; may be called by the listener."""
        self._stopped.set()
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def know(self, job_id: str, run: int) -> None:
        """Note that the listener knows this graph, which is persisted: it recovers it, for example."""
        with self._lock:
            self._known[job_id] = run

    def expect(self, job_id: str, run: int) -> None:
        """Note that the listener is about to persist this graph: neither it nor its absence until then is reported."""
        with self._lock:
            self._expected[job_id] = run

    def forget(self, job_id: str) -> None:
        """Note that the listener needs no reports of the job's graph any more: it removes it itself."""
        with self._lock:
            self._known.pop(job_id, None)
            self._expected.pop(job_id, None)

    def changed(self, job_id: str | None = None) -> None:
        """Have a job, or all of them, looked at again. Does not block: watches call it."""
        with self._lock:
            if job_id is None:
                self._list_again = True
                self._dirty |= self._watched
            else:
                self._dirty.add(job_id)
        self._wake.set()

    def look(self) -> None:
        """Read what may have changed and report what did.

        :raises CoordinationError: ZooKeeper could not be read; what was not read stays to be read.
        """
        with self._lock:
            list_again, self._list_again = self._list_again, False
            jobs, self._dirty = self._dirty, set()
        try:
            if list_again:
                jobs |= self._list()
            for job_id in sorted(jobs):
                self._look_at(job_id)
                jobs.discard(job_id)
        finally:
            with self._lock:
                self._dirty |= jobs

    def _run(self) -> None:
        while not self._stopped.is_set():
            pause = self._poll_seconds
            self._wake.clear()
            try:
                self.look()
            except CoordinationError as error:
                log.warning("job graphs could not be watched: %s", error)
                pause = _RETRY_SECONDS
            if not self._wake.wait(pause):
                self.changed()

    def _list(self) -> set[str]:
        """Return the jobs that have no watch yet, and those that are gone."""
        try:
            names = self._coordinator.children(self._cluster.base, watch=self._list_changed)
        except CoordinationError:
            with self._lock:
                self._list_again = True
            raise
        there = set(ours(names, is_job, parent=self._cluster.base))
        with self._lock:
            different = there ^ self._watched
            self._watched = there
        return different

    def _arrived(self, job_id: str, run: int) -> int | None:
        """Return *run* when the listener was about to persist it; from now on it knows it."""
        with self._lock:
            if self._expected.get(job_id) != run:
                return None
            self._known[job_id] = self._expected.pop(job_id)
            return run

    def _list_changed(self) -> None:
        with self._lock:
            self._list_again = True
        self._wake.set()

    def _look_at(self, job_id: str) -> None:
        try:
            path = self._cluster.job(job_id).job_graph
        except ConfigurationError as error:
            log.warning("%s is not a job: %s", job_id, error.message)
            return
        node = self._coordinator.find(path, watch=_Mark(self, job_id))
        try:
            self._judge(job_id, node)
        except Exception:  # the other jobs are still reported, and this one again with the next poll
            log.exception("the listener failed at the graph of job %s", job_id)

    def _judge(self, job_id: str, node: Node | None) -> None:
        with self._lock:
            known = self._known.get(job_id)
        if self._stopped.is_set():  # guard: watcher-tells-after-its-stop
            return
        if node is None:
            if known is not None:
                self._tell_removed(job_id)
            return
        try:
            pointer = GraphPointer.from_bytes(node.data, source=f"znode {node.path}")
        except RecordCorruptError as error:
            if self._reported.get(job_id) != node.modified_zxid:
                self._listener.unreadable(job_id, error.message)
                self._reported[job_id] = node.modified_zxid
            return
        if pointer.run in (known, self._arrived(job_id, pointer.run)):
            return
        if known is not None:
            self._tell_removed(job_id)
        if not self._stopped.is_set():
            self._listener.added(job_id, pointer)
            self.know(job_id, pointer.run)

    def _tell_removed(self, job_id: str) -> None:
        self._listener.removed(job_id)
        with self._lock:
            self._known.pop(job_id, None)
