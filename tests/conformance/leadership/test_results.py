"""A run has one result, DIRTY until what it left is cleaned up: the same on the fake and on a real ZooKeeper."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.driver.figures import ReportedTriggers
from airflow_provider_ha.driver.members.run_writer import JobWriter
from airflow_provider_ha.errors import NodeExistsError, NodeMissingError, VersionConflictError
from airflow_provider_ha.fleet.observations import look
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.runs.journal import JobJournal
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open_storage import open_store
from tests.contract.clusters import Cluster
from tests.support.clusters.jobs_helpers import BLOB, a_result, lead, submit


BACKENDS = ("fake", "zookeeper")


@pytest.fixture
def paths(config: HaConfig) -> JobPaths:
    return ClusterPaths(config.root, config.cluster_id).job("flights")


@pytest.fixture
def runs(coordinator: Coordinator, paths: JobPaths) -> RunStore:
    """The results of a job with one run that has none."""
    submit(coordinator, paths)
    return RunStore(coordinator, paths)


def end(coordinator: Coordinator, runs: RunStore, number: int = 1, *, clean: bool = False) -> None:
    coordinator.commit(runs.result_op(number, a_result()))
    if clean:
        mark = runs.clean_op(number)
        assert mark is not None
        coordinator.commit(mark)


@pytest.mark.flink("JobResultStoreContractTest", entry=99)
@pytest.mark.parametrize("clean", [False, True], ids=["dirty", "clean"])
def test_a_run_gets_one_result_and_keeps_it(
    coordinator: Coordinator, runs: RunStore, paths: JobPaths, clean: bool
) -> None:
    """A second result of a run is refused, whether the first one is DIRTY or CLEAN, and nothing of it is changed.

    Flink: JobResultStoreContractTest [99]
    """
    end(coordinator, runs, clean=clean)
    before = coordinator.get(paths.run_result(1))

    with pytest.raises(NodeExistsError):
        coordinator.commit(runs.result_op(1, a_result(JobState.FAILED)))

    assert coordinator.get(paths.run_result(1)) == before


@pytest.mark.flink("JobResultStoreContractTest", entry=99, mutant="results-clean-once")
def test_what_is_clean_is_not_marked_again(coordinator: Coordinator, runs: RunStore, paths: JobPaths) -> None:
    """A result is marked CLEAN once; to mark it again is nothing to do, and no error.

    Flink: JobResultStoreContractTest [99]
    """
    end(coordinator, runs, clean=True)
    before = coordinator.get(paths.run_result(1))

    assert runs.clean_op(1) is None
    assert coordinator.get(paths.run_result(1)) == before
    assert before.version == 1


@pytest.mark.flink("JobResultStoreContractTest", entry=99)
def test_a_run_without_a_result_cannot_be_marked_clean(
    coordinator: Coordinator, runs: RunStore, paths: JobPaths
) -> None:
    """Only what is over is cleaned up: a run without a result, or no run at all, has nothing to mark.

    Flink: JobResultStoreContractTest [99]
    """
    for number in (1, 2):
        with pytest.raises(NodeMissingError):
            runs.clean_op(number)

    assert coordinator.find(paths.run_result(1)) is None


@pytest.mark.flink("JobResultStoreContractTest", entry=99, mutant="results-version-of-clean")
def test_of_two_who_mark_a_result_one_does(coordinator: Coordinator, runs: RunStore, paths: JobPaths) -> None:
    """CLEAN replaces exactly the DIRTY result that was read.

    Flink: JobResultStoreContractTest [99]
    """
    end(coordinator, runs)
    one, other = runs.clean_op(1), runs.clean_op(1)
    assert one is not None
    assert other is not None
    coordinator.commit(one)

    with pytest.raises(VersionConflictError):
        coordinator.commit(other)

    assert coordinator.get(paths.run_result(1)).version == 1


@pytest.mark.flink("JobResultStoreContractTest", entry=99, mutant="results-dirty-listing")
def test_the_dirty_results_are_told_from_the_others(
    config: HaConfig, coordinator: Coordinator, runs: RunStore, paths: JobPaths
) -> None:
    """Who has to clean up finds the DIRTY results and no others, in the order of the runs.

    Flink: JobResultStoreContractTest [99]
    """
    seen = [runs.result(1)]
    end(coordinator, runs, clean=True)
    for number in (2, 3):
        submit(coordinator, paths, number)
        end(coordinator, runs, number)
    seen += [runs.result(number) for number in (1, 2, 3)]

    sight = look(coordinator, open_store(config), paths.cluster, paths.job_id)

    assert [found and (found.state, found.cleanup) for found in seen] == [
        None,
        (JobState.FINISHED, "CLEAN"),
        (JobState.FINISHED, "DIRTY"),
        (JobState.FINISHED, "DIRTY"),
    ]
    assert sight.status.dirty == (2, 3)


def writer(config: HaConfig, session: Coordinator, paths: JobPaths, leadership: Any) -> JobWriter:
    store = open_store(config)
    nothing_started: Any = SimpleNamespace(started=[], resting=[], triggers=ReportedTriggers())
    return JobWriter(
        coordinator=session,
        paths=paths,
        graphs=JobGraphStore(session, store, paths),
        journal=JobJournal(store, JobKeys(paths.job_id)),
        leadership=leadership,
        registry=nothing_started,
        run=1,
        clock=SystemClock(),
    )


@pytest.mark.flink("JobResultStoreContractTest", entry=99, mutant="results-read-back")
def test_a_result_whose_answer_is_lost_is_recognised(config: HaConfig, cluster: Cluster, paths: JobPaths) -> None:
    """A result that was written without an answer is read back: it is this driver's own if it is the same.

    Flink: JobResultStoreContractTest [99]
    Differs: Flink retries the creation, and takes its own entry for a duplicate.
    """
    submit(cluster.fragile, paths)
    cluster.fragile.commit(Create(paths.job_graph, GraphPointer(graph=BLOB, run=1).to_bytes()))
    leadership = lead(cluster.fragile, paths, config)
    cluster.lose_answer(containing="result")

    writer(config, cluster.fragile, paths, leadership).end(JobState.FINISHED)

    node = cluster.connect().get(paths.run_result(1))
    assert (node.version, b"FINISHED" in node.data) == (0, True)
    assert cluster.connect().find(paths.job_graph) is None
