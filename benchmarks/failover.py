"""Time without a batch after kill -9 of a driver: a loop by hand, and ours, cold, with a class archive and a standby.

One script counts rows per key with state. The baseline is a shell loop around ``spark-submit`` with the same conf, the
least that a user has. Each round starts a fresh job of each kind, one at a time, waits for its third commit, kills the
driver's Python (every other round its JVM) just after a commit, and waits for the first new one. Defaults everywhere,
except that one kind alone has a class archive. The last kind loses nothing: its driver hands over, and the figure is
the longest time between two commits, of which a second is the script's trigger.

``--airflow`` adds a kind: a DAG with one submit operator on a real Airflow, which then is up, and idle, during
all rounds. ``--slow-store`` keeps all checkpoints in a real S3 server, behind a proxy that delays each answer by 30 ms.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
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
    WithArchive,
    WithHandOver,
    WithStandby,
)
from benchmarks.local_recovery import slow_proxy
from benchmarks.shared import command, effort, median, show
from tests.support.s3.s3_server import real_server
from tests.support.spark.layered_job import on_s3
from tests.support.spark.supervised_job import recoverer
from tests.system.small_airflow import SmallAirflow, alive


COMMITS = 3  # before a kill: the job is warm, and has state
IDLE_SECONDS = 20.0  # for which a standby driver that waits is watched


@dataclass(frozen=True)
class Failover:
    """One recovery.

    :param commit: Seconds from the kill to the first new commit.
    :param start: Seconds from the kill to the start of the script's query; not a number if it is not known.
    :param cpu: Processor seconds of the whole machine until that commit.
    """

    commit: float
    start: float
    cpu: float


def failover(side: Side, job_id: str, *, jvm: bool) -> Failover:
    """Measure the recovery of a fresh job."""
    side.start(job_id)
    try:
        wait_until(lambda: side.committed() >= COMMITS, timeout=PATIENCE, what=f"{COMMITS} commits of {job_id}")
        if isinstance(side, WithHandOver):
            return pause(side)
        python = side.driver()
        if isinstance(side, WithStandby):
            print(waiting(side), flush=True)
        parent = psutil.Process(python.ppid())
        wait_until(partial(new_commit, side, side.committed()), timeout=PATIENCE, what="a commit", interval=0.02)
        began, at, used = time.monotonic(), time.time(), busy()
        (parent if jvm else python).kill()
        wait_until(lambda: not alive(parent) and not alive(python), timeout=60, what="the driver's end", interval=0.02)
        before = side.committed()  # what the dead driver has committed: its JVM outlives its Python for a moment
        wait_until(partial(new_commit, side, before), timeout=PATIENCE, what=f"a commit of {job_id}", interval=0.02)
        return Failover(time.monotonic() - began, side.started_at() - at, busy() - used)
    finally:
        side.stop()


def pause(side: WithHandOver) -> Failover:
    """Measure the longest time between two commits while a standby driver takes over as planned.

    :returns: That time is in place of the one from a kill; nothing tells when the query started.
    """
    side.driver()
    epoch = side.epoch()
    commits = [side.committed()]
    times: list[float] = []

    def has_seen_commits(number: int) -> bool:
        if new_commit(side, commits[-1]):
            commits.append(side.committed())
            times.append(time.monotonic())
        return len(times) >= number

    wait_until(lambda: has_seen_commits(1), timeout=PATIENCE, what="a commit", interval=0.02)
    used = busy()
    side.hand_over()
    wait_until(
        lambda: has_seen_commits(2) and side.epoch() > epoch, timeout=PATIENCE, what="the next epoch", interval=0.02
    )
    wait_until(partial(has_seen_commits, len(times) + 2), timeout=PATIENCE, what="its commits", interval=0.02)
    return Failover(max(later - earlier for earlier, later in pairwise(times)), math.nan, busy() - used)


def new_commit(side: Side, before: int) -> bool:
    """Return whether there is a commit after *before*."""
    return side.committed() > before


def busy() -> float:
    """Return the processor seconds that the machine has used."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.steal - times.guest - times.guest_nice)


def waiting(side: WithStandby) -> str:
    """Return the memory of a standby driver that waits, and its share of a core."""
    processes = side.waiting()
    before = [each.cpu_times() for each in processes]
    time.sleep(IDLE_SECONDS)
    memory = sum(each.memory_full_info().pss for each in processes)
    after = [each.cpu_times() for each in processes]
    used = sum(end.user + end.system - begin.user - begin.system for begin, end in zip(before, after, strict=True))
    return f"standby driver that waits: {memory / 1e9:.2f} GB (PSS), {100 * used / IDLE_SECONDS:.1f} % of a core"


def main() -> None:
    """Measure and print."""
    parser = command(__doc__)
    parser.add_argument("--airflow", action="store_true", help="another kind, through a real Airflow")
    parser.add_argument("--slow-store", action="store_true", help="checkpoints on S3, with 30 ms for each request")
    parser.add_argument("--keys", type=int, default=100_000, help="keys of the state; 100,000 by default")
    options = parser.parse_args()
    rounds = effort(options, pairs=5).pairs
    arguments = ["1000", "100"] if options.quick else ["20000", str(options.keys)]
    took: dict[str, list[Failover]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sides = list(started(stack, folder, arguments, airflow=options.airflow, slow=options.slow_store))
        for number in range(rounds):
            for side in sides[:: 1 if number % 2 == 0 else -1]:
                found = failover(side, f"round-{number}", jvm=number % 2 == 1)
                took.setdefault(side.name, []).append(found)
                load = os.getloadavg()[0]
                print(f"round {number + 1}: {side.name}: {found.commit:.1f} s, load {load:.1f}", flush=True)
    base = median([each.commit for each in took[sides[0].name]])
    show(
        f"kill -9 of the driver to the first new commit, {rounds} alternating rounds",
        ("", "median s", "min", "max", "ratio", "start() s", "processor s"),
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
    yield WithArchive(client, arguments, store)
    yield WithStandby(client, arguments, store)
    yield WithHandOver(client, arguments, store)
    if airflow:
        servers = stack.enter_context(SmallAirflow(REPOSITORY / "build" / "bench-airflow").running("failover"))
        yield ThroughAirflow(servers, stack.enter_context(HaClient.open(servers.config)), arguments)


def row(name: str, found: list[Failover], base: float) -> tuple[str, ...]:
    """Return one line of the table."""
    seconds = [each.commit for each in found]
    middle, start, cpu = median(seconds), median([each.start for each in found]), median([each.cpu for each in found])
    shown = "" if math.isnan(start) else f"{start:.2f}"
    spread = (f"{middle:.1f}", f"{min(seconds):.1f}", f"{max(seconds):.1f}")
    return (name, *spread, f"{middle / base:.2f}", shown, f"{cpu:.1f}")


if __name__ == "__main__":
    main()
