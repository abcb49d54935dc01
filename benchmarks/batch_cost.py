"""The time of a batch of one script, by ``spark-submit`` and as a job of this package.

A query with 1,000 keys in RocksDB (checkpoint format 2, two partitions) on local disk, at triggers of 100 ms, 300 ms
and 1 s. Each round starts a new driver for each side. The job publishes a pointer for each batch, and takes checkpoints
at the default interval. The goals are 1 % and 3 ms for each batch.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.testing.waiting import wait_until
from benchmarks.failover_sides import PATIENCE, ByHand, Managed
from benchmarks.shared import effort, median, ratio, show


SCRIPT = Path(__file__).parents[1] / "tests" / "apps" / "system" / "batch_times.py"
PACES = ("0.1", "0.3", "1")
Times = dict[str, list[float]]


def play(side: ByHand | Managed, job_id: str, into: Path) -> Times:
    """Run the script on one side to the end of its measurement."""
    side.start(job_id)
    wait_until(into.exists, timeout=PATIENCE * 2, what=f"the times of {job_id}")
    side.stop()
    times: Times = json.loads(into.read_text(encoding="utf-8"))
    into.unlink()
    return times


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=5)
    batches = 5 if given.quick else 30
    pairs: list[tuple[Times, Times]] = []
    with tempfile.TemporaryDirectory() as name, EmbeddedZooKeeper(Path(name) / "zk") as server:
        folder = Path(name)
        into = folder / "times.json"
        arguments = [str(into), str(batches), ",".join(PACES)]
        config = HaConfig.build(zookeeper=server.hosts, storage_root=(folder / "storage").as_uri())
        with HaClient.open(config) as client:
            plain, managed = ByHand(folder, arguments, script=SCRIPT), Managed(client, arguments, script=SCRIPT)
            for number in range(given.pairs):
                order = (plain, managed) if number % 2 == 0 else (managed, plain)
                times = {side.name: play(side, f"round-{number}", into) for side in order}
                pairs.append((times[plain.name], times[managed.name]))
                print(f"round {number + 1} of {given.pairs}", flush=True)
    rows = []
    for pace in PACES:
        alone, ours = ([median(times[pace]) for times in side] for side in zip(*pairs, strict=True))
        differences = [second - first for first, second in zip(alone, ours, strict=True)]
        rows.append(
            (
                f"{float(pace):g} s",
                f"{median(alone):.0f} ms",
                f"{median(ours):.0f} ms",
                f"{median(differences):+.1f} ms ({min(differences):+.0f} to {max(differences):+.0f})",
                f"{ratio(alone, ours):.2f}",
            )
        )
    show(
        f"medians of {batches} batches in {given.pairs} pairs of runs, load {os.getloadavg()[0]:.1f}",
        ("trigger", "spark-submit", "the job", "difference of the pairs", "ratio"),
        rows,
    )


if __name__ == "__main__":
    main()
