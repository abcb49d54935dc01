"""What it costs to wait for nodes that do not exist yet: the result of a run, of each task that follows a job."""

from __future__ import annotations

import socket

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.fleet.notify.session import WatchedNodes
from airflow_provider_ha.triggers.job import SparkHaJobTrigger


SOME = 50  # less than what is worth a request for all
ALL = 200


def test_to_watch_a_node_that_is_likely_to_be_absent_costs_one_request(
    config: HaConfig, coordinator: Coordinator, paths: JobPaths
) -> None:
    nodes = [f"{paths.base}/never-{number}" for number in range(SOME)]
    watched, before = WatchedNodes(coordinator, lambda _: None), received(config)

    found = watched.read(nodes, absent=nodes)

    assert set(found.values()) == {None}
    assert SOME <= received(config) - before < 1.5 * SOME


def test_to_watch_many_nodes_costs_a_request_for_all(
    config: HaConfig, coordinator: Coordinator, paths: JobPaths
) -> None:
    watched = WatchedNodes(coordinator, lambda _: None)
    watched.read([f"{paths.base}/first-{number}" for number in range(ALL)])  # asks the servers what they know
    before = received(config)

    found = watched.read([f"{paths.base}/never-{number}" for number in range(ALL)])

    assert set(found.values()) == {None}
    assert received(config) - before < 10


def test_a_task_that_follows_a_job_takes_its_result_for_absent(paths: JobPaths) -> None:
    trigger = SparkHaJobTrigger(job_id=paths.job_id, run=1)

    assert list(trigger.absent(paths)) == [paths.run_result(1)]
    assert set(trigger.absent(paths)) < set(trigger.nodes(paths))


def received(config: HaConfig) -> int:
    """Return how many packets the server has received."""
    host, _, port = config.zookeeper.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"srvr")
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    return next(int(line.split()[1]) for line in answer.splitlines() if line.startswith(b"Received"))
