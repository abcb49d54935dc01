"""What watches a job now: said by ephemeral nodes of the triggers that wait, and by the leader of the cluster."""

from __future__ import annotations

import asyncio
import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.cli.app import log_to_stderr
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.notify.session import Announcements
from airflow_provider_ha.jobs.runs.watchers import LIVE, Announcement, WatchStatus, watched
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger
from airflow_provider_ha.triggers.job import SparkHaJobTrigger
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.jobs_helpers import submit
from tests.support.clusters.trigger_helpers import NEVER, cancelled, until


EXAMPLES = Path(__file__).parents[3] / "dags"
pytestmark = pytest.mark.usefixtures("airflow_connection")


def follower(name: str, **kwargs: Any) -> SparkHaJobTrigger:
    usual: dict[str, Any] = {"run": 1, "wait_for": "finished", "poll_interval": NEVER, "watcher_id": name}
    return SparkHaJobTrigger(**({"job_id": "flights"} | usual | kwargs))


async def waiting(trigger: Any) -> None:
    async for _ in trigger.run():
        return


def tasks_of(coordinator: Coordinator, paths: JobPaths) -> list[str]:
    return [each.split()[1] for each in watched(coordinator, paths).tasks]


def test_a_task_is_shown_while_its_trigger_waits_and_no_longer_although_the_session_goes_on(
    coordinator: Coordinator, paths: JobPaths, opened: list[Any]
) -> None:
    submit(coordinator, paths)

    async def watch() -> None:
        first, second = (asyncio.ensure_future(waiting(follower(name))) for name in ("first", "second"))
        await until(lambda: tasks_of(coordinator, paths) == ["first", "second"], "both to be shown")
        await cancelled(first)
        await until(lambda: tasks_of(coordinator, paths) == ["second"], "the first to be gone")
        await cancelled(second)

    asyncio.run(watch())

    wait_until(lambda: not tasks_of(coordinator, paths), timeout=30, what="both to be gone")
    assert len(opened) == 1


def test_a_task_is_shown_again_when_the_session_of_the_triggerer_was_lost(
    config: HaConfig, coordinator: Coordinator, paths: JobPaths, opened: list[Any]
) -> None:
    submit(coordinator, paths)

    async def watch() -> None:
        task = asyncio.ensure_future(waiting(follower("task", poll_interval=0.2)))
        await until(lambda: tasks_of(coordinator, paths) == ["task"], "the task to be shown")
        [node] = [paths.watcher(name) for name in coordinator.children(paths.watchers) if name.startswith(LIVE)]
        owner = coordinator.get(node).ephemeral_owner
        await asyncio.to_thread(close_session, config, opened[0].coordinator.session)

        def shown_by_another_session() -> bool:
            found = coordinator.find(node)
            return found is not None and found.ephemeral_owner != owner

        await until(shown_by_another_session, "the task to be shown by the next session")
        await cancelled(task)

    asyncio.run(watch())


@pytest.mark.usefixtures("opened")
def test_the_event_trigger_of_a_cluster_is_shown_for_every_job(
    coordinator: Coordinator, cluster_paths: ClusterPaths, paths: JobPaths
) -> None:
    submit(coordinator, paths)

    async def watch() -> WatchStatus:
        task = asyncio.ensure_future(waiting(SparkHaClusterTrigger(emit=["no_leader"], poll_interval=0.2)))
        seen = await until(lambda: (now := watched(coordinator, paths)).cluster and now, "the trigger to be shown")
        await cancelled(task)
        assert isinstance(seen, WatchStatus)
        return seen

    seen = asyncio.run(watch())

    assert seen.tasks == ()
    assert seen.cluster[0].startswith("event trigger of spark_ha_default")
    wait_until(lambda: not coordinator.children(cluster_paths.watchers), timeout=30, what="the trigger to be gone")


@pytest.mark.parametrize(
    "trigger", [SparkHaClusterTrigger(recovers=False), SparkHaClusterTrigger(emit=["checkpoint_old"])]
)
def test_a_trigger_whose_dag_recovers_nothing_is_not_shown(
    trigger: SparkHaClusterTrigger, cluster_paths: ClusterPaths
) -> None:
    assert trigger.announcement(cluster_paths) is None


def test_whether_its_dag_recovers_goes_with_the_trigger_to_another_process() -> None:
    _, kwargs = SparkHaClusterTrigger(recovers=False).serialize()

    assert not SparkHaClusterTrigger(**kwargs).recovers


def test_the_dag_alerts_does_not_count_as_what_recovers_a_job() -> None:
    (watcher,) = runpy.run_path(str(EXAMPLES / "alerts.py"))["alerts"].watchers

    assert not watcher.trigger.recovers


def test_an_announcement_never_makes_a_job_that_was_erased(coordinator: Coordinator, paths: JobPaths) -> None:
    announcements = Announcements(coordinator)

    announcements.keep([Announcement.of_task(paths, "late")])

    assert coordinator.find(paths.base) is None


def test_a_job_that_was_erased_hides_no_other_task(
    coordinator: Coordinator, cluster_paths: ClusterPaths, paths: JobPaths
) -> None:
    submit(coordinator, paths)
    erased = Announcement.of_task(cluster_paths.job("erased"), "late")

    Announcements(coordinator).keep([erased, *(Announcement.of_task(paths, name) for name in ("first", "second"))])

    assert tasks_of(coordinator, paths) == ["first", "second"]
    assert coordinator.find(cluster_paths.job("erased").base) is None


@pytest.fixture
def shown(spark_ha: Any) -> Callable[[], tuple[dict[str, Any], str]]:
    """Return the document of ``spark-ha job show``, and what it warns of."""
    log_to_stderr()  # as `airflow ha` does

    def show() -> tuple[dict[str, Any], str]:
        document, text = spark_ha("job", "show", "flights", "--json"), spark_ha("job", "show", "flights")
        assert (document[0], text[0]) == (0, 0)
        assert (document[2], text[2]) == ("", "")
        return json.loads(document[1]), text[1].partition("warning ")[2]

    return show


def test_job_show_warns_of_a_live_run_without_a_watcher_and_names_what_helps(cluster: Cluster, shown: Any) -> None:
    leadership = cluster.led("flights", cluster.coordinator)
    running, warned = shown()
    leadership.release()
    lost, _ = shown()

    assert running["watched_by"] == []
    assert "No task follows job 'flights'" in warned
    assert "spark-ha cluster recover --watch" in warned
    assert "unpause the DAG recover_jobs" in warned
    assert "a driver that is lost with its host is not submitted again" in running["warning"]
    assert "its driver is lost, and only its own host may start it again" in lost["warning"]


def test_job_show_names_the_leader_of_the_cluster_as_a_watcher_and_does_not_warn(cluster: Cluster, shown: Any) -> None:
    cluster.submitted("flights")
    with ClusterLeader(cluster.client, by="test", address="recoverer@host-a") as leader:
        leader.lead(timeout=5)
        document, warned = shown()

    assert [each.partition(" (")[0] for each in document["watched_by"]] == ["cluster leader recoverer@host-a"]
    assert (document["warning"], warned) == ("", "")


def test_job_show_does_not_warn_of_a_run_that_is_over(cluster: Cluster, shown: Any) -> None:
    cluster.ended("flights")

    document, warned = shown()

    assert (document["watched_by"], document["warning"], warned) == ([], "", "")
