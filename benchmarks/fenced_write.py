"""A leader's fenced write against a raw kazoo transaction of the same size, in one run, on one embedded ZooKeeper.

Prints medians and the ratio; absolute times depend on the machine and mean little.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kazoo.client import KazooClient  # noqa: TID253  # the baseline is kazoo itself
from rich.console import Console
from rich.table import Table

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.jobs.observe import create_job
from benchmarks.shared import effort


PAYLOAD = b"x" * 512


def microseconds(write: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begin = time.perf_counter()
    write()
    return (time.perf_counter() - begin) * 1e6


def main() -> None:
    """Measure and print."""
    rounds = effort(__doc__, pairs=500, few=10).pairs
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder) / "zk") as server:
        config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{folder}/storage")
        coordinator = KazooCoordinator.connect(config)
        paths = ClusterPaths(config.root, config.cluster_id).job("bench")
        create_job(coordinator, paths)
        leadership = acquire(
            coordinator, paths, timings=config.timings, clock=SystemClock(), describe=lambda _: b"", timeout=10
        )
        coordinator.ensure(paths.status)
        raw = KazooClient(server.hosts)
        raw.start()

        def baseline() -> object:
            transaction = raw.transaction()
            transaction.check(paths.epoch, leadership.epoch)
            transaction.check(paths.leader, 0)
            transaction.set_data(paths.status, PAYLOAD)
            return transaction.commit()

        leadership.start_heartbeats(lambda _: None)
        pairs = [
            (microseconds(lambda: leadership.commit(SetData(paths.status, PAYLOAD))), microseconds(baseline))
            for _ in range(rounds)
        ]
        leadership.release()
        coordinator.close()
        raw.stop()
        raw.close()
    show(pairs)


def show(pairs: list[tuple[float, float]]) -> None:
    """Print the table."""
    fenced, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
    table = Table("write of 512 bytes", "median", "ratio", title=f"{len(pairs)} alternating pairs")
    table.add_row("kazoo transaction, 2 checks + 1 set", f"{bare:.0f} us", "1.00")
    table.add_row("fenced write of a leader", f"{fenced:.0f} us", f"{fenced / bare:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
