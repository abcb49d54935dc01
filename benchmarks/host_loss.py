"""From the loss of a host to the first commit on another one, by phase, against the loss of the driver alone.

A job runs on a standalone cluster of two test hosts with its checkpoints on a real S3 server; ``spark-ha cluster
recover --watch`` recovers it. The baseline kills the driver's JVM: its supervisor proves the death, and starts the
next driver on the same host. Without the host there is no proof: the session has to expire. Rounds alternate; the lost
host comes back with an empty disk before the next one.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.testing.waiting import wait_until
from benchmarks.failover_sides import CONF, PATIENCE, SCRIPT
from benchmarks.shared import effort, median, show
from tests.support.clusters.standalone_cluster import StandaloneCluster, TestHost, command_of, standalone_cluster
from tests.support.s3.s3_server import real_server
from tests.support.spark.layered_job import on_s3, s3a_class_path
from tests.support.spark.supervised_job import recoverer
from tests.system.harness.faults import await_commit
from tests.system.harness.observer import JobObserver, progress


JOB = "counts"
COMMITS = 3  # of a driver, before the next loss
PHASES = (
    "the leadership is over",
    "the next attempt is claimed",
    "its supervisor runs",
    "its JVM has started its Python",
    "it leads",
    "its directory is forked",
    "its first commit",
)


@dataclass(frozen=True)
class Measured:
    """The job that is hit, and what sees it."""

    cluster: StandaloneCluster
    observer: JobObserver

    def newest(self) -> SubmissionView:
        """Return the newest submission."""
        view = self.observer.snapshot().run
        if view is None or view.newest is None:
            raise LookupError("the job was not submitted")
        return view.newest

    def warm(self) -> TestHost:
        """Wait until the driver has committed a few batches; returns its host."""
        epoch = wait_until(self.observer.leader_epoch, timeout=PATIENCE, what="a leader")
        wait_until(lambda: self._is_of(epoch), timeout=PATIENCE, what="its directory")
        directory = self.observer.directory()
        for _ in range(COMMITS):
            await_commit(directory, progress(directory))
        return self.cluster.host_of(self.newest().submission.submission_id)

    def lose(self, lose: Callable[[], None]) -> list[float]:
        """Return the seconds of each phase."""
        epoch, attempt = self.observer.leader_epoch(), self.newest().submission.attempt
        directory = self.observer.directory()
        began = time.monotonic()
        lose()
        before = progress(directory)
        steps: tuple[Callable[[], object], ...] = (
            lambda: self.observer.leader_epoch() != epoch,
            lambda: self.newest().submission.attempt > attempt,
            lambda: self.newest().started is not None,
            self._python,
            lambda: self.observer.leader_epoch() > epoch,
            lambda: self._is_of(self.observer.leader_epoch()),
        )
        moments = [began]
        for step, what in zip(steps, PHASES, strict=False):
            wait_until(step, timeout=PATIENCE, what=what, interval=0.01)
            moments.append(time.monotonic())
        await_commit(self.observer.directory(), before)
        moments.append(time.monotonic())
        return [later - earlier for earlier, later in pairwise(moments)]

    def _is_of(self, epoch: int) -> bool:
        try:
            return epoch > 0 and self.observer.directory().name.startswith(f"e{epoch}-")
        except LookupError:  # it has none yet
            return False

    def _python(self) -> bool:
        submission_id = self.newest().submission.submission_id
        of_it = [command_of(each) for host in self.cluster.hosts for each in host.of(submission_id)]
        return any("bootstrap.py" in words and "java" not in words.split(" ", 1)[0] for words in of_it)


def measure(job: Measured, config: HaConfig, rounds: int) -> tuple[list[list[float]], list[list[float]]]:
    """Return the phases of each loss of a driver, and of each loss of a host."""
    drivers, hosts = [], []
    for number in range(rounds):
        host = job.warm()
        submission_id = job.newest().submission.submission_id
        jvm = next(each for each in host.supervisor_of(submission_id).children() if each.name() == "java")
        drivers.append(job.lose(jvm.kill))
        host = job.warm()
        hosts.append(job.lose(host.lose))
        host.start()
        host.write_config(config)
        job.cluster.await_workers()
        print(f"round {number + 1}: driver {sum(drivers[-1]):.1f} s, host {sum(hosts[-1]):.1f} s", flush=True)
    return drivers, hosts


def submit(client: HaClient, cluster: StandaloneCluster, arguments: list[str]) -> None:
    """Submit the job, with executors on both hosts."""
    target = cluster.target(client.config)
    client.job(JOB).submit(
        JobSpec(
            job_id=JOB,
            request_id="benchmark",
            application=str(SCRIPT),
            arguments=arguments,
            conf=CONF | s3a_class_path() | {"spark.cores.max": "2", "spark.executor.memory": "512m"},
            master=target.master,
            engine=target.engine,
            engine_options=target.engine_options,
            driver_memory="1g",
            ha=HaOptions(allow_remote_executors=True),
        )
    )


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
        submit(client, cluster, ["1000", "100"] if given.quick else ["20000", "100000"])
        job = Measured(cluster, JobObserver(config, client.coordinator, JOB, open_work_area(config)))
        drivers, hosts = measure(job, config, given.pairs)
    rows = [
        row(name, [each[index] for each in drivers], [each[index] for each in hosts])
        for index, name in enumerate(PHASES)
    ]
    rows.append(row("all of it", [sum(each) for each in drivers], [sum(each) for each in hosts]))
    show(
        f"median seconds of {len(hosts)} alternating rounds, each phase from the end of the one before",
        ("until", "loss of the driver", "loss of its host", "ratio"),
        rows,
    )


def row(name: str, drivers: list[float], hosts: list[float]) -> tuple[str, ...]:
    """Return one line of the table; phases that take next to nothing have no ratio."""
    base, ours = median(drivers), median(hosts)
    return (name, f"{base:.2f}", f"{ours:.2f}", f"{ours / base:.2f}" if base >= 0.1 else "")  # noqa: PLR2004  # seconds


if __name__ == "__main__":
    main()
