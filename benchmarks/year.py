"""A simulated year of one job: what grows with its batches, losses and savepoints, and how long a recovery takes.

Every batch is written and recorded, every checkpoint pinned, published and subsumed, every savepoint copied, every loss
fenced, forked and led again, with a real ZooKeeper and real directories; only Spark is left out. A savepoint of a
schedule is kept until seven newer ones are there, and the first one of all is never disposed of. Options say how much
of a year is simulated; the table gives the figures of each month and the ratio of the last one to the first one. The
last two columns are a recovery: a snapshot, the lock, fence and fork, the first checkpoint; as time of the processor,
which other work on the machine does not change, and of the clock.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psutil

from airflow_provider_ha.checkpoints.model import CheckpointKind
from airflow_provider_ha.checkpoints.retained import archives
from airflow_provider_ha.checkpoints.retained.savepoints import SavepointRequest, SavepointStore
from airflow_provider_ha.checkpoints.retained.store import CheckpointStore
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.election import Leadership, acquire
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.driver import past_attempts
from airflow_provider_ha.driver.cleaning import Cleaning
from airflow_provider_ha.driver.housekeeping import Housekeeping
from airflow_provider_ha.driver.past_attempts import PastAttempts
from airflow_provider_ha.driver.publisher import Provenance, Publisher
from airflow_provider_ha.driver.start_point import prepare_start
from airflow_provider_ha.jobs.journal import JobJournal
from airflow_provider_ha.jobs.model import Generation, HaOptions, LeaderInfo
from airflow_provider_ha.jobs.runs import RunStore
from airflow_provider_ha.jobs.snapshot import read_snapshot
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open import open_store
from benchmarks.shared import show
from tests.jobs_helpers import NOON, a_run, a_start, a_submission, an_exit
from tests.recorded_job import QUERY
from tests.written_query import WrittenQuery


JOB, MONTHS = "flights", 12
YEAR = 365 * 86_400.0
KEPT = 7


@dataclass
class Year:
    """How much of a year is simulated."""

    batches: int
    losses: int
    savepoints: int
    per_checkpoint: int

    @property
    def seconds(self) -> float:
        """Simulated seconds between two batches."""
        return YEAR / self.batches


class SimulatedClock:
    """Both clocks stand still until they are moved on."""

    def __init__(self) -> None:
        self.at = 0.0
        self.start = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def lease_time(self) -> float:
        """Return the simulated seconds since the beginning."""
        return self.at

    def now(self) -> datetime:
        """Return the simulated time."""
        return self.start + timedelta(seconds=self.at)


@dataclass
class Month:
    """What was measured at the end of a month."""

    rss: int
    znodes: int
    payloads: int
    archives: int
    files: int
    bytes: int
    recovery: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


class Simulation:
    """The job, one driver after the other, all in this process."""

    def __init__(self, config: HaConfig, coordinator: Coordinator, year: Year) -> None:
        self.config, self.coordinator, self.year = config, coordinator, year
        self.clock = SimulatedClock()
        self.paths: JobPaths = ClusterPaths(config.root, config.cluster_id).job(JOB)
        self.keys, self.store = JobKeys(JOB), open_store(config)
        self.journal = JobJournal(self.store, self.keys)
        self.runs = RunStore(coordinator, self.paths)
        self.batch, self.attempt = -1, 0
        self.generation: Generation | None = None
        self.months: list[Month] = []
        self.recoveries: list[float] = []
        self.processor: list[float] = []
        coordinator.ensure(*self.paths.skeleton)
        coordinator.commit(self.runs.create_op(a_run()), Create(self.paths.submissions(1)))

    def live(self) -> None:
        """Live the year: losses and savepoints evenly spread over the batches."""
        year = self.year
        steps = sorted(
            [(at * year.batches // year.losses, "lose") for at in range(1, year.losses + 1)]
            + [(at * year.batches // year.savepoints, "save") for at in range(1, year.savepoints + 1)]
            + [(at * year.batches // MONTHS, "month") for at in range(1, MONTHS + 1)]
        )
        driver = Driver(self)
        for until, what in steps:
            driver.work(until)
            if what == "lose":
                driver.die()
                driver = Driver(self)
            elif what == "save":
                driver.save()
            else:
                self.months.append(self.measure())
        driver.die()

    def measure(self) -> Month:
        """Count what there is."""
        work = self.config.work_path
        sizes = [path.stat().st_size for path in work.rglob("*") if path.is_file()]
        month = Month(
            rss=psutil.Process().memory_info().rss,
            znodes=sum(1 for _ in self.nodes(self.paths.base)),
            payloads=sum(1 for _ in self.store.list(self.keys.payloads)),
            archives=sum(1 for _ in self.store.list(self.keys.archive_heads)),
            files=len(sizes),
            bytes=sum(sizes),
            recovery=self.recoveries,
            processor=self.processor,
        )
        self.recoveries, self.processor = [], []
        return month

    def nodes(self, path: str) -> Iterator[str]:
        """Yield every node below a path."""
        for name in self.coordinator.children(path):
            yield f"{path}/{name}"
            yield from self.nodes(f"{path}/{name}")


class Driver:
    """One leadership: from the proof that the last one is dead to the first checkpoint, and on to its own death."""

    def __init__(self, simulation: Simulation) -> None:
        self.of = of = simulation
        began, worked = time.perf_counter(), time.process_time()
        self.submit()
        read_snapshot(of.coordinator, of.paths)
        self.leadership = self.lead()
        checkpoints = CheckpointStore(of.coordinator, of.store, of.paths, of.keys, of.config.work_path, clock=of.clock)
        self.checkpoints = checkpoints
        self.savepoints = SavepointStore(of.coordinator, of.paths, of.keys, of.config.work_path, clock=of.clock)
        key = of.keys.working_directory(self.leadership.epoch, "simulated")
        newest = next(iter(checkpoints.list()), None)
        published = newest.cut if newest is not None else {}
        self.origin = prepare_start(of.store, of.config.work_path, a_run(), of.generation, key, published=published)
        of.generation = Generation(run=1, epoch=self.leadership.epoch, directory=key)
        of.journal.generation(of.generation)
        housekeeping = Housekeeping(of.runs, self.leadership, checkpoints, of.config.work_path, key)
        housekeeping.finish_earlier(1)
        self.query = WrittenQuery(self.origin.directory, batch=of.batch)
        self.publisher = self.make_publisher()
        past = PastAttempts(
            coordinator=of.coordinator,
            paths=of.paths,
            keys=of.keys,
            work_path=of.config.work_path,
            leadership=self.leadership,
            journal=of.journal,
            options=HaOptions(),
            own=(1, of.attempt),
        )
        self.cleaning = Cleaning(checkpoints, self.leadership, of.clock, past.clear)
        self.query.commit()
        self.publisher.publish(CheckpointKind.PERIODIC)
        of.recoveries.append(time.perf_counter() - began)
        of.processor.append(time.process_time() - worked)
        self.clean()

    def submit(self) -> None:
        """Write what a submission leaves: its nodes, its journal, its directory with a jar."""
        of = self.of
        of.attempt += 1
        submission = a_submission(of.attempt)
        of.journal.submission(a_run(), submission)
        of.journal.started(1, submission, a_start())
        path = of.paths.submission(1, of.attempt)
        of.coordinator.commit(
            Create(path, submission.to_bytes()),
            Create(of.paths.submission_started(1, of.attempt), a_start().to_bytes()),
        )
        directory = of.config.work_path / of.keys.application(1, of.attempt)
        directory.mkdir(parents=True)
        (directory / "application.jar").write_bytes(bytes(100_000))
        (directory / "driver.log").write_bytes(bytes(100_000))

    def lead(self) -> Leadership:
        """Take the job's lock."""
        of = self.of

        def describe(epoch: int) -> bytes:
            return LeaderInfo(epoch=epoch, run=1, attempt=of.attempt, host="h", pid=1, since=NOON).to_bytes()

        leadership = acquire(
            of.coordinator, of.paths, timings=of.config.timings, clock=SystemClock(), describe=describe, timeout=30
        )
        leadership.start_heartbeats(lambda _: None)
        return leadership

    def make_publisher(self) -> Publisher:
        """Return the publisher of this epoch."""
        of = self.of
        return Publisher(
            store=self.checkpoints,
            leadership=self.leadership,
            registry=self.query.registry(of.clock),
            origin=self.origin,
            provenance=Provenance(JOB, 1, "0" * 64, "4.2.0"),
            options=HaOptions(checkpoint_interval=0.0),
            work_path=of.config.work_path,
            clock=of.clock,
        )

    def work(self, until: int) -> None:
        """Commit batches, and publish as the interval says; the removal has its turns."""
        year = self.of.year
        while self.query.batch < until:
            for _ in range(min(year.per_checkpoint, until - self.query.batch)):
                self.query.commit()
                self.publisher.record()
            self.of.clock.at += year.seconds * year.per_checkpoint
            self.publisher.publish(CheckpointKind.PERIODIC)
            self.clean()
        self.of.batch = self.query.batch

    def clean(self) -> None:
        """Let the thread that removes have its turns until nothing is left."""
        while not self.cleaning.turn(lambda: True):
            pass

    def save(self) -> None:
        """Take a savepoint of the schedule, and dispose of those that are too many; the very first one stays."""
        of = self.of
        request = SavepointRequest(
            savepoint_id=f"s{self.query.batch:09d}",
            run=1,
            epoch=self.leadership.epoch,
            cut={QUERY: self.query.batch},
            graph="0" * 64,
            spark_version="4.2.0",
            schedule="nightly",
        )
        self.savepoints.create(self.leadership.commit, request, self.origin.directory)
        names = sorted(of.coordinator.children(of.paths.savepoints))
        for name in names[1:-KEPT]:
            self.savepoints.dispose(self.leadership.commit, name)

    def die(self) -> None:
        """Die: the lock is free, and a supervisor has written the proof."""
        of = self.of
        self.leadership.release()
        of.batch = self.query.batch
        proof = an_exit().to_bytes()
        of.coordinator.commit(Create(of.paths.submission_exit(1, of.attempt), proof))


def table(simulation: Simulation) -> list[tuple[str, ...]]:
    """Return the rows of the table: the months, then the last one as a ratio to the first one."""
    figures = [
        (
            month.rss / 2**20,
            float(month.znodes),
            float(month.payloads),
            float(month.archives),
            float(month.files),
            month.bytes / 2**20,
            statistics.median(month.processor) * 1e3,
            statistics.median(month.recovery) * 1e3,
        )
        for month in simulation.months
    ]
    rows = [(str(number), *(f"{figure:.0f}" for figure in month)) for number, month in enumerate(figures, 1)]
    ratios = (f"{last / first:.2f}" if first else "" for first, last in zip(figures[0], figures[-1], strict=True))
    return [*rows, ("ratio", *ratios)]


def arguments() -> Year:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="simulate a little only, to see that it works")
    parser.add_argument("--full", action="store_true", help="3 million batches, 3,000 losses, 400 savepoints: hours")
    given = parser.parse_args()
    if given.full:
        return Year(3_000_000, 3_000, 400, 30)
    scale_limits()
    return Year(240, 24, 12, 5) if given.quick else Year(6_000, 120, 24, 10)


def scale_limits() -> None:
    """Lower what is kept as well: a small share of a year then reaches it in its first month, as a whole one does."""
    archives.MOST_PAYLOADS = 25
    past_attempts.ATTEMPTS = 10


def main() -> None:
    """Simulate and print."""
    year = arguments()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder) / "zk") as server:
        config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{folder}/storage")
        coordinator = KazooCoordinator.connect(config)
        simulation = Simulation(config, coordinator, year)
        began = time.perf_counter()
        simulation.live()
        coordinator.close()
    show(
        f"A year: {year.batches:,} batches, {year.losses:,} losses, {year.savepoints} savepoints, one of them kept; "
        f"simulated in {(time.perf_counter() - began) / 60:.0f} minutes",
        ("month", "RSS", "znodes", "payloads", "archives", "files", "MiB", "CPU ms", "ms"),
        table(simulation),
    )


if __name__ == "__main__":
    main()
