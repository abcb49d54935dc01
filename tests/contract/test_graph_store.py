"""The pointer to a job graph: it exists if and only if a new leader has to recover the job."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Op, SetData
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import (
    JobStateError,
    ObjectMissingError,
    OutcomeUnknownError,
    RecordCorruptError,
    VersionConflictError,
)
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, GraphPointer, JobGraph
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.local_store import LocalStore
from tests.support.clusters.jobs_helpers import BLOB


BACKENDS = ("fake", "zookeeper")


OTHER = Blob(sha256="1" * 64, size=1)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture
def graphs(coordinator: Coordinator, store: LocalStore, paths: JobPaths) -> JobGraphStore:
    create_job(coordinator, paths)
    return JobGraphStore(coordinator, store, paths)


def test_a_graph_is_read_back_and_equal_graphs_are_one_blob(graphs: JobGraphStore) -> None:
    graph = JobGraph(job_id="flights", name="flights", application=Artifact(name="app.py", blob=BLOB), conf={"a": "b"})

    blob = graphs.write_graph(graph)

    assert graphs.read_graph(blob) == graph
    assert graphs.write_graph(graph) == blob


def test_a_graph_that_is_damaged_or_gone_is_an_error(graphs: JobGraphStore, store: LocalStore) -> None:
    blob = graphs.write_graph(JobGraph(job_id="f", name="f", application=Artifact(name="app.py", blob=BLOB)))

    store.write(keys.blob(blob.sha256), b"{}")
    with pytest.raises(RecordCorruptError, match=blob.sha256):
        graphs.read_graph(blob)

    store.delete(keys.blob(blob.sha256))
    with pytest.raises(ObjectMissingError, match=blob.sha256):
        graphs.read_graph(blob)


def test_a_newer_run_replaces_the_pointer_and_an_older_one_cannot(
    coordinator: Coordinator, graphs: JobGraphStore
) -> None:
    coordinator.commit(graphs.pointer_op(GraphPointer(graph=BLOB, run=1)))
    coordinator.commit(graphs.pointer_op(GraphPointer(graph=OTHER, run=2)))

    assert graphs.pointer() == GraphPointer(graph=OTHER, run=2)
    with pytest.raises(JobStateError, match="run 2"):
        graphs.pointer_op(GraphPointer(graph=BLOB, run=1))
    with pytest.raises(JobStateError, match="run 2"):
        graphs.pointer_op(GraphPointer(graph=BLOB, run=2))


def test_a_pointer_that_changed_since_it_was_read_is_not_overwritten(
    coordinator: Coordinator, graphs: JobGraphStore
) -> None:
    coordinator.commit(graphs.pointer_op(GraphPointer(graph=BLOB, run=1)))
    late = graphs.pointer_op(GraphPointer(graph=BLOB, run=2))
    coordinator.commit(graphs.pointer_op(GraphPointer(graph=OTHER, run=3)))

    with pytest.raises(VersionConflictError):
        coordinator.commit(late)


def test_a_run_removes_its_own_pointer_and_never_that_of_a_newer_run(
    coordinator: Coordinator, graphs: JobGraphStore
) -> None:
    coordinator.commit(graphs.pointer_op(GraphPointer(graph=BLOB, run=2)))

    assert graphs.remove_op(1) is None
    removal = graphs.remove_op(2)
    assert removal is not None
    coordinator.commit(removal)
    assert graphs.pointer() is None
    assert graphs.remove_op(2) is None


@pytest.mark.parametrize("alone", [False, True])
def test_a_claim_since_the_look_lets_a_run_end_and_keeps_the_pointer_from_a_removal_without_a_result(
    coordinator: Coordinator, graphs: JobGraphStore, alone: bool
) -> None:
    coordinator.commit(graphs.pointer_op(GraphPointer(graph=BLOB, run=2)))
    removal = graphs.remove_op(2, alone=alone)
    assert removal is not None
    coordinator.commit(SetData(removal.path, GraphPointer(graph=BLOB, run=2, attempt=3).to_bytes()))

    with pytest.raises(VersionConflictError) if alone else nullcontext():
        coordinator.commit(removal)

    assert (graphs.pointer() is None) is not alone


@pytest.mark.flink(
    "DefaultExecutionPlanStoreTest#testGlobalCleanupFailsIfRemovalReturnsFalse",
    entry=27,
    mutant="removal-of-unknown-outcome-is-silent",
)
def test_removal_by_itself_says_when_it_did_not_happen(coordinator: Coordinator, graphs: JobGraphStore) -> None:
    """A graph that could not be removed is an error, and not silence.

    Flink: DefaultExecutionPlanStoreTest#testGlobalCleanupFailsIfRemovalReturnsFalse [27].
    [J3, FLINK-10329] Silence here brought a finished job back to life, weeks later.
    """
    coordinator.commit(graphs.pointer_op(GraphPointer(graph=BLOB, run=2)))

    def unanswered(*ops: Op) -> list[int]:
        raise OutcomeUnknownError("no answer came")

    with pytest.raises(OutcomeUnknownError):
        graphs.remove(unanswered, 2)
    with pytest.raises(JobStateError, match="graph of run 2"):
        graphs.remove(coordinator.commit, 1)
    assert graphs.pointer() is not None
    graphs.remove(coordinator.commit, 2)
    assert graphs.pointer() is None
    graphs.remove(coordinator.commit, 2)


def test_a_pointer_that_cannot_be_read_is_not_removed_blindly(
    coordinator: Coordinator, graphs: JobGraphStore, paths: JobPaths
) -> None:
    coordinator.commit(Create(paths.job_graph, b"garbage"))

    with pytest.raises(RecordCorruptError, match=paths.job_graph):
        graphs.remove(coordinator.commit, 1)


def test_recovery_finds_the_graph_or_nothing_or_says_what_is_broken(
    coordinator: Coordinator, graphs: JobGraphStore, store: LocalStore
) -> None:
    """[J2] A graph that is broken is an error, and not an absent one."""
    assert graphs.recover() is None
    graph = JobGraph(job_id="flights", name="flights", application=Artifact(name="app.py", blob=BLOB))
    pointer = GraphPointer(graph=graphs.write_graph(graph), run=1)
    coordinator.commit(graphs.pointer_op(pointer))

    assert graphs.recover() == (pointer, graph)
    store.write(keys.blob(pointer.graph.sha256), b"{}")
    with pytest.raises(RecordCorruptError):
        graphs.recover()
