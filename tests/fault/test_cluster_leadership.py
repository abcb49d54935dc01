"""Who recovers the jobs of a cluster, when the recoverers themselves are killed, frozen and set against others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.fleet.cluster_leader import HUNG
from airflow_provider_ha.jobs.runs.watchers import read_cluster_leader
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.timings import Timings
from tests.support.clusters.cluster_helpers import Cluster


RECOVERER = Path(__file__).with_name("cluster_process.py")
ROOT = Path(__file__).parents[2]
JOBS = [f"job-{number:02d}" for number in range(12)]


class Recoverer:
    """A process that contends for the cluster, and what it has said."""

    def __init__(self, config: HaConfig, record: Path, address: str) -> None:
        self.said: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, str(RECOVERER), config.to_private_json(), str(record), address],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def epoch(self) -> int:
        return next((line["epoch"] for line in self.said if "epoch" in line), 0)

    def recovered(self) -> set[str]:
        return {line["job_id"] for line in self.said if line.get("outcome") == "recovered"}

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(json.loads(line))


@pytest.fixture
def config(config: HaConfig) -> HaConfig:
    """Sessions that four processes on a busy machine do not lose by accident."""
    timings = Timings(
        session_timeout=6.0, heartbeat_interval=0.5, heartbeat_timeout=1.0, connect_timeout=1.0, margin=0.2
    )
    return config.model_copy(update={"timings": timings})


@pytest.fixture
def cluster(config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path) -> Cluster:
    return Cluster(config, coordinator, tmp_path)


@pytest.fixture
def recoverer(config: HaConfig, cluster: Cluster) -> Iterator[Callable[[str], Recoverer]]:
    started: list[Recoverer] = []

    def start(address: str) -> Recoverer:
        started.append(Recoverer(config, cluster.engine.record, address))
        return started[-1]

    yield start
    for each in started:
        each.end()


def all_running_again(cluster: Cluster) -> bool:
    """Whether the newest submission of every job is started, and not the one that was lost."""
    for job_id in JOBS:
        view = cluster.context(job_id).runs.latest()
        assert view is not None
        if view.newest is None or view.newest.started is None or view.newest.submission.attempt == 1:
            return False
    return True


def launches(cluster: Cluster) -> Counter[str]:
    """Return how often each job was launched after its loss."""
    return Counter(job_id for job_id, attempt in cluster.engine.launches() if attempt > 1)


@pytest.mark.flink("DispatcherCleanupITCase#testCleanupAfterLeadershipChange", entry=22)
def test_when_the_leading_recoverer_is_killed_in_the_middle_each_lost_job_is_recovered_once(
    cluster: Cluster, recoverer: Callable[[str], Recoverer]
) -> None:
    """DispatcherCleanupITCase#testCleanupAfterLeadershipChange, and a process failure with several jobs."""
    for job_id in JOBS:
        cluster.lost(job_id)
    first = recoverer("first")
    wait_until(lambda: first.recovered(), timeout=60, what="the first recovery")

    first.process.kill()
    second = recoverer("second")

    wait_until(lambda: all_running_again(cluster), timeout=60, what="every job to be recovered")
    assert launches(cluster) == Counter(JOBS), "each once"
    assert second.epoch == 2
    assert not first.recovered() & second.recovered()
    for job_id in JOBS:
        assert cluster.coordinator.children(cluster.paths(job_id).recoveries) == ["1"]


@pytest.mark.long
def test_a_frozen_recoverer_that_thaws_recovers_nothing(
    cluster: Cluster, recoverer: Callable[[str], Recoverer]
) -> None:
    """It was stopped beyond its lease; another one leads. Thawed, it may not even finish what it had begun."""
    first = recoverer("first")
    wait_until(lambda: first.epoch == 1, timeout=60, what="the first one to lead")
    first.process.send_signal(signal.SIGSTOP)
    second = recoverer("second")
    wait_until(lambda: second.epoch == 2, timeout=60, what="the second one to lead")
    for job_id in JOBS:
        cluster.lost(job_id)

    first.process.send_signal(signal.SIGCONT)

    assert first.process.wait(60) == 3, "one process, one leadership: it exits"
    wait_until(lambda: all_running_again(cluster), timeout=60, what="every job to be recovered")
    assert launches(cluster) == Counter(JOBS)
    assert first.recovered() == set()


@pytest.mark.long
def test_of_several_recoverers_one_leads_and_the_others_wait(
    cluster: Cluster, recoverer: Callable[[str], Recoverer]
) -> None:
    contenders = [recoverer(f"deployment-{number}") for number in range(3)]
    wait_until(lambda: all(each.said for each in contenders), timeout=60, what="all of them to contend")
    wait_until(lambda: sum(each.epoch for each in contenders) == 1, timeout=60, what="one of them to lead")
    for job_id in JOBS:
        cluster.lost(job_id)

    wait_until(lambda: all_running_again(cluster), timeout=60, what="every job to be recovered")

    leading = [each for each in contenders if each.epoch]
    info = read_cluster_leader(cluster.coordinator, cluster.client.paths)
    assert info is not None
    assert len(leading) == 1
    assert info.pid == leading[0].process.pid
    assert launches(cluster) == Counter(JOBS)


@pytest.mark.long
def test_the_recoverer_and_those_who_follow_a_job_never_both_act(
    cluster: Cluster, recoverer: Callable[[str], Recoverer]
) -> None:
    """Airflow tasks follow every job by themselves, two per job, and come at the same time as the recoverer."""
    leading = recoverer("recoverer")
    wait_until(lambda: leading.epoch == 1, timeout=60, what="it to lead")
    for job_id in JOBS:
        cluster.lost(job_id)

    def follow(job_id: str) -> None:
        try:
            cluster.client.job(job_id).recover(by="an Airflow task", wait=False)
        except HaError as error:
            raise AssertionError(f"{job_id}: {error}") from error

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(follow, job_id) for job_id in JOBS * 2]:
            done.result()

    wait_until(lambda: all_running_again(cluster), timeout=60, what="every job to be recovered")
    assert launches(cluster) == Counter(JOBS)


@pytest.mark.parametrize("kind", ["watcher", "settler"])
def test_a_leader_whose_inspections_hang_gives_the_cluster_up(
    cluster: Cluster, recoverer: Callable[[str], Recoverer], tmp_path: Path, kind: str
) -> None:
    """A mount that answers nothing: the process that opens the graph of a job waits without an end."""
    view = cluster.exited("flights").runs.latest()
    assert view is not None
    (graph,) = tmp_path.rglob(view.run.graph.sha256)
    graph.unlink()
    os.mkfifo(graph)

    hung = recoverer(kind)

    assert hung.process.wait(30) == HUNG
    paths = cluster.client.paths
    wait_until(lambda: read_cluster_leader(cluster.coordinator, paths) is None, timeout=3, what="the free lock")


def test_a_leader_whose_recovery_hangs_gives_the_cluster_up(
    cluster: Cluster, recoverer: Callable[[str], Recoverer]
) -> None:
    """The look at the job was answered; the launch of its driver waits without an end."""
    cluster.exited("flights")
    cluster.engine.record.unlink()
    os.mkfifo(cluster.engine.record)

    hung = recoverer("hung")

    assert hung.process.wait(60) == HUNG
    paths = cluster.client.paths
    wait_until(lambda: read_cluster_leader(cluster.coordinator, paths) is None, timeout=3, what="the free lock")
