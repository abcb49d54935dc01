"""Reads of a job that changes in between, at each depth, on the fake ensemble and on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, SetData, follow
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import JobStateError, UnknownJobError
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.observe import create_job, list_jobs, read_status, run_steps, standing_steps
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.status import JobStatus, StandingDepth
from tests.support.clusters.jobs_helpers import BLOB, Interrupted, a_result, an_exit, lead, submit


BACKENDS = ("fake", "zookeeper")


Reader = Callable[[Coordinator, JobPaths], JobStatus[StandingDepth]]
READERS: dict[str, Reader] = {
    "standing": lambda coordinator, paths: follow(coordinator, standing_steps(paths)),
    "run": lambda coordinator, paths: follow(coordinator, run_steps(paths)),
    "whole": read_status,
}
at_each_depth = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


def queue(coordinator: Coordinator, paths: JobPaths, attempt: int = 1) -> None:
    """Submit an attempt, with the graph pointer that names it."""
    submit(coordinator, paths, attempt=attempt)
    pointer = GraphPointer(graph=BLOB, run=1, attempt=attempt).to_bytes()
    coordinator.commit(Create(paths.job_graph, pointer) if attempt == 1 else SetData(paths.job_graph, pointer))


@at_each_depth
def test_a_job_that_finishes_meanwhile_is_never_seen_as_lost(
    coordinator: Coordinator, cluster_paths: ClusterPaths, config: HaConfig, read: Reader
) -> None:
    """Fails when the result is read before the leader node or before the exit."""

    def prepare(paths: JobPaths) -> Callable[[], None]:
        queue(coordinator, paths)
        leadership = lead(coordinator, paths, config)
        runs = RunStore(coordinator, paths)

        def finish() -> None:
            leadership.commit(runs.result_op(1, a_result()))
            leadership.release()
            coordinator.commit(Create(paths.submission_exit(1, 1), an_exit(0).to_bytes()))

        return finish

    seen = set()
    for position in range(20):
        paths = cluster_paths.job(f"finishing-{position}")
        job = read(Interrupted(coordinator, prepare(paths), before_read=position), paths)
        seen.add((job.is_lost, job.is_over))

    assert seen == {(False, False), (False, True)}


@at_each_depth
def test_a_recovered_epoch_is_never_seen_as_lost(
    coordinator: Coordinator, cluster_paths: ClusterPaths, config: HaConfig, read: Reader
) -> None:
    """A new leader between the reads must not make its own living epoch look lost: the epoch is read first."""
    lost: list[int] = []

    def prepare(paths: JobPaths) -> Callable[[], None]:
        queue(coordinator, paths)
        lead(coordinator, paths, config).release()

        def recover() -> None:
            queue(coordinator, paths, 2)
            lead(coordinator, paths, config, attempt=2)

        return recover

    for position in range(20):
        paths = cluster_paths.job(f"recovering-{position}")
        job = read(Interrupted(coordinator, prepare(paths), before_read=position), paths)
        if job.is_lost:
            lost.append(job.epoch)

    assert lost
    assert set(lost) == {1}


def test_a_snapshot_shows_the_records_of_the_job(coordinator: Coordinator, paths: JobPaths, config: HaConfig) -> None:
    submit(coordinator, paths)
    leadership = lead(coordinator, paths, config)
    coordinator.ensure(paths.checkpoint(9), paths.checkpoint(10))

    snapshot = read_status(coordinator, paths)

    assert snapshot.leader is not None
    assert snapshot.leader.epoch == snapshot.epoch == leadership.epoch == 1
    assert snapshot.checkpoint_numbers == (9, 10)
    assert snapshot.latest_checkpoint == 10


def test_an_earlier_runs_leadership_does_not_make_the_next_run_lost(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    submit(coordinator, paths)
    leadership = lead(coordinator, paths, config)
    leadership.commit(RunStore(coordinator, paths).result_op(1, a_result()))
    leadership.release()

    submit(coordinator, paths, number=2)

    assert read_status(coordinator, paths).state is JobState.SUBMITTED


def test_a_leader_that_vanished_without_a_result_is_lost(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    submit(coordinator, paths)
    lead(coordinator, paths, config).release()

    assert read_status(coordinator, paths).state is JobState.LOST


def test_an_unknown_job_is_named_with_those_that_exist(coordinator: Coordinator, cluster_paths: ClusterPaths) -> None:
    create_job(coordinator, cluster_paths.job("other"))

    with pytest.raises(UnknownJobError, match=r"'flights'.*\['other'\]"):
        read_status(coordinator, cluster_paths.job("flights"))
    assert list_jobs(coordinator, cluster_paths) == ["other"]


def test_runs_are_in_the_order_of_their_numbers(coordinator: Coordinator, paths: JobPaths) -> None:
    """As text, 10 comes before 9 (FLINK-6284)."""
    for number in range(1, 11):
        submit(coordinator, paths, number=number)
    for attempt in range(2, 11):
        submit(coordinator, paths, number=10, attempt=attempt)
    runs = RunStore(coordinator, paths)

    latest = runs.latest()

    assert latest is not None
    assert latest.run.number == 10
    assert [view.submission.attempt for view in latest.submissions] == list(range(1, 11))
    with pytest.raises(JobStateError, match="no run 11"):
        runs.get(11)


def test_a_result_becomes_clean_once(coordinator: Coordinator, paths: JobPaths) -> None:
    submit(coordinator, paths)
    runs = RunStore(coordinator, paths)
    coordinator.commit(runs.result_op(1, a_result()))

    change = runs.clean_op(1)

    assert change is not None
    coordinator.commit(change)
    assert runs.clean_op(1) is None
    assert (result := runs.result(1)) is not None
    assert result.cleanup == "CLEAN"
