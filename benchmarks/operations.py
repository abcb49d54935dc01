"""A savepoint of a running job and a stop with a checkpoint, end to end, against what a person does by hand.

A query with 20,000 keys in RocksDB (checkpoint format 2), a batch each second, on local disk and on S3. The savepoint:
from its request until it is complete and verified; by hand, a copy of all files of the running query's checkpoint (on
S3 inside of the store), which may be torn. The stop: from its request until the run is FINISHED with a checkpoint; by
hand, SIGTERM for the JVM until its processes have ended, in the middle of a batch. Each round starts every side anew.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.testing.waiting import wait_until
from benchmarks.failover_sides import PATIENCE, ByHand, Managed, SlowStore
from benchmarks.shared import effort, median, ratio, show
from tests.support.s3.s3_server import S3Access, real_server
from tests.support.spark.layered_job import on_s3


ARGUMENTS = ["20000", "20000"]
COMMITS = 5  # before the first measurement
LOOKS = 0.02  # seconds between two looks
Measured = dict[str, tuple[float, float]]  # seconds of a savepoint and of a stop, by side


def seconds(work: Callable[[], object]) -> float:
    """Return how long it took."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


class HandCopies:
    """Copies that a person takes of a running query."""

    def __init__(self, folder: Path, s3: S3Access | None) -> None:
        self._folder = folder
        self._s3 = s3

    def take(self, job_id: str) -> None:
        """Copy the checkpoint of a job as it is."""
        if self._s3 is None:
            # Files that Spark removes between the listing and the copy are what makes such a copy unsafe.
            shutil.copytree(self._folder / job_id, self._folder / f"{job_id}-copy", copy_function=_copy)
            return
        client = self._s3.client()
        buckets = client.list_buckets()["Buckets"]
        bucket = max(buckets, key=lambda each: each["CreationDate"])["Name"]
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="prefix/cluster/"):
            for each in page.get("Contents", []):
                if each["Key"].endswith("/"):
                    continue  # a directory of S3A, without content
                source = {"Bucket": bucket, "Key": each["Key"]}
                client.copy_object(Bucket=bucket, Key=f"copy/{each['Key']}", CopySource=source)
        client.close()


def _copy(source: str, target: str) -> None:
    if Path(source).exists():
        shutil.copyfile(source, target)


def by_hand(side: ByHand, copies: HandCopies, job_id: str) -> tuple[float, float]:
    """Measure the side of a person."""
    side.start(job_id)
    wait_until(lambda: side.committed() >= COMMITS, timeout=PATIENCE, what=f"commits of {job_id}")
    copied = seconds(lambda: copies.take(job_id))
    stopped = seconds(side.terminate)
    return copied, stopped


def managed(side: Managed, client: HaClient, job_id: str) -> tuple[float, float]:
    """Measure the job."""
    side.start(job_id)
    wait_until(lambda: side.committed() >= COMMITS, timeout=PATIENCE, what=f"commits of {job_id}")
    job = client.job(job_id)

    def savepoint() -> None:
        job.take_savepoint(operation_id="savepoint", requested_by="benchmark")
        done = wait_until(
            lambda: found if (found := job.operation("savepoint")) is not None and found.state.final else None,
            timeout=PATIENCE,
            interval=LOOKS,
            what="the savepoint",
        )
        if done.error:
            raise RuntimeError(done.error)

    def stop() -> None:
        job.request_stop(operation_id="stop", requested_by="benchmark")
        wait_until(
            lambda: (run := job.snapshot().run) is not None and run.result is not None,
            timeout=PATIENCE,
            interval=LOOKS,
            what="the end of the run",
        )

    return seconds(savepoint), seconds(stop)


def rounds(store: str, config: HaConfig, s3: S3Access | None, folder: Path, pairs: int) -> list[tuple[str, ...]]:
    """Measure on one store; return the rows of the table."""
    slow = None if s3 is None else SlowStore(s3, s3.endpoint, open_work_area(config))
    found: list[Measured] = []
    with HaClient.open(config) as client:
        hand, ours = ByHand(folder, ARGUMENTS, slow), Managed(client, ARGUMENTS, slow)
        for number in range(pairs):
            job_id = f"{store}-{number}"
            measured: Measured = {}
            for name in ("hand", "ours")[:: 1 if number % 2 == 0 else -1]:
                copies = HandCopies(folder, s3)
                measured[name] = by_hand(hand, copies, job_id) if name == "hand" else managed(ours, client, job_id)
            found.append(measured)
            print(f"{store}: round {number + 1} of {pairs}", flush=True)
    rows: list[tuple[str, ...]] = []
    for index, what in enumerate(("savepoint", "stop")):
        alone, job = ([each[name][index] for each in found] for name in ("hand", "ours"))
        rows.append((store, what, f"{median(alone):.2f} s", f"{median(job):.2f} s", f"{ratio(alone, job):.2f}"))
    return rows


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=5)
    rows: list[tuple[str, ...]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(EmbeddedZooKeeper(folder / "zk"))
        local = HaConfig.build(zookeeper=server.hosts, storage_root=(folder / "storage").as_uri())
        rows += rounds("disk", local, None, folder, given.pairs)
        s3 = stack.enter_context(real_server())
        remote = on_s3(local.model_copy(update={"cluster_id": "remote"}), s3, folder)
        rows += rounds("S3", remote, s3, folder, given.pairs)
    show(
        f"medians of {given.pairs} rounds, load {os.getloadavg()[0]:.1f}",
        ("store", "what", "by hand", "the job", "ratio"),
        rows,
    )


if __name__ == "__main__":
    main()
