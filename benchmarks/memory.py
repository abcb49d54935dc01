"""Memory of a job with and without a standby driver, against ``spark-submit``, and of a triggerer with waiting tasks.

Each side runs the script of ``failover.py`` with 20,000 keys and a heap of 1 GB for ten batches. The figure is the
proportional set size (PSS): shared pages count once for all processes. The tasks are triggers that follow jobs with
which nothing happens, in one process, as in a triggerer; the baseline is the process before them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.testing.waiting import wait_until
from benchmarks.failover_sides import PATIENCE, ByHand, Managed, Side, WithStandby
from benchmarks.idle_triggers import Followed, fill
from benchmarks.shared import effort, median, show
from benchmarks.watches import until
from tests.support.clusters.airflow_helpers import connection_json


BATCHES = 10
MB = 1 << 20
KINDS = ("JVM", "Python of the driver", "supervisor and others")


def megabytes(processes: Iterable[psutil.Process]) -> float:
    """Return the PSS of processes."""
    found = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            found += process.memory_full_info().pss
    return found / MB


def own_processes() -> set[psutil.Process]:
    """Return the processes below this one, by parent and by what they have inherited."""
    return {each for each in psutil.process_iter() if _is_marked(each) and each.pid != os.getpid()}


def _is_marked(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.environ().get("BENCHMARK_OF_MEMORY") == str(os.getpid())
    return False


def of_a_job(side: Side, job_id: str, server: set[psutil.Process]) -> tuple[float, ...]:
    """Run one side, and return the memory of each kind of its processes."""
    side.start(job_id)
    wait_until(lambda: side.committed() >= BATCHES, timeout=PATIENCE, what=f"batches of {job_id}")
    side.driver()  # with a standby driver: once it is ready
    kinds: dict[str, list[psutil.Process]] = {kind: [] for kind in KINDS}
    for process in own_processes() - server:
        name = process.name()
        is_driver = name.startswith("python") and any(above.name() == "java" for above in process.parents())
        kinds["JVM" if name == "java" else "Python of the driver" if is_driver else "supervisor and others"].append(
            process
        )
    found = tuple(megabytes(kinds[kind]) for kind in KINDS)
    side.stop()
    return found


async def of_tasks(config: HaConfig, count: int) -> float:
    """Return the memory that waiting tasks add to this process."""
    jobs = fill(config, count)
    this = psutil.Process()
    triggers = [
        Followed(job_id=paths.job_id, run=1, attempt=1, wait_for="finished", watcher_id="task") for paths in jobs
    ]
    before = megabytes([this])
    tasks = []
    for trigger in triggers:
        tasks.append(asyncio.ensure_future(anext(trigger.run())))
        await asyncio.sleep(0)
    await until(lambda: all(trigger.reads for trigger in triggers), 0.1)
    await asyncio.sleep(15)  # until all of them are announced
    added = megabytes([this]) - before
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return added


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=3)
    os.environ["BENCHMARK_OF_MEMORY"] = str(os.getpid())
    logging.disable(logging.WARNING)
    count = 50 if given.quick else 1000
    found: dict[str, list[tuple[float, ...]]] = {}
    with tempfile.TemporaryDirectory() as name, EmbeddedZooKeeper(Path(name) / "zk") as server:
        folder = Path(name)
        config = HaConfig.build(zookeeper=server.hosts, storage_root=(folder / "storage").as_uri())
        os.environ["AIRFLOW_CONN_SPARK_HA_DEFAULT"] = connection_json(config)
        added = asyncio.run(of_tasks(config.model_copy(update={"cluster_id": "tasks"}), count))
        with HaClient.open(config) as client:
            arguments = ["20000", "20000"]
            sides = (ByHand(folder, arguments), Managed(client, arguments), WithStandby(client, arguments))
            servers = own_processes()
            for number in range(given.pairs):
                for side in sides:
                    found.setdefault(side.name, []).append(of_a_job(side, f"round-{number}", servers))
                    print(f"round {number + 1} of {given.pairs}: {side.name}", flush=True)
    base = median([sum(each) for each in found[sides[0].name]])
    rows = []
    for side_name, each in found.items():
        parts = [median(list(values)) for values in zip(*each, strict=True)]
        whole = median([sum(one) for one in each])
        rows.append((side_name, *(f"{part:.0f} MB" for part in parts), f"{whole:.0f} MB", f"{whole / base:.2f}"))
    show(f"PSS after {BATCHES} batches, median of {given.pairs}", ("", *KINDS, "all", "ratio"), rows)
    show(
        "tasks that wait",
        ("tasks", "memory", "of a task"),
        [(f"{count:,}", f"{added:.1f} MB", f"{added / count * 1024:.1f} kB")],
    )


if __name__ == "__main__":
    main()
