"""Takeovers that are interrupted: a driver is killed or frozen while it takes over, and another one goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome
from airflow_provider_ha.jobs.model import Generation, JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.layered_job import LayeredJob
from tests.support.spark.supervised_job import FAST_POLL, SupervisedJob


QUICKLY_READY = {"spark.extraListeners": "org.apache.spark.scheduler.StatsReportListener"}
"""Conf of a job whose standby drivers make no session in advance, and are ready within seconds."""

Seen = Callable[[SupervisedJob, int], bool]


def granted(job: SupervisedJob, epoch: int) -> bool:
    return job.job.snapshot().epoch >= epoch


def fenced(job: SupervisedJob, epoch: int) -> bool:
    """The directory of the lost epoch has another name. On a store: a slot in its log, written before the base."""
    if isinstance(job, LayeredJob):
        return job.key(epoch) is not None
    return any(job.live.glob(f"e{epoch - 1}-*.dead"))


def forked(job: SupervisedJob, epoch: int) -> bool:
    if isinstance(job, LayeredJob):
        return job.key(epoch) is not None
    return job.working(epoch) is not None


def current(job: SupervisedJob, epoch: int) -> bool:
    found = read_record(job.client.coordinator, job.client.paths.job(job.job_id).generation, Generation)
    return found is not None and found[0].epoch >= epoch


def started(job: SupervisedJob, epoch: int) -> bool:  # the newest submission has it
    return home(job).started.exists()


def planned(job: SupervisedJob, epoch: int) -> bool:
    progress = job.progress(epoch, job.queries[0])
    return progress.planned > progress.committed


def committed(job: SupervisedJob, epoch: int) -> bool:  # as above
    return home(job).committed.exists()


def home(job: SupervisedJob) -> DriverHome:
    """Home of the newest submission."""
    newest = job.run.newest
    assert newest is not None
    assert newest.started is not None
    return DriverHome(Path(newest.started.handle.log_path).parent)


MOMENTS: dict[str, Seen] = {
    "granted": granted,
    "fenced": fenced,
    "forked": forked,
    "current": current,
    "started": started,
    "planned": planned,
    "committed": committed,
}


@contextmanager
def stopped(processes: list[psutil.Process]) -> Iterator[None]:
    """Freeze processes for the time of the block."""
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


def await_ready(job: SupervisedJob, number: int) -> None:
    def ready() -> bool:
        return sum(each.is_ready for each in job.standbys().living()) >= number

    wait_until(ready, timeout=2 * PATIENCE, what=f"{number} standby drivers", interval=0.5)
    job.await_alive(lambda: job.job.snapshot().state is JobState.RUNNING, "the job to be RUNNING")


def interrupt(job: SupervisedJob, seen: Seen, *, kill: bool) -> range:
    """Kill the leader; kill or freeze the standby driver that takes over, once a moment of its takeover is *seen*.

    :returns: The epochs from that of the killed leader to that which has read a new file.
    """
    lost = job.job.snapshot().epoch
    epoch = lost + 1
    job.stream.feed(1)
    job.jvm().kill()
    wait_until(lambda: granted(job, epoch), timeout=PATIENCE, what="a takeover", interval=FAST_POLL)
    victims = [job.jvm(), job.python()]
    wait_until(lambda: seen(job, epoch), timeout=PATIENCE, what="the moment", interval=FAST_POLL)
    if kill:
        for process in victims:
            process.kill()
        return range(lost, next_reader(job, epoch) + 1)
    with stopped(victims):
        found = next_reader(job, epoch)
    wait_until(lambda: not any(map(psutil.Process.is_running, victims)), timeout=PATIENCE, what="its end")
    return range(lost, found + 1)


def next_reader(job: SupervisedJob, epoch: int) -> int:
    """Wait until a driver after *epoch* has read everything, and return its epoch."""
    wait_until(lambda: job.job.snapshot().epoch > epoch, timeout=PATIENCE, what="the next takeover")
    found = job.job.snapshot().epoch
    job.await_read(found)
    return found


def play(job: SupervisedJob, submit: Callable[[], None]) -> dict[int, range]:
    """Submit a job, and interrupt a takeover at each moment, with each signal.

    :returns: File of the stream -> epochs that may have written it.
    """
    job.options = HaOptions(checkpoint_interval=0, standby_drivers=2, class_archive=False)
    job.stream.feed(2)
    submit()
    job.await_committed(1, 1)
    writers = dict.fromkeys(range(2), range(1, 2))

    for seen in MOMENTS.values():
        for kill in (True, False):
            await_ready(job, 2)
            writers[job.stream.files] = interrupt(job, seen, kill=kill)

    await_ready(job, 1)  # a drain is refused before the script has started its queries
    return writers
