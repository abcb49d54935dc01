"""Job graphs: the blob in storage, and the pointer that marks the job for recovery.

Invariant: the pointer exists if and only if a new leader has to recover the job, and a reader that sees it can read the
blob (contract 2: blob first, pointer second). A graph names its files by digest, so a run restarts from the submitted
bytes, even if the script or the DAG file has changed since.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.store.pointer_scan import Commit, ScannedPointer
from airflow_provider_ha.checkpoints.store.pointer_store import PointerStore
from airflow_provider_ha.coordination.coordinator import ANY_VERSION, Coordinator, Create, Delete, Op, SetData
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.job_graph import Blob, GraphPointer, JobGraph
from airflow_provider_ha.storage.blobs import get_blob, put_blob
from airflow_provider_ha.storage.object_store import ObjectStore


_BY_KEY = ("conf", "env", "options")


class JobGraphStore:
    """A job's graphs. Owns nothing; safe in any thread."""

    def __init__(self, coordinator: Coordinator, store: ObjectStore, paths: JobPaths) -> None:
        self._coordinator = coordinator
        self._store = store
        self._paths = paths
        # Payloads have no owner: equal graphs share a blob, and the scanner of orphans removes unreferenced blobs.
        self._pointers = PointerStore(coordinator, paths.base, GraphPointer)

    def write_graph(self, graph: JobGraph) -> Blob:
        """Write a graph to storage; equal graphs share a blob.

        :raises StorageError: The graph could not be written.
        """
        sha256, size = put_blob(self._store, graph.to_bytes())
        return Blob(sha256=sha256, size=size)

    def read_graph(self, blob: Blob) -> JobGraph:
        """Return a graph.

        :raises ObjectMissingError: The graph is missing.
        :raises RecordCorruptError: The graph is damaged.
        :raises StorageUnavailableError: The graph could not be read.
        """
        return JobGraph.from_bytes(get_blob(self._store, blob.sha256), source=f"job graph {blob.sha256}")

    def pointer(self) -> GraphPointer | None:
        """Return the pointer; ``None`` if the job needs no recovery."""
        found = self._find()
        return None if found is None else found.record

    def recover(self) -> tuple[GraphPointer, JobGraph] | None:
        """Return the pointer and its graph; ``None`` if the job needs no recovery.

        :raises RecordCorruptError: The pointer or the graph is damaged.
        :raises ObjectMissingError: The graph is missing.
        :raises StorageUnavailableError: The graph could not be read, so its state is unknown.
        """
        pointer = self.pointer()
        return None if pointer is None else (pointer, self.read_graph(pointer.graph))  # guard: broken-graph-is-absent

    def pointer_op(self, pointer: GraphPointer) -> Op:
        """Return the write that makes *pointer* the current one.

        The pointer of an earlier run is replaced, because a newer run is created only after that run's result. The
        version guards the state that was read here.

        :raises JobStateError: The pointer already refers to a newer run, or to another graph of the same run.
        """
        node = self._coordinator.find(self._paths.job_graph)
        if node is None:
            return Create(self._paths.job_graph, pointer.to_bytes())
        current = GraphPointer.from_bytes(node.data, source=node.path)
        if (current.run, current.graph) == (pointer.run, pointer.graph):
            return SetData(node.path, node.data, node.version)  # a submission may have updated it
        if current.run >= pointer.run:  # guard: graph-of-a-newer-run-is-overwritten
            raise JobStateError(
                f"job {self._paths.job_id!r} has the graph of run {current.run}, not of run {pointer.run}",
                next_step="Look at the newest run: another submission was faster",
            )
        return SetData(node.path, pointer.to_bytes(), node.version)

    def remove_op(self, run: int, *, alone: bool = False) -> Delete | None:
        """Return the removal of the pointer of *run*; ``None`` if it is missing, or refers to a newer run.

        Commit it in the transaction of the run's result: a pointer that outlives its run resurrects it (FLINK-10011).
        That transaction needs no version: a newer run exists only after a result, and only one result is written. A
        claim by another attempt, which also writes the pointer, must not keep a run from ending.

        :param alone: Whether the removal is committed without a result: then a newer run may have taken the pointer.
        """
        node = self._coordinator.find(self._paths.job_graph)
        # guard: newer-run-loses-its-graph
        if node is None or GraphPointer.from_bytes(node.data, source=node.path).run > run:
            return None
        return Delete(node.path, node.version if alone else ANY_VERSION)

    def remove(self, commit: Commit, run: int) -> None:
        """Remove the pointer of *run*. After the return, the run cannot be recovered any longer; failures are errors.

        A leader that ends a run uses :meth:`remove_op` instead. Graphs whose removal had failed silently have brought
        old jobs back weeks later (FLINK-10011, FLINK-10329).

        :param commit: ``leadership.commit`` of the job.
        :raises JobStateError: The pointer refers to another run.
        :raises RecordCorruptError: The pointer cannot be read, so its run is unknown.
        :raises CoordinationError: The removal failed, or its outcome is unknown; it must be repeated.
        """
        found = self._find()
        if found is None:
            return
        if found.record.run != run:  # guard: removal-of-another-runs-graph
            raise JobStateError(
                f"job {self._paths.job_id!r} has the graph of run {found.record.run}, not of run {run}",
                next_step="Look at the newest run",
            )
        self._pointers.remove(commit, found)

    def _find(self) -> ScannedPointer[GraphPointer] | None:
        return self._pointers.find(self._paths.job_graph.rpartition("/")[2])  # guard: graph-reader-leaves-a-lock


def differences(before: JobGraph, now: JobGraph) -> tuple[str, ...]:
    """Return the fields in which two graphs differ, without values, which may be secret. Pure."""
    found: list[str] = []
    before, now = _asked_for(before), _asked_for(now)
    for name in JobGraph.model_fields:
        old, new = getattr(before, name), getattr(now, name)
        if old != new and name in _BY_KEY:
            olds, news = _values(old), _values(new)
            found += [f"{name}.{key}" for key in sorted({*olds, *news}) if olds.get(key) != news.get(key)]
        elif old != new:
            found.append(name)
    return tuple(found)


def _asked_for(graph: JobGraph) -> JobGraph:
    # Ignore the connection's options, which describe a cluster. Also ignore attributes of a request: its acceptances,
    # and the task in OpenLineage events, whose run id differs for each try.
    target = graph.target.model_copy(update={"cluster_options": {}})
    options = graph.options.model_copy(update={"accept_duplicates": False})
    return graph.model_copy(
        update={
            "target": target,
            "options": options,
            "lineage": {},
            "beside": (),
        }
    )


def _values(field: object) -> dict[str, object]:
    return dict(field) if isinstance(field, dict) else dict(getattr(field, "__dict__", {}))
