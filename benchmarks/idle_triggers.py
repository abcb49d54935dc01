"""What 5,000 and 10,000 tasks cost a triggerer that follow jobs with which nothing happens.

Real triggers of real jobs, each of them led, are started one in each turn of the loop, as a triggerer does. The
baseline arms the same watches with kazoo alone, before and after, all of them before the first answer, with two
requests for each job: ``getData`` with a watch for its leader, ``exists`` with a watch for its result, which is not
there. The triggers send fewer requests, ``multiRead`` and ``setWatches`` for up to 500 nodes each: ratios below 1 are
due to that. A second baseline is the same without Python's search for cycles, most of it through Airflow. Then nothing
happens for a minute: processor time and requests of this process. At last a leader is gone: how long until its trigger
looks at the job. Then the same once more while Airflow sends metrics: all jobs are reported to a StatsD once a minute.
The minute begins once each job was reported for the first time, which reads it as a whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient  # noqa: TID253  # fills ZooKeeper, and is the baseline

from tests.support.clusters.airflow_helpers import connection_json, use_own_airflow_home


use_own_airflow_home()

from airflow_provider_ha.config import HaConfig  # noqa: E402  # Airflow's home comes first
from airflow_provider_ha.coordination._kazoo import KazooCoordinator  # noqa: E402
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper  # noqa: E402
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths  # noqa: E402
from airflow_provider_ha.jobs.model import QueryStatus  # noqa: E402
from airflow_provider_ha.triggers.job import SparkHaJobTrigger  # noqa: E402
from benchmarks.shared import repeat, show  # noqa: E402
from benchmarks.watches import Gaps, until  # noqa: E402
from tests.support.airflow_stats import initialized  # noqa: E402
from tests.support.clusters.jobs_helpers import NOON, a_leader, a_status, submit  # noqa: E402


LOOKS = 0.02  # seconds between two looks of this benchmark: more often, they cost half of what it measures
SETTLE = 5.0  # seconds between the last announcement and the minute in which nothing happens


@dataclass(frozen=True)
class Cost:
    """Time by the clock, and of the processor in this process, seconds."""

    clock: float
    processor: float


class Meter:
    """Measures from when it is made."""

    def __init__(self) -> None:
        self._begin = time.perf_counter(), time.process_time()

    def read(self) -> Cost:
        """Return what has passed since then."""
        return Cost(time.perf_counter() - self._begin[0], time.process_time() - self._begin[1])


@dataclass
class Figures:
    """What was measured, in seconds."""

    registration: Cost
    gap: Gaps
    idle_gap: Gaps
    announced: float = 0.0
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
    """Make jobs with a run that is led: one by one transaction, and copies of it."""
    cluster = ClusterPaths(config.root, config.cluster_id)
    coordinator = KazooCoordinator.connect(config)
    jobs = [cluster.job(f"job-{number:05d}") for number in range(count)]
    submit(coordinator, jobs[0])
    coordinator.close()
    writer = KazooClient(config.zookeeper)
    writer.start()
    writer.create(jobs[0].leader, a_leader(1, run=1, attempt=1).to_bytes())
    query = QueryStatus(planned=7, committed=7, batch_seconds=1.0, input_rate=2.0, lag=3, committed_at=NOON)
    writer.create(jobs[0].status, a_status().model_copy(update={"queries": {"rows": query}}).to_bytes())
    nodes = list(below(writer, jobs[0].base))
    for start in range(1, count, 100):
        some = jobs[start : start + 100]
        for answer in [writer.create_async(f"{paths.base}{name}", data) for paths in some for name, data in nodes]:
            answer.get()
    writer.stop()
    writer.close()
    return jobs


def below(client: KazooClient, top: str, name: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield a node and those below it, the highest first: the rest of its path, and its data."""
    yield name, client.get(top + name)[0]
    for child in client.get_children(top + name):
        yield from below(client, top, f"{name}/{child}")


def followers(jobs: list[JobPaths]) -> list[Followed]:
    """Return a trigger for each job."""
    return [Followed(job_id=paths.job_id, run=1, attempt=1, wait_for="finished", watcher_id="task") for paths in jobs]


async def start_all(triggers: list[Followed]) -> list[asyncio.Future[Any]]:
    """Start triggers, one in each turn of the loop, and wait until each has read its job."""
    tasks: list[asyncio.Future[Any]] = []
    for trigger in triggers:
        tasks.append(asyncio.ensure_future(anext(trigger.run())))
        await asyncio.sleep(0)
    # The newest first: the question is asked all the time, and must cost nothing.
    await until(lambda: all(trigger.reads for trigger in reversed(triggers)), LOOKS)
    return tasks


async def stop_all(tasks: list[asyncio.Future[Any]]) -> None:
    """End triggers."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def followed(
    config: HaConfig, jobs: list[JobPaths], idle: float, is_settled: Callable[[], bool] = lambda: True
) -> Figures:
    """Follow all jobs.

    :param idle: Seconds in which nothing happens.
    :param is_settled: Whether they can begin.
    """
    gaps = Gaps(LOOKS)
    triggers = followers(jobs)
    meter = Meter()
    tasks = await start_all(triggers)
    registration = meter.read()
    writer = KazooClient(config.zookeeper)
    writer.start()
    await until(lambda: len(writer.get_children(jobs[-1].watchers)) > 0, LOOKS)
    announced = meter.read().clock
    gaps.stop()

    await asyncio.sleep(SETTLE)
    await until(is_settled, 1.0)
    requests, idling, meter = received(config), Gaps(LOOKS), Meter()
    await asyncio.sleep(idle)
    passed = meter.read()
    idling.stop()
    figures = Figures(registration, gaps, idling, announced)
    figures.idle_cpu = passed.processor / passed.clock
    figures.idle_requests = (received(config) - requests) / passed.clock

    looks, begin, lost = triggers[0].looks, time.perf_counter(), writer.get(jobs[0].leader)[0]
    writer.delete_async(jobs[0].leader)
    await until(lambda: triggers[0].looks > looks)
    figures.noticed = time.perf_counter() - begin
    writer.create(jobs[0].leader, lost)
    writer.stop()
    writer.close()
    await stop_all(tasks)
    return figures


def received(config: HaConfig) -> int:
    """Return how many packets the server has received."""
    client = KazooClient(config.zookeeper)
    client.start()
    answer = client.command(b"srvr")
    client.stop()
    client.close()
    return next(int(line.split()[1]) for line in answer.splitlines() if line.startswith("Received"))


def reported(config: HaConfig, jobs: list[JobPaths], idle: float) -> Figures:
    """Follow all jobs while metrics are sent, to a socket that nothing reads from once each job was reported."""
    seen = set[str]()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(0)

        def all_are_reported() -> bool:
            with contextlib.suppress(BlockingIOError):
                while True:
                    seen.update(re.findall(r"job-\d{5}", receiver.recv(4096).decode()))
            return len(seen) == len(jobs)

        os.environ["AIRFLOW__METRICS__STATSD_ON"] = "True"
        os.environ["AIRFLOW__METRICS__STATSD_HOST"] = "127.0.0.1"
        os.environ["AIRFLOW__METRICS__STATSD_PORT"] = str(receiver.getsockname()[1])
        with initialized():
            return asyncio.run(followed(config, jobs, idle, all_are_reported))


def by_kazoo_alone(config: HaConfig, jobs: list[JobPaths]) -> Cost:
    """Arm the same watches."""
    client = KazooClient(config.zookeeper)
    client.start()
    meter = Meter()
    answers = [client.get_async(paths.leader, watch=print) for paths in jobs]
    for answer in answers + [client.exists_async(paths.run_result(1), watch=len) for paths in jobs]:
        answer.get()
    cost = meter.read()
    client.stop()
    client.close()
    return cost


def without_search_for_cycles(config: HaConfig, jobs: list[JobPaths]) -> Cost:
    """Arm the same watches while Python searches for no cycles."""
    gc.disable()
    try:
        return by_kazoo_alone(config, jobs)
    finally:
        gc.enable()


def measure_once(quick: bool) -> None:
    """Measure and print."""
    count, idle = (100, 2.0) if quick else (5000, 60.0)
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder) / "zk") as server:
        config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{folder}/storage")
        os.environ["AIRFLOW_CONN_SPARK_HA_DEFAULT"] = connection_json(config)
        jobs = fill(config, 2 * count)
        few, before = jobs[:count], by_kazoo_alone(config, jobs)
        half = by_kazoo_alone(config, few)
        half_bare, bare = without_search_for_cycles(config, few), without_search_for_cycles(config, jobs)
        without = asyncio.run(followed(config, few, idle))
        many = asyncio.run(followed(config, jobs, idle))
        after = by_kazoo_alone(config, jobs)
        sent = reported(config, few, idle)
    raw = Cost((before.clock + after.clock) / 2, (before.processor + after.processor) / 2)
    show(
        "tasks that follow idle jobs",
        ("", f"{count}", f"{2 * count}", f"{count}, with metrics"),
        [
            ("registration", *(_registration(each.registration) for each in (without, many, sent))),
            ("the same by kazoo alone", _registration(half), _registration(raw), ""),
            (
                "ratio: clock, processor",
                _ratio(without.registration, half),
                _ratio(many.registration, raw),
                _ratio(sent.registration, half),
            ),
            ("kazoo alone without search for cycles", _registration(half_bare), _registration(bare), ""),
            (
                "ratio: clock, processor",
                _ratio(without.registration, half_bare),
                _ratio(many.registration, bare),
                _ratio(sent.registration, half_bare),
            ),
            (
                "its longest gap of the event loop: clock, processor",
                *(_gap(each.gap) for each in (without, many, sent)),
            ),
            ("until the last is shown to people", *(f"{each.announced:.1f} s" for each in (without, many, sent))),
            ("idle: of a core", *(f"{each.idle_cpu:.1%}" for each in (without, many, sent))),
            ("idle: requests a second", *(f"{each.idle_requests:.0f}" for each in (without, many, sent))),
            ("idle: longest gap: clock, processor", *(_gap(each.idle_gap) for each in (without, many, sent))),
            (
                "a leader is gone, until its trigger looks",
                *(f"{each.noticed * 1e3:.0f} ms" for each in (without, many, sent)),
            ),
        ],
    )


def _registration(cost: Cost) -> str:
    return f"{cost.clock:.2f} s, {cost.processor:.2f} s"


def _ratio(ours: Cost, raw: Cost) -> str:
    return f"{ours.clock / raw.clock:.2f}, {ours.processor / raw.processor:.2f}"


def _gap(gaps: Gaps) -> str:
    return f"{gaps.longest * 1e3:.0f} ms, {gaps.busiest * 1e3:.0f} ms"


if __name__ == "__main__":
    repeat(__doc__, measure_once)
