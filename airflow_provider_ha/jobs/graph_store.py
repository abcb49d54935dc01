"""Job graphs: the blob in storage, and the pointer that says that the job has to be recovered.

Invariant: the pointer exists if and only if a new leader has to recover the job, and whoever sees it can read the blob
(contract 2: blob first, pointer second). A graph names its files by digest, so a run is restarted from the bytes that
were submitted, whatever became of the script and the DAG file since.
"""

from __future__ import annotations

from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Op, SetData
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.model import Blob, GraphPointer, JobGraph
from airflow_provider_ha.jobs.runs import decode
from airflow_provider_ha.storage.blobs import get_blob, put_blob
from airflow_provider_ha.storage.store import ObjectStore


class JobGraphStore:
    """Graphs of one job. Owns nothing; safe in any thread."""

    def __init__(self, coordinator: Coordinator, store: ObjectStore, paths: JobPaths) -> None:
        self._coordinator = coordinator
        self._store = store
        self._paths = paths

    def write_graph(self, graph: JobGraph) -> Blob:
        """Put a graph into storage; equal graphs are one blob.

        :raises StorageError: It could not be written.
        """
        sha256, size = put_blob(self._store, graph.to_bytes())
        return Blob(sha256=sha256, size=size)

    def read_graph(self, blob: Blob) -> JobGraph:
        """Return a graph.

        :raises ObjectMissingError: It is not there.
        :raises RecordCorruptError: It is not what was written.
        :raises StorageUnavailableError: It could not be read.
        """
        return JobGraph.from_bytes(get_blob(self._store, blob.sha256), source=f"job graph {blob.sha256}")

    def pointer(self) -> GraphPointer | None:
        """Return the pointer; ``None`` when there is nothing to recover."""
        return decode(self._coordinator.find(self._paths.job_graph), GraphPointer)

    def pointer_op(self, pointer: GraphPointer) -> Op:
        """Return the write that makes *pointer* the current one.

        The pointer of an earlier run is replaced: its result was seen before a newer run could be made. The version
        guards what was read here.

        :raises JobStateError: A newer run, or another graph of the same run, has the pointer already.
        """
        node = self._coordinator.find(self._paths.job_graph)
        if node is None:
            return Create(self._paths.job_graph, pointer.to_bytes())
        current = GraphPointer.from_bytes(node.data, source=node.path)
        if current.run >= pointer.run and current != pointer:
            raise JobStateError(
                f"job {self._paths.job_id!r} has the graph of run {current.run}, not of run {pointer.run}",
                next_step="Look at the newest run: another submission was faster",
            )
        return SetData(node.path, pointer.to_bytes(), node.version)

    def remove_op(self, run: int) -> Delete | None:
        """Return the removal of the pointer of *run*; ``None`` when there is none, or when a newer run has it.

        Belongs into one transaction with the run's result: a pointer that outlives its run resurrects it (FLINK-10011).
        """
        node = self._coordinator.find(self._paths.job_graph)
        if node is None or GraphPointer.from_bytes(node.data, source=node.path).run > run:
            return None
        return Delete(node.path, node.version)
