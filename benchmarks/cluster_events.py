"""What the event trigger of a cluster with 1,000 jobs costs: requests that ZooKeeper receives, and processor time.

Three clusters: every job is led, every job is idle (it has ended), every job has lost its driver. Of each, the first
look, and what a poll costs afterwards while nothing happens. The trigger polls every 5 s. What it has announced to
people, and the comparison of its watched nodes once a minute, are part of the polls.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kazoo.client import KazooClient  # noqa: TID253  # fills ZooKeeper

from tests.support.clusters.airflow_helpers import connection_json, use_own_airflow_home


use_own_airflow_home()

from airflow_provider_ha.config import HaConfig  # noqa: E402  # Airflow's home comes first
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper  # noqa: E402
from airflow_provider_ha.coordination.paths import ClusterPaths  # noqa: E402
from airflow_provider_ha.fleet.notify.leadership import ClusterView  # noqa: E402
from airflow_provider_ha.storage.open_storage import open_store  # noqa: E402
from airflow_provider_ha.triggers import cluster as cluster_trigger  # noqa: E402
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger  # noqa: E402
from benchmarks.idle_triggers import received  # noqa: E402
from benchmarks.recovery import fill  # noqa: E402
from benchmarks.shared import repeat, show  # noqa: E402
from benchmarks.watches import until  # noqa: E402
from tests.support.clusters.jobs_helpers import a_leader  # noqa: E402


KINDS = ("every job is led", "every job is idle", "every job is lost")
POLL = 5.0


@dataclass(frozen=True)
class Figures:
    """What was measured.

    :param first: Requests until the first look was over.
    :param seconds: How long that took.
    :param polls: Requests while nothing happened.
    :param cpu: Share of a core in that time.
    """

    first: int
    seconds: float
    polls: int
    cpu: float


def made(config: HaConfig, kind: str, count: int) -> None:
    """Make the jobs of one cluster."""
    cluster = ClusterPaths(config.root, config.cluster_id)
    writer = KazooClient(config.zookeeper)
    writer.start()
    fill(writer, open_store(config), cluster, count)
    jobs = [cluster.job(f"job-{number:04d}") for number in range(count)]
    if kind == KINDS[0]:
        leader = a_leader(1, run=1, attempt=1).to_bytes()
        answers = [writer.create_async(paths.leader, leader) for paths in jobs]
    else:
        answers = [writer.delete_async(paths.job_graph) for paths in jobs] if kind == KINDS[1] else []
    for answer in answers:
        answer.get()
    writer.stop()
    writer.close()


class Looking(ClusterView):
    """A view that notes when its looks were over."""

    over: ClassVar[list[float]] = []

    def leadership(self, client: Any, jobs: Sequence[str], found: Any) -> Any:
        """Note it."""
        seen = super().leadership(client, jobs, found)
        if seen:
            self.over.append(time.perf_counter())
        return seen


async def watched(config: HaConfig, idle: float) -> Figures:
    """Watch a cluster."""
    trigger = SparkHaClusterTrigger(poll_interval=POLL, grace=1e6)
    Looking.over.clear()
    before, begin = received(config), time.perf_counter()
    task = asyncio.ensure_future(anext(aiter(trigger.run())))
    await until(lambda: bool(Looking.over))
    first, seconds = received(config) - before, Looking.over[0] - begin
    await asyncio.sleep(2)
    before, cpu, begin = received(config), time.process_time(), time.perf_counter()
    await asyncio.sleep(idle)
    passed = time.perf_counter() - begin
    figures = Figures(first, seconds, received(config) - before, (time.process_time() - cpu) / passed)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return figures


def measure_once(quick: bool) -> None:
    """Measure and print."""
    cluster_trigger.__dict__["ClusterView"] = Looking
    count, idle = (50, 6.0) if quick else (1000, 60.0)
    logging.disable(logging.WARNING)
    rows = []
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder) / "zk") as server:
        for number, kind in enumerate(KINDS):
            storage = f"file://{folder}/storage-{number}"
            config = HaConfig.build(zookeeper=server.hosts, storage_root=storage, cluster_id=f"cluster-{number}")
            os.environ["AIRFLOW_CONN_SPARK_HA_DEFAULT"] = connection_json(config)
            made(config, kind, count)
            figures = asyncio.run(watched(config, idle))
            each = figures.polls / (idle / POLL) / count
            rows.append(
                (
                    kind,
                    f"{figures.first / count:.1f}",
                    f"{figures.seconds:.2f} s",
                    f"{each:.2f}",
                    f"{figures.polls / idle:.0f}",
                    f"{figures.cpu:.1%}",
                )
            )
    columns = ("", "first look: requests a job", "seconds", "a poll: requests a job", "requests a second", "of a core")
    show(f"event trigger of a cluster with {count} jobs", columns, rows)


if __name__ == "__main__":
    repeat(__doc__, measure_once)
