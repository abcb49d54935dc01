"""What tests of standby drivers on a standalone cluster share: how one is awaited, and who else uses the cluster."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import psutil

from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel
from airflow_provider_ha.jobs.submit.standby_launch import launch_standbys
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.standalone_cluster import HOST, StandaloneCluster, TestHost, command_of
from tests.support.clusters.standalone_requests import PATIENCE, await_output, newest
from tests.support.spark.driver_helpers import Stream


HOLDS_CORES = """
import sys
from pyspark.sql import SparkSession
conf = dict(pair.split("=") for pair in sys.argv[1:])
spark = SparkSession.builder.appName("other").config(map=conf).getOrCreate()
sys.stdin.read()
spark.stop()
"""
_APPLICATION = re.compile(r"--app-id (\S+)")


def ready(job: JobClient) -> Standby:
    """Wait until a standby driver has a warm session with an executor."""
    return all_ready(job, 1)[0]


def all_ready(job: JobClient, count: int) -> list[Standby]:
    """Wait until so many standby drivers have one."""

    def found() -> list[Standby] | None:
        warm = [each for each in job.standbys(job.snapshot()) if each.level is StandbyLevel.SESSION]
        return warm if len(warm) >= count else None

    return wait_until(found, timeout=PATIENCE, what=f"{count} standby drivers")


def await_standby(job: JobClient, level: StandbyLevel, note: str) -> Standby:
    """Wait until a standby driver has a level, with a note that begins so."""

    def found() -> Standby | None:
        living = job.standbys(job.snapshot())
        return next((each for each in living if each.level is level and each.note.startswith(note)), None)

    return wait_until(found, timeout=PATIENCE, what=f"a standby driver with the note {note!r}")


def await_takeover(job: JobClient, stream: Stream, standby: Standby) -> None:
    """Wait until the standby driver leads, and has committed what came in the meantime."""
    stream.feed(1)
    wait_until(lambda: newest(job).submission_id == standby.standby_id, timeout=PATIENCE, what="the takeover")
    await_output(stream)


def request_standbys(job: JobClient) -> int:
    """Start the standby drivers that the newest run lacks, as the cluster's leader does; return how many."""
    run = job.snapshot().run
    assert run is not None
    context = job._job
    return launch_standbys(context, run.run, context.engines.get("standalone"))


def driver_on(host: TestHost, submission_id: str) -> list[psutil.Process]:
    """Return the processes below a supervisor: JVM and Python of its driver."""
    starts_driver = (each for each in host.of(submission_id) if "supervisor.main" in command_of(each))
    supervisor = next(each for each in starts_driver if "DriverWrapper" not in command_of(each))
    return supervisor.children(recursive=True)


def kill_at_once(processes: list[psutil.Process]) -> None:
    """Kill processes so that none of them sees the death of another one."""
    for process in processes:
        process.suspend()
    for process in processes:
        process.kill()


def executors_of(cluster: StandaloneCluster) -> Counter[str]:
    """Return the number of executors of each application of a cluster."""
    commands = (command_of(each) for host in cluster.hosts for each in host.executors())
    return Counter(found[1] for command in commands if (found := _APPLICATION.search(command)) is not None)


def await_cores(cluster: StandaloneCluster, count: int, what: str) -> None:
    """Wait until drivers and executors hold so many cores."""
    wait_until(lambda: cluster.cores_used == count, timeout=PATIENCE, what=f"{what}: {count} cores", interval=0.5)


@contextlib.contextmanager
def other_application(cluster: StandaloneCluster, cores: int) -> Iterator[None]:
    """Have another application hold so many cores until the block ends."""
    before = cluster.cores_used or 0
    conf = {
        "spark.master": cluster.url,
        "spark.cores.max": str(cores),
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.ui.enabled": "false",
    }
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    pairs = [f"{key}={value}" for key, value in conf.items()]
    command = [sys.executable, "-c", HOLDS_CORES, *pairs]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=plain | {"SPARK_LOCAL_IP": HOST}) as process:
        await_cores(cluster, before + cores, "another application")
        try:
            yield
        finally:
            process.communicate()  # the end of its input ends it
