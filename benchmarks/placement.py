"""Partitions that return to their host after the loss of a driver, with and without local copies of state.

Two jobs on a standalone cluster of two test hosts with one executor each, checkpoints on a real S3 server: with
``local_recovery`` the new driver tells Spark which host has the copies of which partition, without it Spark decides
alone. A partition is where an executor has its RocksDB instance open; it returns if the next driver's executor on the
same host opens it. The job runs alone, one after the other, and loses its driver's JVM in each round.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.driver.spark_conf import FORMAT_VERSION, PROVIDER, ROCKSDB
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.testing.waiting import wait_until
from benchmarks.failover_sides import CONF, PATIENCE, SCRIPT
from benchmarks.host_loss import Measured
from benchmarks.shared import effort, show
from tests.support.clusters.standalone_cluster import StandaloneCluster, standalone_cluster
from tests.support.s3.s3_server import real_server
from tests.support.spark.layered_job import on_s3, s3a_class_path
from tests.support.spark.supervised_job import recoverer
from tests.system.harness.observer import JobObserver


PARTITIONS = 8
_INSTANCE = re.compile(r"StateStoreId\(opId=\d+,partId=(\d+),")
TWO_EXECUTORS = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    # Otherwise the first batch may begin with one executor, which then has all partitions.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    PROVIDER: ROCKSDB,
    FORMAT_VERSION: "2",
}


def places(cluster: StandaloneCluster) -> dict[int, str]:
    """Return the host of each partition that an executor has open."""
    found: dict[int, str] = {}
    for host in cluster.hosts:
        for executor in host.executors():
            with suppress(psutil.Error):
                for file in executor.open_files():
                    if (instance := _INSTANCE.search(file.path)) is not None:
                        found[int(instance[1])] = host.name
    return found


def all_places(cluster: StandaloneCluster) -> dict[int, str]:
    """Wait until each partition is open somewhere."""

    def complete() -> dict[int, str] | None:
        found = places(cluster)
        return found if len(found) == PARTITIONS else None

    return wait_until(complete, timeout=PATIENCE, what="all partitions")


def returned(client: HaClient, cluster: StandaloneCluster, config: HaConfig, *, copies: bool, rounds: int) -> list[int]:
    """Run a job, and return how many partitions came back after each loss of its driver."""
    job_id = "with-copies" if copies else "without"
    target = cluster.target(client.config)
    options = HaOptions(
        allow_remote_executors=True,
        local_recovery=copies,
        local_recovery_dir=str(cluster.hosts[0].mount_point / "copies") if copies else None,
    )
    client.job(job_id).submit(
        JobSpec(
            job_id=job_id,
            request_id="benchmark",
            application=str(SCRIPT),
            arguments=["1000", "1000"],
            conf=CONF | s3a_class_path() | TWO_EXECUTORS,
            master=target.master,
            engine=target.engine,
            engine_options=target.engine_options,
            driver_memory="1g",
            ha=options,
        )
    )
    job = Measured(cluster, JobObserver(config, client.coordinator, job_id, open_work_area(config)))
    counts: list[int] = []
    for number in range(rounds):
        host = job.warm()
        before = all_places(cluster)
        submission_id = job.newest().submission.submission_id
        job.lose(next(each for each in host.supervisor_of(submission_id).children() if each.name() == "java").kill)
        job.warm()
        after = all_places(cluster)
        counts.append(sum(after[partition] == place for partition, place in before.items()))
        print(f"{job_id}, round {number + 1}: {counts[-1]} of {PARTITIONS} returned", flush=True)
    client.job(job_id).request_cancel(operation_id=new_id(), requested_by="benchmark")
    wait_until(
        lambda: not any(host.executors() for host in cluster.hosts), timeout=PATIENCE, what="the end of the executors"
    )
    return counts


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=3)
    logging.disable(logging.WARNING)  # connections that break are what this is about
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(EmbeddedZooKeeper(folder / "zk"))
        local = HaConfig.build(zookeeper=server.hosts, storage_root=(folder / "storage").as_uri())
        config = on_s3(local, stack.enter_context(real_server()), folder)
        cluster = stack.enter_context(standalone_cluster(folder / "cluster", hosts=2))
        client = stack.enter_context(HaClient.open(config))
        stack.enter_context(recoverer(config))
        found = {
            copies: returned(client, cluster, config, copies=copies, rounds=given.pairs) for copies in (False, True)
        }
    base = sum(found[False]) or 1
    show(
        f"partitions of {PARTITIONS} that return, {given.pairs} losses each, load {os.getloadavg()[0]:.1f}",
        ("", "returned", "share", "ratio"),
        [
            (
                "with local copies" if copies else "Spark alone",
                f"{sum(counts)} of {PARTITIONS * len(counts)}",
                f"{sum(counts) / PARTITIONS / len(counts):.0%}",
                f"{sum(counts) / base:.2f}",
            )
            for copies, counts in found.items()
        ],
    )


if __name__ == "__main__":
    main()
