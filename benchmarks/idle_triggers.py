"""What 5,000 tasks cost a triggerer that follow jobs with which nothing happens.

Real triggers of real jobs, each of them led, are started one in each turn of the loop, as a triggerer does. The
baseline arms the same watches with kazoo alone, pipelined. Then nothing happens for a minute: processor time and
requests of this process. At last a leader is gone: how long until its trigger looks at the job. Then the same once more
while Airflow sends metrics: all jobs are reported to a StatsD once a minute.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient  # noqa: TID253  # fills ZooKeeper, and is the baseline
from kazoo.exceptions import NoNodeError  # noqa: TID253  # as above

from tests.support.clusters.airflow_helpers import connection_json, use_own_airflow_home


use_own_airflow_home()

from airflow_provider_ha.config import HaConfig  # noqa: E402  # Airflow's home comes first
from airflow_provider_ha.coordination._kazoo import KazooCoordinator  # noqa: E402
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper  # noqa: E402
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths  # noqa: E402
from airflow_provider_ha.jobs.model import QueryStatus  # noqa: E402
from airflow_provider_ha.triggers.job import SparkHaJobTrigger  # noqa: E402
from benchmarks.shared import quick, show  # noqa: E402
from benchmarks.watches import Gaps, until  # noqa: E402
from tests.support.airflow_stats import initialized  # noqa: E402
from tests.support.clusters.jobs_helpers import NOON, a_leader, a_status, submit  # noqa: E402


@dataclass
class Figures:
    """What was measured, in seconds."""

    registration: float = 0.0
    gap: float = 0.0
    announced: float = 0.0
    idle_gap: float = 0.0
    idle_cpu: float = 0.0
    idle_requests: float = 0.0
    noticed: float = 0.0


class Followed(SparkHaJobTrigger):
    """A follower that counts how often its nodes, and how often its job was read."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reads = 0
        self.looks = 0

    def need(self, found: Any, paths: JobPaths) -> Any:
        """Count it."""
        self.reads += 1
        return super().need(found, paths)

    def look(self, client: Any) -> Any:
        """Count it."""
        self.looks += 1
        return super().look(client)


def fill(config: HaConfig, count: int) -> list[JobPaths]:
    """Make jobs with a run that is led."""
    cluster = ClusterPaths(config.root, config.cluster_id)
    coordinator = KazooCoordinator.connect(config)
    jobs = [cluster.job(f"job-{number:05d}") for number in range(count)]
    for paths in jobs:
        submit(coordinator, paths)
    coordinator.close()
    writer = KazooClient(config.zookeeper)
    writer.start()
    leader = a_leader(1, run=1, attempt=1).to_bytes()
    query = QueryStatus(planned=7, committed=7, batch_seconds=1.0, input_rate=2.0, lag=3, committed_at=NOON)
    status = a_status().model_copy(update={"queries": {"rows": query}}).to_bytes()
    made = [writer.create_async(paths.leader, leader) for paths in jobs]
    made += [writer.create_async(paths.status, status) for paths in jobs]
    for answer in made:
        answer.get()
    writer.stop()
    writer.close()
    return jobs


async def followed(config: HaConfig, jobs: list[JobPaths], idle: float, settle: float) -> Figures:
    """Follow all jobs."""
    figures, gaps = Figures(), Gaps()
    triggers = [
        Followed(job_id=paths.job_id, run=1, attempt=1, wait_for="finished", watcher_id="task") for paths in jobs
    ]
    begin, tasks = time.perf_counter(), []
    for trigger in triggers:
        tasks.append(asyncio.ensure_future(anext(trigger.run())))
        await asyncio.sleep(0)
    await until(lambda: all(trigger.reads for trigger in triggers))
    figures.registration = time.perf_counter() - begin
    writer = KazooClient(config.zookeeper)
    writer.start()
    await until(lambda: len(writer.get_children(jobs[-1].watchers)) > 0)
    figures.announced = time.perf_counter() - begin
    figures.gap = gaps.longest
    gaps.stop()

    await asyncio.sleep(settle)
    idling = Gaps()
    requests, cpu, begin = received(config), time.process_time(), time.perf_counter()
    await asyncio.sleep(idle)
    passed = time.perf_counter() - begin
    figures.idle_gap = idling.longest
    idling.stop()
    figures.idle_cpu = (time.process_time() - cpu) / passed
    figures.idle_requests = (received(config) - requests) / passed

    looks, begin, lost = triggers[0].looks, time.perf_counter(), writer.get(jobs[0].leader)[0]
    writer.delete_async(jobs[0].leader)
    await until(lambda: triggers[0].looks > looks)
    figures.noticed = time.perf_counter() - begin
    writer.create(jobs[0].leader, lost)
    writer.stop()
    writer.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return figures


def received(config: HaConfig) -> int:
    """Return how many packets the server has received."""
    client = KazooClient(config.zookeeper)
    client.start()
    answer = client.command(b"srvr")
    client.stop()
    client.close()
    return next(int(line.split()[1]) for line in answer.splitlines() if line.startswith("Received"))


def reported(config: HaConfig, jobs: list[JobPaths], idle: float, settle: float) -> Figures:
    """Follow all jobs while metrics are sent, to a socket that nothing reads from."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        os.environ["AIRFLOW__METRICS__STATSD_ON"] = "True"
        os.environ["AIRFLOW__METRICS__STATSD_HOST"] = "127.0.0.1"
        os.environ["AIRFLOW__METRICS__STATSD_PORT"] = str(receiver.getsockname()[1])
        with initialized():
            return asyncio.run(followed(config, jobs, idle, settle))


def by_kazoo_alone(config: HaConfig, jobs: list[JobPaths]) -> float:
    """Arm the same watches; return the seconds."""
    client = KazooClient(config.zookeeper)
    client.start()
    nodes = [node for paths in jobs for node in (paths.leader, paths.run_result(1))]
    begin = time.perf_counter()
    missing = []
    for node, answer in [(node, client.get_async(node, watch=print)) for node in nodes]:
        try:
            answer.get()
        except NoNodeError:  # noqa: PERF203  # the result, of each of them
            missing.append(node)
    for answer in [client.exists_async(node, watch=len) for node in missing]:
        answer.get()
    seconds = time.perf_counter() - begin
    client.stop()
    client.close()
    return seconds


def main() -> None:
    """Measure and print."""
    is_quick = quick(__doc__ or "")
    # With metrics, each job is read as a whole first: a hundred in a second.
    count, idle, settle = (100, 2.0, 2.0) if is_quick else (5000, 60.0, 70.0)
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder) / "zk") as server:
        config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{folder}/storage")
        os.environ["AIRFLOW_CONN_SPARK_HA_DEFAULT"] = connection_json(config)
        jobs = fill(config, count)
        figures = asyncio.run(followed(config, jobs, idle, min(settle, 5.0)))
        sent = reported(config, jobs, idle, settle)
        raw = by_kazoo_alone(config, jobs)
    show(
        f"{count} tasks that follow idle jobs",
        ("", "ours", "kazoo alone", "ratio"),
        [
            ("registration", f"{figures.registration:.2f} s", f"{raw:.2f} s", f"{figures.registration / raw:.2f}"),
            ("longest gap of the event loop", f"{figures.gap * 1e3:.0f} ms", "", ""),
            ("until the last of them is shown to people", f"{figures.announced:.2f} s", "", ""),
            ("idle: processor", f"{figures.idle_cpu:.1%} of a core", "", ""),
            ("idle: requests a second", f"{figures.idle_requests:.0f}", "", ""),
            ("idle: longest gap of the event loop", f"{figures.idle_gap * 1e3:.0f} ms", "", ""),
            ("idle, with metrics: processor", f"{sent.idle_cpu:.1%} of a core", "", ""),
            ("idle, with metrics: requests a second", f"{sent.idle_requests:.0f}", "", ""),
            ("idle, with metrics: longest gap of the event loop", f"{sent.idle_gap * 1e3:.0f} ms", "", ""),
            ("a leader is gone, until its trigger looks", f"{figures.noticed * 1e3:.0f} ms", "", ""),
        ],
    )


if __name__ == "__main__":
    main()
