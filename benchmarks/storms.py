"""Many drivers, and many waiting tasks, that lose their leader in one moment.

The drivers are 50 processes that lead a job each, without Spark. All of them are killed and proven dead, and for each
job a candidate waits for the lock. The baseline is one such loss. The tasks are triggers of led jobs in one process, as
in a triggerer. All leader nodes are deleted at once; measured is the time until every trigger has read its job again.
The baseline reads every leader and every result again with kazoo alone, on the event of each leader.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from kazoo.client import KazooClient  # noqa: TID253  # deletes the leaders, and is the baseline

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.raw_socket import close_session
from benchmarks.idle_triggers import LOOKS, SETTLE, Meter, fill, followers, start_all, stop_all
from benchmarks.shared import effort, median, show
from benchmarks.takeover import TICK_MS, Candidate, T, Victim, with_proof
from benchmarks.watches import Gaps, until
from tests.support.clusters.airflow_helpers import connection_json


A_TRANSACTION = 500  # deletions


def lost_drivers(config: HaConfig, count: int) -> list[float]:
    """Return the seconds from the kill of all leaders to the grant of each next one."""
    with ThreadPoolExecutor(count) as pool:
        victims = list(pool.map(lambda _: Victim(config), range(count)))
        credentials = [victim.credentials() for victim in victims]
        candidates = [Candidate(victim) for victim in victims]
        time.sleep(T.heartbeat_interval * 3)  # all of them wait
        began = time.perf_counter()
        for victim in victims:
            victim.process.kill()
        for victim, session in zip(victims, credentials, strict=True):
            victim.kill()
            pool.submit(close_session, victim.config, session)
        return [candidate.taken() - began for candidate in candidates]


def delete_leaders(config: HaConfig, jobs: list[JobPaths]) -> None:
    """Delete the leader nodes of all jobs."""
    client = KazooClient(config.zookeeper)
    client.start()
    answers = []
    for start in range(0, len(jobs), A_TRANSACTION):
        transaction = client.transaction()
        for paths in jobs[start : start + A_TRANSACTION]:
            transaction.delete(paths.leader)
        answers.append(transaction.commit_async())
    for answer in answers:
        answer.get()
    client.stop()
    client.close()


async def lost_leaders(config: HaConfig, jobs: list[JobPaths]) -> tuple[float, float, float]:
    """Return the seconds until all triggers have looked, those of the processor, and the longest gap of the loop."""
    triggers = followers(jobs)
    tasks = await start_all(triggers)
    writer = KazooClient(config.zookeeper)
    writer.start()
    await until(lambda: len(writer.get_children(jobs[-1].watchers)) > 0, LOOKS)
    writer.stop()
    writer.close()
    await asyncio.sleep(SETTLE)
    looks = [trigger.looks for trigger in triggers]
    gaps, meter = Gaps(LOOKS), Meter()
    deletion = threading.Thread(target=delete_leaders, args=(config, jobs))
    deletion.start()
    await until(lambda: all(each.looks > old for each, old in zip(triggers, looks, strict=True)), LOOKS)
    cost = meter.read()
    gaps.stop()
    deletion.join()
    await stop_all(tasks)
    return cost.clock, cost.processor, gaps.longest


def by_kazoo_alone(config: HaConfig, jobs: list[JobPaths]) -> tuple[float, float]:
    """Return the seconds, and those of the processor, until every leader and every result was read again."""
    client = KazooClient(config.zookeeper)
    client.start()
    gone = threading.Semaphore(0)
    answers = [client.get_async(paths.leader, watch=lambda _: gone.release()) for paths in jobs]
    for answer in answers:
        answer.get()
    meter = Meter()
    deletion = threading.Thread(target=delete_leaders, args=(config, jobs))
    deletion.start()
    for _ in jobs:
        gone.acquire()
    again = [client.exists_async(node) for paths in jobs for node in (paths.leader, paths.run_result(1))]
    for answer in again:
        answer.get()
    cost = meter.read()
    deletion.join()
    client.stop()
    client.close()
    return cost.clock, cost.processor


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=3)
    drivers, counts = (5, [50]) if given.quick else (50, [1000, 5000])
    logging.disable(logging.WARNING)  # connections that break are what this is about
    alone: list[float] = []
    all_at_once: list[float] = []
    rows = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(EmbeddedZooKeeper(folder / "zk", tick_ms=TICK_MS))
        config = HaConfig.build(zookeeper=server.hosts, storage_root=(folder / "storage").as_uri(), timings=T)
        for _ in range(given.pairs):
            alone.append(with_proof(config)[0])
            all_at_once += lost_drivers(config, drivers)
        for count in counts:
            ours: list[tuple[float, float, float]] = []
            raw: list[tuple[float, float]] = []
            for number in range(given.pairs):
                place = stack.enter_context(EmbeddedZooKeeper(folder / f"zk-{count}-{number}"))
                here = HaConfig.build(zookeeper=place.hosts, storage_root=(folder / "storage").as_uri())
                os.environ["AIRFLOW_CONN_SPARK_HA_DEFAULT"] = connection_json(here)
                ours.append(asyncio.run(lost_leaders(here, fill(here, count))))
                other = here.model_copy(update={"cluster_id": "raw"})
                raw.append(by_kazoo_alone(other, fill(other, count)))
            clock, processor, gap = (median(list(values)) for values in zip(*ours, strict=True))
            raw_clock, raw_processor = (median(list(values)) for values in zip(*raw, strict=True))
            rows.append(
                (
                    f"{count:,}",
                    f"{clock:.2f} s",
                    f"{processor / count * 1e3:.2f} ms",
                    f"{gap * 1e3:.0f} ms",
                    f"{raw_clock:.2f} s",
                    f"{raw_processor / count * 1e3:.2f} ms",
                    f"{processor / raw_processor:.1f}",
                )
            )
    base = median(alone)
    show(
        f"leaders killed at once, {given.pairs} rounds, load {os.getloadavg()[0]:.1f}",
        ("drivers", "from the kill to the grant: median", "greatest", "ratio of the medians"),
        [
            ("1", f"{base * 1e3:.0f} ms", f"{max(alone) * 1e3:.0f} ms", "1.00"),
            (
                f"{drivers}",
                f"{median(all_at_once) * 1e3:.0f} ms",
                f"{max(all_at_once) * 1e3:.0f} ms",
                f"{median(all_at_once) / base:.1f}",
            ),
        ],
    )
    columns = (
        "tasks",
        "all have looked",
        "processor a task",
        "longest gap",
        "kazoo alone",
        "processor a task",
        "ratio",
    )
    show(f"leaders of waiting tasks gone at once, {given.pairs} rounds", columns, rows)


if __name__ == "__main__":
    main()
