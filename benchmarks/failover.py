"""Time without a batch after kill -9 of a driver: a loop by hand, ours, with a standby driver, and through Airflow.

One script counts rows per key with state. The baseline is a shell loop around ``spark-submit`` with the same conf, the
least that a user has. Each round starts a fresh job of each kind, one at a time, waits for its third commit, kills the
driver's Python (every other round its JVM) and waits for the first new commit. Defaults everywhere.

``--airflow`` adds a kind: a DAG with one submit operator on a real Airflow, which then is up, and idle, during
all rounds. ``--slow-store`` keeps all checkpoints in a real S3 server, behind a proxy that delays each answer by 30 ms.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.testing.waiting import wait_until
from benchmarks.failover_sides import (
    PATIENCE,
    REPOSITORY,
    ByHand,
    Managed,
    Side,
    SlowStore,
    ThroughAirflow,
    WithStandby,
)
from benchmarks.local_recovery import slow_proxy
from benchmarks.shared import command, effort, median, show
from tests.support.s3.s3_server import real_server
from tests.support.spark.layered_job import on_s3
from tests.support.spark.supervised_job import recoverer
from tests.system.small_airflow import SmallAirflow, alive


COMMITS = 3  # before a kill: the job is warm, and has state


def failover(side: Side, job_id: str, *, jvm: bool) -> float:
    """Return the seconds from the kill of a fresh job's driver to its first new commit."""
    side.start(job_id)
    try:
        wait_until(lambda: side.committed() >= COMMITS, timeout=PATIENCE, what=f"{COMMITS} commits of {job_id}")
        python = side.driver()
        parent = psutil.Process(python.ppid())
        began = time.monotonic()
        (parent if jvm else python).kill()
        wait_until(lambda: not alive(parent) and not alive(python), timeout=60, what="the driver's end", interval=0.02)
        before = side.committed()  # what the dead driver has committed: its JVM outlives its Python for a moment
        wait_until(lambda: side.committed() > before, timeout=PATIENCE, what=f"a commit of {job_id}", interval=0.02)
        return time.monotonic() - began
    finally:
        side.stop()


def main() -> None:
    """Measure and print."""
    parser = command(__doc__)
    parser.add_argument("--airflow", action="store_true", help="another kind, through a real Airflow")
    parser.add_argument("--slow-store", action="store_true", help="checkpoints on S3, with 30 ms for each request")
    options = parser.parse_args()
    rounds = effort(options, pairs=5).pairs
    arguments = ["1000", "100"] if options.quick else ["20000", "100000"]
    took: dict[str, list[float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sides = list(started(stack, folder, arguments, airflow=options.airflow, slow=options.slow_store))
        for number in range(rounds):
            for side in sides[:: 1 if number % 2 == 0 else -1]:
                seconds = failover(side, f"round-{number}", jvm=number % 2 == 1)
                took.setdefault(side.name, []).append(seconds)
                print(f"round {number + 1}: {side.name}: {seconds:.1f} s", flush=True)
    base = median(took[sides[0].name])
    show(
        f"kill -9 of the driver to the first new commit, {rounds} alternating rounds",
        ("", "median s", "min", "max", "ratio"),
        [row(side.name, took[side.name], base) for side in sides],
    )


def started(stack: ExitStack, folder: Path, arguments: list[str], *, airflow: bool, slow: bool) -> Iterator[Side]:
    """Start the servers, and return the sides; the first one is the baseline."""
    server = stack.enter_context(EmbeddedZooKeeper(folder / "zk"))
    config = HaConfig.build(zookeeper=server.hosts, storage_root=(folder / "storage").as_uri())
    store = None
    if slow:
        s3 = stack.enter_context(real_server())
        endpoint, _ = stack.enter_context(slow_proxy(s3.endpoint))
        config = on_s3(config, s3, folder)
        store = SlowStore(s3, endpoint, open_work_area(config))
        config = config.model_copy(update={"s3": s3.options(endpoint)})
    client = stack.enter_context(HaClient.open(config))
    stack.enter_context(recoverer(config))
    yield ByHand(folder, arguments, store)
    yield Managed(client, arguments, store)
    yield WithStandby(client, arguments, store)
    if airflow:
        servers = stack.enter_context(SmallAirflow(REPOSITORY / "build" / "bench-airflow").running("failover"))
        yield ThroughAirflow(servers, stack.enter_context(HaClient.open(servers.config)), arguments)


def row(name: str, seconds: list[float], base: float) -> tuple[str, ...]:
    """Return one line of the table."""
    middle = median(seconds)
    return (name, f"{middle:.1f}", f"{min(seconds):.1f}", f"{max(seconds):.1f}", f"{middle / base:.2f}")


if __name__ == "__main__":
    main()
