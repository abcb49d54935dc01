"""Choosing what to restore among 10,000 checkpoints whose newest 20 are bad, against reading their pointers with kazoo.

Every checkpoint has its pointer in ZooKeeper and its payload in storage; the newest have pins of a real checkpoint, of
which those of the bad ones lost half of a state file. Each bad one is read in full before the next older is looked at.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kazoo.client import KazooClient  # noqa: TID253  # the baseline

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.checkpoints.restore.select import Selection, select
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from benchmarks.shared import effort, median, show
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.spark.recorded_job import QUERY, recorded_job


BATCH = 9
BAD = 20


def fill(job: Job, count: int) -> None:
    """Complete checkpoints 1 to *count*; the newest ones get pins, of which all but the oldest are damaged."""
    for number in range(1, count + 1):
        checkpoint = job.checkpoint(number, BATCH)
        job.checkpoints.add(job.leadership, checkpoint)
        if number >= count - BAD:
            pin(recorded_job() / "live", job.pin_path(number), {QUERY: BATCH})
        if number > count - BAD:
            damage(job.pin_path(number))


def damage(pinned: Path) -> None:
    """Cut one state file of the newest version in half; the recording keeps its own."""
    state = next((pinned / QUERY / "state/0/0").glob(f"{BATCH + 1}_*.zip"))
    whole = state.read_bytes()
    state.unlink()
    state.write_bytes(whole[: len(whole) // 2])


def read_with_kazoo(client: KazooClient, parent: str) -> int:
    """Read every pointer, all asked for before the first answer."""
    pending = [client.get_async(f"{parent}/{name}") for name in client.get_children(parent)]
    return len([CheckpointPointer.from_bytes(each.get()[0], source="pointer") for each in pending])


def seconds(work: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def choose(job: Job, count: int) -> Selection:
    """Select, and see that the right one was chosen."""
    selection = select(job.checkpoints, job.savepoints, LinkedWorkArea(job.config.work_path), spark_version="4.2.0")
    if selection.require().name != f"checkpoint-{count - BAD}" or len(selection.candidates) != BAD + 1:
        raise RuntimeError(f"chose {selection.require().name} among {len(selection.candidates)}")
    return selection


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=5, few=2)
    count, rounds = 200 if given.quick else 10_000, given.pairs
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder) / "zk") as server:
        config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{folder}/storage")
        coordinator = KazooCoordinator.connect(config)
        client = KazooClient(server.hosts)
        client.start()
        with led_job(config, coordinator) as job:
            fill(job, count)
            pairs = [
                (seconds(lambda: read_with_kazoo(client, job.paths.checkpoints)), seconds(lambda: choose(job, count)))
                for _ in range(rounds)
            ]
        client.stop()
        client.close()
        coordinator.close()
    read, chosen = (median(column) for column in zip(*pairs, strict=True))
    rows = [
        ("kazoo alone: list, and read every pointer", f"{read:.2f} s", "1.00"),
        (f"select: {BAD} bad ones read in full, the next chosen", f"{chosen:.2f} s", f"{chosen / read:.2f}"),
    ]
    show(f"{count:,} checkpoints, median of {rounds} pairs", ("what", "median", "ratio"), rows)


if __name__ == "__main__":
    main()
