"""Claims of jobs on output directories.

Spark's file sink identifies batches by number alone, so two writers of a directory would each skip the other's batches.
An output belongs to the run that claimed it last, until that run has a result. Places are compared in normal form; an
output inside another output is not detected.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from typing import ClassVar

from airflow_provider_ha.checkpoints.store.pointer_scan import Commit
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Node, Reads, SetData
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import (
    ApplicationRefusedError,
    NodeExistsError,
    NodeMissingError,
    OutcomeUnknownError,
    RecordCorruptError,
    VersionConflictError,
)
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.records import Record


log = logging.getLogger(__name__)
_ATTEMPTS = 5
_AT_ONCE = 100


class OutputClaim(Record):
    """``resource_manager_lock/outputs/<sha256 of the place>``: the writer of an output.

    :param place: The output in normal form.
    :param query: The query that writes there.
    """

    kind: ClassVar[str] = "output-claim"

    place: str
    job_id: str
    run: int
    query: str


class OutputClaims:
    """The output claims of a job's run.

    :param commit: ``commit`` of the job's leadership, so that a former leader cannot take an output.
    """

    def __init__(self, coordinator: Coordinator, paths: JobPaths, commit: Commit, run: int) -> None:
        self._coordinator = coordinator
        self._paths = paths
        self._commit = commit
        self._run = run

    def claim(self, place: str, query: str) -> None:
        """Record that a query of the run writes to *place*; repeatable.

        :raises ApplicationRefusedError: A run of another job writes there and has no result yet.
        :raises RecordCorruptError: The owner's claim cannot be read.
        :raises CoordinationError: The claim failed, or its outcome is unknown: the query must not be started.
        """
        cluster = self._paths.cluster
        wanted = OutputClaim(place=place, job_id=self._paths.job_id, run=self._run, query=query)
        path = cluster.output(hashlib.sha256(place.encode()).hexdigest())
        self._coordinator.ensure(cluster.outputs)
        for attempt in range(1, _ATTEMPTS + 1):
            node = self._coordinator.find(path)
            if node is not None and node.data == wanted.to_bytes():
                return
            self._check(node, wanted)
            try:
                self._commit(_op(path, node, wanted))
            except (NodeExistsError, NodeMissingError, VersionConflictError, OutcomeUnknownError) as error:
                # Another job was faster, or the response was lost: read the claim again.
                log.info("the claim of %s is read again: %s", place, error.message)
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    def _check(self, node: Node | None, wanted: OutputClaim) -> None:
        if node is None:
            return
        found = OutputClaim.from_bytes(node.data, source=node.path)
        if found.job_id == wanted.job_id:
            return
        runs = RunStore(self._coordinator, self._paths.cluster.job(found.job_id))
        # guard: outputs-of-two-jobs
        if found.run in runs.numbers() and runs.result(found.run) is None:
            raise ApplicationRefusedError(
                f"query {wanted.query!r} writes to {wanted.place}, and so does query {found.query!r} of job "
                f"{found.job_id!r}, whose run {found.run} is not over: each would skip the other's batches",
                next_step=f"Write to another output, or end the other job first: `spark-ha job stop {found.job_id}`",
            )


def _op(path: str, node: Node | None, claim: OutputClaim) -> Create | SetData:
    # guard: claims-are-taken-by-who-is-slower
    return Create(path, claim.to_bytes()) if node is None else SetData(path, claim.to_bytes(), node.version)


def clear_claims(coordinator: Coordinator, paths: JobPaths, commit: Commit) -> Iterator[None]:
    """Remove the output claims of the job's ended runs; yield after each transaction.

    A claim protects an output only while its run is live. Without this removal, a job that writes to a new directory
    each day would leave a node each day.

    :param commit: ``leadership.commit`` of the job.
    :raises LeadershipError: This process may no longer write for the job.
    """
    found = ended_claims(coordinator, paths)
    for start in range(0, len(found), _AT_ONCE):
        part = found[start : start + _AT_ONCE]
        try:
            commit(*(Delete(node.path, node.version) for node in part))
        except (NodeMissingError, VersionConflictError) as error:
            log.info("some output claims stay, because one has just changed: %s", error.message)
        yield


def ended_claims(coordinator: Coordinator, paths: JobPaths) -> list[Node]:
    """Return the nodes of the output claims of the job's ended runs."""
    own = own_claims(coordinator, paths)
    if not own:
        return []
    runs = RunStore(coordinator, paths)
    numbers, results = runs.numbers(), runs.results()
    return [node for node, run in own if run in results or (numbers and run < numbers[-1] and run not in numbers)]


def own_claims(coordinator: Coordinator, paths: JobPaths) -> list[tuple[Node, int]]:
    """Return the nodes of the job's output claims, each with its run; unreadable claims are left out."""
    parent = paths.cluster.outputs
    nodes = [f"{parent}/{name}" for name in coordinator.children(parent)]
    own = []
    for start in range(0, len(nodes), _AT_ONCE):
        for node in coordinator.read(Reads(tuple(nodes[start : start + _AT_ONCE]))).nodes.values():
            if node is not None and (claim := _claim(node)) is not None and claim.job_id == paths.job_id:
                own.append((node, claim.run))  # noqa: PERF401  # two loops
    return own


def _claim(node: Node) -> OutputClaim | None:
    try:
        return OutputClaim.from_bytes(node.data, source=node.path)
    except RecordCorruptError:
        return None  # unknown owner
