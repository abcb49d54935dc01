"""5,000 nodes watched through one session: threads, registration, latency of an event, a reconnect, memory.

Each of 5,000 coroutines waits for its own job as a deferred Airflow task does: it reads its node through the hub that
all triggers of a triggerer share, and sleeps until the node's watch wakes it. The baseline arms the same watches with
kazoo alone, pipelined, and has no coroutines.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from kazoo.client import KazooClient  # noqa: TID253  # fills ZooKeeper, and is the baseline

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.triggers._hub import Hub, borrow
from benchmarks.shared import median, p99, repeat, show


NEVER = 3600.0  # a poll that nothing here waits for: what wakes a coroutine is a watch
SAMPLES = 50
TIMEOUT = 300.0


@dataclass
class Figures:
    """What was measured, seconds and bytes."""

    registration: float = 0.0
    threads: int = 0
    latency: list[float] = field(default_factory=list)
    burst: float = 0.0
    reconnect: float = 0.0
    longest_gap: float = 0.0
    memory: float = 0.0


class Waiters:
    """Coroutines that wait for a node each, and how often each has read."""

    def __init__(self, hub: Hub, paths: list[str]) -> None:
        self.reads = dict.fromkeys(paths, 0)
        self._hub = hub
        self.tasks = [asyncio.create_task(self._wait(path)) for path in paths]

    async def _wait(self, path: str) -> None:
        with self._hub.waiter([path]) as waiter:
            while True:
                await self._hub.nodes(waiter)
                self.reads[path] += 1
                await waiter.wait(NEVER)

    async def all_have_read(self, times: int) -> None:
        """Wait until every reader has read at least so often."""
        await until(lambda: min(self.reads.values()) >= times)

    async def stop(self) -> None:
        """End all of them."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def until(predicate: Callable[[], bool], every: float = 0.001) -> None:
    """Wait for a condition, looking often.

    :param every: Seconds between two looks. Each is a turn of the event loop, and its processor time is measured, too.
    :raises TimeoutError: It did not come.
    """
    end = time.perf_counter() + TIMEOUT
    while not predicate():
        if time.perf_counter() > end:
            raise TimeoutError("the hub did not get there")
        await asyncio.sleep(every)


class Gaps:
    """How long the event loop was busy with something else, at most.

    :param every: Seconds between two looks: a gap is known to so many, and each look costs processor time.
    :ivar longest: By the clock, seconds.
    :ivar busiest: The processor time of this process between two turns, at most. Other processes do not count.
    """

    def __init__(self, every: float = 0.005) -> None:
        self.longest = self.busiest = 0.0
        self._every = every
        self._task = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            before, busy = time.perf_counter(), time.process_time()
            await asyncio.sleep(self._every)
            self.longest = max(self.longest, time.perf_counter() - before - self._every)
            self.busiest = max(self.busiest, time.process_time() - busy)

    def stop(self) -> None:
        """End the ticking."""
        self._task.cancel()


async def through_the_hub(config: HaConfig, paths: list[str], writer: KazooClient) -> Figures:
    """Measure everything with coroutines that wait."""
    figures, opened = Figures(), []

    def open_client(config: HaConfig) -> HaClient:
        opened.append(HaClient.open(config))
        return opened[-1]

    async with borrow(config, open_client) as hub:
        warm = Waiters(hub, paths[:1])  # opens the session
        await warm.all_have_read(1)
        threads, memory = threading.active_count(), resident()
        gaps, begin = Gaps(), time.perf_counter()
        waiters = Waiters(hub, paths[1:])
        await waiters.all_have_read(1)
        figures.registration = time.perf_counter() - begin
        figures.threads = threading.active_count() - threads
        figures.memory = (resident() - memory) / len(paths)
        for path in paths[1 : SAMPLES + 1]:
            figures.latency.append(await one_event(waiters, path, writer))
        before, begin = dict(waiters.reads), time.perf_counter()
        written = [writer.set_async(path, b"burst") for path in paths[1:]]
        await until(lambda: all(count > before[path] for path, count in waiters.reads.items()))
        figures.burst = time.perf_counter() - begin
        del written
        before, begin = dict(waiters.reads), time.perf_counter()
        opened[0].coordinator.drop_connection()
        await until(lambda: all(count > before[path] for path, count in waiters.reads.items()))
        figures.reconnect = time.perf_counter() - begin
        figures.longest_gap = gaps.longest
        gaps.stop()
        await waiters.stop()
        await warm.stop()
    return figures


async def one_event(waiters: Waiters, path: str, writer: KazooClient) -> float:
    """Return the seconds from a write to its being read."""
    before, begin = waiters.reads[path], time.perf_counter()
    writer.set_async(path, b"one")
    await until(lambda: waiters.reads[path] > before)
    return time.perf_counter() - begin


def by_kazoo_alone(config: HaConfig, paths: list[str], writer: KazooClient) -> Figures:
    """Measure the same watches without a task that waits for them."""
    figures, client = Figures(), KazooClient(config.zookeeper)
    client.start()
    threads = threading.active_count()
    fired = threading.Semaphore(0)

    def arm() -> float:
        begin = time.perf_counter()
        for answer in [client.get_async(path, watch=lambda _: fired.release()) for path in paths]:
            answer.get()
        return time.perf_counter() - begin

    figures.registration = arm()
    figures.threads = threading.active_count() - threads
    for path in paths[:SAMPLES]:
        begin = time.perf_counter()
        writer.set_async(path, b"one")
        fired.acquire()
        client.get_async(path, watch=lambda _: fired.release()).get()
        figures.latency.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    written = [writer.set_async(path, b"burst") for path in paths]
    for _ in paths:
        fired.acquire()
    arm()
    figures.burst = time.perf_counter() - begin
    del written
    begin = time.perf_counter()
    drop(client)
    for _ in paths:
        fired.acquire()
    client.retry(client.exists, paths[0])
    arm()
    figures.reconnect = time.perf_counter() - begin
    client.stop()
    client.close()
    return figures


def drop(client: Any) -> None:
    """Break the connection of a client; its session lives on."""
    client._connection._socket.shutdown(2)  # noqa: SLF001  # there is no other way from inside


def resident() -> int:
    """Return the memory that this process uses, bytes."""
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def fill(writer: KazooClient, root: str, count: int) -> list[str]:
    """Make the nodes."""
    writer.ensure_path(root)
    paths = [f"{root}/job-{number:05d}" for number in range(count)]
    for answer in [writer.create_async(path, b"") for path in paths]:
        answer.get()
    return paths


def measure_once(quick: bool) -> None:
    """Measure and print."""
    count = 200 if quick else 5000
    logging.disable(logging.WARNING)  # connections that break are what this is about
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder) / "zk") as server:
        config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{folder}/storage")
        writer = KazooClient(server.hosts)
        writer.start()
        paths = fill(writer, "/watched", count)
        ours = asyncio.run(through_the_hub(config, paths, writer))
        raw = by_kazoo_alone(config, paths, writer)
        writer.stop()
        writer.close()
    report(count, ours, raw)


def report(count: int, ours: Figures, raw: Figures) -> None:
    """Print the table."""

    def row(name: str, value: Callable[[Figures], float], unit: str = "s", factor: float = 1.0) -> tuple[str, ...]:
        ratio = value(ours) / value(raw) if value(raw) else 0.0
        shown = f"{value(ours) * factor:.2f} {unit}", f"{value(raw) * factor:.2f} {unit}"
        return name, *shown, f"{ratio:.2f}" if ratio else ""

    show(
        f"{count} watched nodes on one session",
        ("", "ours, with a coroutine each", "kazoo alone, pipelined", "ratio"),
        [
            ("threads that they cost", str(ours.threads), str(raw.threads), ""),
            row("registration", lambda figures: figures.registration),
            row("one event, read again: median", lambda figures: median(figures.latency), "ms", 1e3),
            row("one event, read again: p99", lambda figures: p99(figures.latency), "ms", 1e3),
            row("an event for each, all read again", lambda figures: figures.burst),
            row("reconnect, all watched again", lambda figures: figures.reconnect),
            ("longest gap of the event loop", f"{ours.longest_gap * 1e3:.0f} ms", "", ""),
            ("memory per waiting job", f"{ours.memory / 1024:.1f} KiB", "", ""),
        ],
    )


if __name__ == "__main__":
    repeat(__doc__, measure_once)
