"""Snapshots taken while the job changes between their reads, on the fake ensemble and on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import JobStateError, UnknownJobError
from airflow_provider_ha.jobs.jobs import create_job, list_jobs
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.runs import RunStore
from airflow_provider_ha.jobs.status import read_status
from tests.support.clusters.jobs_helpers import Interrupted, a_result, an_exit, lead, submit


BACKENDS = ("fake", "zookeeper")


def states_with(
    coordinator: Coordinator, job: Callable[[int], JobPaths], prepare: Callable[[JobPaths], Callable[[], Any]]
) -> set[JobState]:
    """Return every state that a snapshot shows when the event happens before its first, second, ... read."""
    seen = set()
    for position in range(100):
        paths = job(position)
        watched = Interrupted(coordinator, prepare(paths), before_read=position)
        seen.add(read_status(watched, paths).state)
        if watched.reads <= position:
            return seen
    raise AssertionError("a snapshot makes more than 100 reads")


def test_a_job_that_finishes_meanwhile_is_never_seen_as_lost(
    coordinator: Coordinator, cluster_paths: ClusterPaths, config: HaConfig
) -> None:
    """Fails when the result is read before the leader node or before the exit."""

    def prepare(paths: JobPaths) -> Callable[[], None]:
        submit(coordinator, paths)
        leadership = lead(coordinator, paths, config)
        runs = RunStore(coordinator, paths)

        def finish() -> None:
            leadership.commit(runs.result_op(1, a_result()))
            leadership.release()
            coordinator.commit(Create(paths.submission_exit(1, 1), an_exit(0).to_bytes()))

        return finish

    seen = states_with(coordinator, lambda n: cluster_paths.job(f"finishing-{n}"), prepare)

    assert seen == {JobState.STARTING, JobState.FINISHED}


def test_a_recovered_epoch_is_never_seen_as_lost(
    coordinator: Coordinator, cluster_paths: ClusterPaths, config: HaConfig
) -> None:
    """A new leader between the reads must not make its own living epoch look lost: the epoch is read first."""
    lost: list[tuple[str, int]] = []

    def prepare(paths: JobPaths) -> Callable[[], None]:
        submit(coordinator, paths)
        lead(coordinator, paths, config).release()

        def recover() -> None:
            submit(coordinator, paths, attempt=2)
            lead(coordinator, paths, config, attempt=2)

        return recover

    for position in range(20):
        paths = cluster_paths.job(f"recovering-{position}")
        watched = Interrupted(coordinator, prepare(paths), before_read=position)
        snapshot = read_status(watched, paths)
        if snapshot.state is JobState.LOST:
            lost.append((paths.job_id, snapshot.epoch))

    assert lost
    assert {epoch for _, epoch in lost} == {1}


def test_a_snapshot_shows_what_is_there(coordinator: Coordinator, paths: JobPaths, config: HaConfig) -> None:
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
