"""Requests per day of a job on S3, by how often its batches come, against the same query without this package.

A managed job with state (RocksDB, 4 partitions, 1,000 keys, every option at its default) has its storage and its
working directories on a real S3 server. A proxy counts for a while, from one commit to another one; a day is so many
times as long. What a driver does once an hour (it looks for files that nothing needs) is counted apart, and added 24
times. The baseline is the same plan with Spark's own manager for S3, whose requests of a batch are counted in the same
run. Prices are those of S3 Standard in us-east-1 (2025): 0.005 USD for 1,000 PUT or LIST, 0.0004 USD for 1,000 GET or
HEAD; a DELETE costs nothing.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.removal.cleanup import collect_job
from airflow_provider_ha.testing.waiting import wait_until
from benchmarks.component_batches import SPARK, requests_of_a_batch
from benchmarks.counted import KINDS, counting_proxy
from benchmarks.failover_sides import CONF, PATIENCE, QUERY, SCRIPT
from benchmarks.shared import repeat, show
from tests.support.s3.s3_server import S3Access, real_server
from tests.support.spark.layered_job import s3a_class_path
from tests.system.harness.observer import JobObserver


DAY = 86_400.0
_WARM = 3  # batches before the first that counts
_USD = dict.fromkeys(("PUT", "POST", "LIST"), 5e-6) | dict.fromkeys(("GET", "HEAD"), 4e-7)


@dataclass(frozen=True)
class Pace:
    """How often the batches of a job come.

    :param seconds: Between two of them.
    :param batches: That are counted.
    """

    seconds: int
    batches: int


def config_of(s3: S3Access, endpoint: str, zookeeper: str, folder: Path) -> HaConfig:
    """Return a cluster that has everything in one new bucket."""
    bucket = s3.new_bucket()
    return HaConfig.model_validate(
        {
            "zookeeper": zookeeper,
            "storage_root": f"s3://{bucket}/storage",
            "work_root": f"s3://{bucket}/work",
            "home_root": (folder / bucket).as_uri(),
            "s3": s3.options(endpoint),
        }
    )


def of_a_day(client: HaClient, observer: JobObserver, counts: Counter[str], pace: Pace) -> Counter[str]:
    """Run the job of an observer, and return the requests of a day.

    :param observer: Its own requests are not counted.
    """
    job = client.job(observer.job_id)
    job.submit(
        JobSpec(
            job_id=job.job_id,
            request_id="benchmark",
            application=str(SCRIPT),
            arguments=["1000", "1000", f"{pace.seconds} seconds"],
            conf=CONF | s3a_class_path(),
            master="local[2]",
            driver_memory="1g",
        )
    )
    first = committed(observer, _WARM)
    began, before = time.monotonic(), Counter(counts)
    committed(observer, first + pace.batches)
    times = DAY / (time.monotonic() - began)
    running = {kind: (counts[kind] - before[kind]) * times for kind in counts}
    before = Counter(counts)
    collect_job(client.context(job.job_id), dry_run=True)
    hourly = {kind: (counts[kind] - before[kind]) * 24 for kind in counts}
    job.request_cancel(operation_id="end", requested_by="benchmark")
    wait_until(lambda: ended(job), timeout=PATIENCE, what="the end of the job")
    return Counter({kind: round(running[kind] + hourly[kind]) for kind in counts})


def ended(job: JobClient) -> bool:
    """Whether the supervisor of the job has nothing left to do."""
    run = job.snapshot().run
    return run is not None and run.newest is not None and run.newest.exit is not None


def committed(observer: JobObserver, batch: int) -> int:
    """Wait until a batch is committed; returns the last one."""

    def last() -> int:
        try:
            return progress(observer.directory() / QUERY).committed
        except LookupError:  # it has no directory yet
            return -1

    wait_until(lambda: last() >= batch, timeout=PATIENCE, what=f"batch {batch}")
    return last()


def usd(requests: Mapping[str, float]) -> float:
    """Return what 30 days cost."""
    return 30 * sum(_USD.get(kind, 0.0) * number for kind, number in requests.items())


def row(pace: Pace, name: str, requests: Mapping[str, float], baseline: float) -> tuple[str, ...]:
    """Return one line of the table."""
    numbers = (f"{requests.get(kind, 0):,.0f}" for kind in KINDS)
    return f"{pace.seconds} s", name, *numbers, f"{usd(requests):,.2f}", f"{usd(requests) / baseline:.2f}"


def measure_once(quick: bool) -> None:
    """Measure and print."""
    paces = [Pace(1, 90), Pace(10, 18), Pace(60, 4)]
    batches = 100
    if quick:
        paces, batches = [Pace(1, 2)], 3
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    logging.disable(logging.WARNING)  # the ends of jobs
    rows: list[tuple[str, ...]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.chdir(folder)  # where Spark leaves what it leaves
        server = stack.enter_context(EmbeddedZooKeeper(folder / "zk"))
        s3 = stack.enter_context(real_server())
        endpoint, counts = stack.enter_context(counting_proxy(s3.endpoint))
        config = config_of(s3, endpoint, server.hosts, folder)
        direct = config.model_copy(update={"s3": s3.options()})
        client = stack.enter_context(HaClient.open(config))
        plain = requests_of_a_batch(SPARK, s3, batches)
        for pace in paces:
            observer = JobObserver(direct, client.coordinator, f"every-{pace.seconds}", open_work_area(direct))
            alone = {kind: number * DAY / pace.seconds for kind, number in plain.items()}
            rows.append(row(pace, "Spark alone", alone, usd(alone)))
            rows.append(row(pace, "the job", of_a_day(client, observer, counts, pace), usd(alone)))
            print(f"measured: a batch every {pace.seconds} s", flush=True)
    show("requests of a day", ("a batch every", "", *KINDS, "USD in 30 days", "ratio"), rows)


if __name__ == "__main__":
    repeat(__doc__, measure_once)
