"""A simulated year of one job: what grows with its batches, losses and savepoints, and how long a recovery takes.

A small share of a year, with what is kept scaled down as well; ``make proof SUITE=year`` simulates a whole one. The
table gives the figures of each month and the ratio of the last one to the first one. The last two columns are a
recovery: a snapshot, the lock, fence and fork, the first checkpoint; as time of the processor, which other work on the
machine does not change, and of the clock.
"""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

from airflow_provider_ha.checkpoints.store import payload_history
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.driver.members import housekeeping
from benchmarks.shared import repeat, show
from tests.support.checkpoints.simulated_year import COLUMNS, Simulation, Year, rows


def scale_limits() -> None:
    """Lower what is kept as well: a small share of a year then reaches it in its first month, as a whole one does."""
    payload_history.MOST_PAYLOADS = 25
    housekeeping.ATTEMPTS = 10


def measure_once(quick: bool) -> None:
    """Simulate and print."""
    year = Year(240, 24, 12, 5) if quick else Year(6_000, 120, 24, 10)
    scale_limits()
    logging.disable(logging.WARNING)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder) / "zk") as server:
        config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{folder}/storage")
        coordinator = KazooCoordinator.connect(config)
        simulation = Simulation(config, coordinator, year, Path(folder) / "progress.json")
        simulation.live()
        coordinator.close()
    show(
        f"A year: {year.batches:,} batches, {year.losses:,} losses, {year.savepoints} savepoints, one of them kept; "
        f"simulated in {(time.perf_counter() - began) / 60:.0f} minutes",
        COLUMNS,
        rows(simulation.progress.months),
    )


if __name__ == "__main__":
    repeat(__doc__, measure_once)
