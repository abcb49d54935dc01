"""Where jobs stand, seen with five reads each: the same as a look at the whole job sees, or a reason for a look."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.observe import survey
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.status import JobStatus, StandingDepth
from tests.contract.clusters import Cluster
from tests.support.clusters.jobs_helpers import BLOB, a_result, a_submission, an_exit, lead, standing_of, submit


BACKENDS = ("fake", "zookeeper")


class House:
    """A cluster with jobs whose graph pointers name their attempts, as a claim leaves them."""

    def __init__(self, coordinator: Coordinator, paths: ClusterPaths, config: HaConfig) -> None:
        self.coordinator = coordinator
        self.cluster = paths
        self.config = config

    def job(self, job_id: str, *, attempt: int = 1) -> JobPaths:
        """Submit the first attempt of a job."""
        paths = self.cluster.job(job_id)
        submit(self.coordinator, paths)
        self.coordinator.commit(Create(paths.job_graph, GraphPointer(graph=BLOB, run=1, attempt=attempt).to_bytes()))
        return paths

    def again(self, paths: JobPaths, attempt: int) -> None:
        """Submit a further attempt, in one transaction with the pointer."""
        self.coordinator.commit(
            SetData(paths.job_graph, GraphPointer(graph=BLOB, run=1, attempt=attempt).to_bytes()),
            *RunStore(self.coordinator, paths).submission_ops(1, a_submission(attempt)),
        )

    def lead(self, paths: JobPaths, attempt: int = 1) -> Callable[[], None]:
        """Lead it; return what ends that."""
        return lead(self.coordinator, paths, self.config, attempt=attempt).release

    def stands(self, paths: JobPaths) -> str:
        """Return what a survey shows."""
        return standing_of(self.survey(paths)[0])

    def survey(self, *jobs: JobPaths) -> list[JobStatus[StandingDepth]]:
        """All of them."""
        return list(survey(self.coordinator, self.cluster, [paths.job_id for paths in jobs]))


@pytest.fixture
def house(coordinator: Coordinator, cluster_paths: ClusterPaths, config: HaConfig) -> House:
    return House(coordinator, cluster_paths, config)


def test_a_job_is_led_lost_started_again_and_led_again(house: House) -> None:
    job = house.job("flights")
    seen = [house.stands(job)]

    release = house.lead(job)
    seen.append(house.stands(job))
    release()
    seen.append(house.stands(job))
    house.again(job, 2)
    seen.append(house.stands(job))
    house.lead(job, 2)
    seen.append(house.stands(job))

    assert seen == ["starting", "led", "lost", "starting", "led"]


def test_the_epoch_of_a_leader_is_told(house: House) -> None:
    job = house.job("flights")
    house.lead(job)()
    house.again(job, 2)
    house.lead(job, 2)

    (seen,) = house.survey(job)
    assert seen.leader is not None
    assert (seen.is_led, seen.leader.epoch, seen.needs_a_look) == (True, 2, False)


def test_a_driver_that_is_proven_dead_is_lost_although_its_leader_node_is_still_there(house: House) -> None:
    job = house.job("flights")
    house.lead(job)

    house.coordinator.commit(Create(job.submission_exit(1, 1), an_exit().to_bytes()))

    assert house.stands(job) == "lost"


def test_the_leader_node_of_an_attempt_that_was_followed_by_another_says_nothing(house: House) -> None:
    job = house.job("flights")
    house.lead(job)
    house.again(job, 2)

    assert house.stands(job) == "unclear"


def test_a_run_that_ended_and_left_its_pointer_has_ended_also_when_its_driver_died(house: House) -> None:
    job = house.job("flights")
    house.coordinator.commit(
        Create(job.submission_exit(1, 1), an_exit().to_bytes()), Create(job.run_result(1), a_result().to_bytes())
    )

    assert house.stands(job) == "ended"


def test_a_job_without_a_pointer_has_nothing_to_recover(house: House) -> None:
    job = house.job("flights")
    house.lead(job)()
    house.coordinator.commit(Delete(job.job_graph))

    assert house.stands(job) == "idle"


def test_what_another_release_or_no_release_wrote_needs_a_look(house: House) -> None:
    old, broken = house.job("old", attempt=0), house.job("broken")
    house.lead(old)
    house.coordinator.commit(SetData(broken.job_graph, b"no record"))

    seen = house.survey(old, broken)
    assert [standing_of(each) for each in seen] == ["unclear", "unclear"]
    assert all(each.needs_a_look for each in seen)


def test_a_job_in_quarantine_is_named_as_such(house: House) -> None:
    job = house.job("flights")
    house.coordinator.ensure(house.cluster.quarantined("flights"))

    assert house.stands(job) == "in quarantine"


def test_a_watch_tells_of_a_leader_that_goes_and_of_a_proof_of_death(cluster: Cluster, house: House) -> None:
    job = house.job("flights")
    release = house.lead(job)
    touched: list[str] = []
    list(survey(house.coordinator, house.cluster, ["flights"], watch=touched.append))

    house.coordinator.commit(Create(job.submission_exit(1, 1), an_exit().to_bytes()))
    release()

    cluster.eventually(lambda: {job.submission_exit(1, 1), job.leader} <= set(touched), "both events")
