"""The simulated year at its full size: 3 million batches, 3,000 losses, 400 savepoints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from airflow_provider_ha.checkpoints.store.payload_history import MOST_PAYLOADS
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from lab.suite import Proof
from tests.support.checkpoints.simulated_year import COLUMNS, Month, Progress, Simulation, Year, rows


FULL = Year(batches=3_000_000, losses=3_000, savepoints=400, per_checkpoint=30)
SETTLED = 2  # the first months fill what is bounded: attempts, archives, Spark's own hundred batches
_NOISE = 1.25


class SimulatedYear:
    """A year of one job's bookkeeping."""

    name = "year"
    title = "A year of one job"

    def __init__(self, year: Year = FULL) -> None:
        self.year = year

    @property
    def about(self) -> str:
        """What is done and what has to hold."""
        year = self.year
        return (
            f"{year.batches:,} batches, {year.losses:,} losses and {year.savepoints} savepoints of one job, with an"
            " embedded ZooKeeper and real directories; only Spark is left out. Every batch is written and recorded,"
            f" every {year.per_checkpoint} batches a checkpoint is pinned, published and subsumed, every loss fenced,"
            " forked and led again. One savepoint of the first month is never disposed of, so every payload since then"
            f" is kept for an exact replay, in archives of {MOST_PAYLOADS:,}. From the third month to the twelfth the"
            " memory, the nodes, the files beside payloads and archives, and the processor time of a recovery grow by"
            f" less than {(_NOISE - 1) * 100:.0f} %. The last two columns are medians of the month: from the"
            " submission's nodes to the next driver's first checkpoint, as time of the processor and of the clock."
        )

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Simulate what is left of the year."""
        logging.disable(logging.WARNING)
        last = ""

        def progress(now: Progress) -> None:
            nonlocal last
            share = f"{now.at / (365 * 864):.0f} % of the year, {len(now.months)} months measured"
            if share != last:
                last = share
                tell(share)

        with EmbeddedZooKeeper(folder / "zookeeper") as server:
            config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{folder}/storage")
            coordinator = KazooCoordinator.connect(config)
            try:
                simulation = Simulation(config, coordinator, self.year, folder / "progress.json")
                simulation.live(progress)
            finally:
                coordinator.close()
        months, processes = simulation.progress.months, simulation.progress.processes
        remark = "" if processes == 1 else f"{processes} processes simulated it one after the other."
        return Proof(COLUMNS, rows(months), growth(months), remark)


def growth(months: Sequence[Month]) -> list[str]:
    """Return what grew from the third month to the last one, and should not have. Pure."""
    first, last = months[SETTLED], months[-1]
    figures = {
        "memory": (first.rss, last.rss),
        "the nodes": (first.znodes, last.znodes),
        "the files": (_other_files(first), _other_files(last)),
        "a recovery's processor time": (first.processor, last.processor),
    }
    found = [
        f"{what} grew from {was:,.3g} to {now:,.3g}." for what, (was, now) in figures.items() if now > was * _NOISE
    ]
    if last.payloads > 2 * MOST_PAYLOADS:
        found.append(f"{last.payloads:,} payloads are kept outside of archives.")
    return found


def _other_files(month: Month) -> int:
    return month.files - month.payloads - 2 * month.archives
