"""A simulated year of one job, with a real ZooKeeper and real directories; only Spark is left out.

Every batch is written and recorded, every checkpoint pinned, published and subsumed, every savepoint copied, every loss
fenced, forked and led again. A savepoint of a schedule is kept until seven newer ones are there, and the first one of
all is never disposed of. After each step the progress is written, so that a year that was interrupted goes on: the
interruption is one more loss.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import psutil
from pydantic import BaseModel, Field

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import CheckpointKind
from airflow_provider_ha.checkpoints.spark.local_tree import path_on_this_host
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointRequest, SavepointStore
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.driver.checkpointing.publish_loop import RemovalTurns
from airflow_provider_ha.driver.checkpointing.publisher import Provenance, Publisher
from airflow_provider_ha.driver.checkpointing.start_point import prepare_start
from airflow_provider_ha.driver.members.housekeeping import Housekeeping, PastAttempts
from airflow_provider_ha.jobs.model import Generation, LeaderInfo
from airflow_provider_ha.jobs.observe import read_status
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.removal.past_runs import PastRuns
from airflow_provider_ha.jobs.runs.journal import JobJournal
from airflow_provider_ha.jobs.runs.run_store import RunStore, start_of_run
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.checkpoints.written_query import WrittenQuery
from tests.support.clusters.jobs_helpers import NOON, a_run, a_start, a_submission, an_exit
from tests.support.spark.recorded_job import QUERY


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

    def steps(self) -> list[tuple[int, str]]:
        """Return what happens after which batch."""
        return sorted(
            [(at * self.batches // self.losses, "lose") for at in range(1, self.losses + 1)]
            + [(at * self.batches // self.savepoints, "save") for at in range(1, self.savepoints + 1)]
            + [(at * self.batches // MONTHS, "month") for at in range(1, MONTHS + 1)]
        )


class Month(BaseModel):
    """What was measured at the end of a month.

    :param recovery: Median of the month's recoveries, seconds by the clock.
    :param processor: The same, seconds of the processor.
    """

    rss: int
    znodes: int
    payloads: int
    archives: int
    files: int
    bytes: int
    recovery: float
    processor: float


class Progress(BaseModel):
    """How far the year has come; what a new process needs to go on with it.

    :param steps: Losses, savepoints and months that are behind.
    :param at: Simulated seconds since the beginning.
    :param batch: Highest batch at the last death of a driver.
    :param recovery: Recoveries since the last month's end, seconds by the clock.
    :param processor: The same, seconds of the processor.
    :param processes: How many processes simulated it.
    """

    steps: int = 0
    at: float = 0.0
    batch: int = -1
    generation: Generation | None = None
    months: list[Month] = Field(default_factory=list)
    recovery: list[float] = Field(default_factory=list)
    processor: list[float] = Field(default_factory=list)
    processes: int = 0


class SimulatedClock:
    """Both clocks stand still until the progress moves on."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.start = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def lease_time(self) -> float:
        """Return the simulated seconds since the beginning."""
        return self.progress.at

    def now(self) -> datetime:
        """Return the simulated time."""
        return self.start + timedelta(seconds=self.progress.at)


class Simulation:
    """The job, one driver after the other, all in this process.

    :param file: Holds the progress. With what ZooKeeper and the storage of *config* hold, it is all that a later
        process needs to go on.
    """

    def __init__(self, config: HaConfig, coordinator: Coordinator, year: Year, file: Path) -> None:
        self.config, self.coordinator, self.year, self.file = config, coordinator, year, file
        self.progress = Progress.model_validate_json(file.read_bytes()) if file.exists() else Progress()
        self.progress.processes += 1
        self.clock = SimulatedClock(self.progress)
        self.paths: JobPaths = ClusterPaths(config.root, config.cluster_id).job(JOB)
        self.keys, self.store = JobKeys(JOB), open_store(config)
        self.journal = JobJournal(self.store, self.keys)
        self.runs = RunStore(coordinator, self.paths)
        self.attempt = 0
        coordinator.ensure(*self.paths.skeleton)
        if coordinator.find(self.paths.submissions(1)) is None:
            coordinator.commit(self.runs.create_op(a_run()), Create(self.paths.submissions(1)))
        else:
            self.bury()

    def bury(self) -> None:
        """Take up the job of a process that was interrupted: prove its driver dead, and see what it committed."""
        self.attempt = max((int(name) for name in self.coordinator.children(self.paths.submissions(1))), default=0)
        proof = self.paths.submission_exit(1, self.attempt)
        if self.attempt and self.coordinator.find(proof) is None:
            self.coordinator.commit(Create(proof, an_exit().to_bytes()))
        if self.progress.generation is not None:
            commits = self.config.work_path / self.progress.generation.directory / QUERY / "commits"
            numbers = [int(path.name) for path in commits.glob("[0-9]*")]
            self.progress.batch = max(numbers, default=self.progress.batch)

    def live(self, tell: Callable[[Progress], None] = lambda _: None) -> None:
        """Live what is left of the year: losses and savepoints evenly spread over the batches.

        :param tell: Called after every step.
        """
        steps = self.year.steps()
        if self.progress.steps == len(steps):
            return
        driver = Driver(self)
        for until, what in steps[self.progress.steps :]:
            driver.work(until)
            if what == "lose":
                driver.die()
                driver = Driver(self)
            elif what == "save":
                driver.save()
            else:
                self.progress.months.append(self.measure())
                self.progress.recovery, self.progress.processor = [], []
            self.progress.steps += 1
            self.note()
            tell(self.progress)
        driver.die()

    def note(self) -> None:
        """Write the progress."""
        new = self.file.with_suffix(".new")
        new.write_text(self.progress.model_dump_json(), encoding="utf-8")
        new.replace(self.file)

    def measure(self) -> Month:
        """Count what there is."""
        work = self.config.work_path
        sizes = [path.stat().st_size for path in work.rglob("*") if path.is_file()]
        return Month(
            rss=psutil.Process().memory_info().rss,
            znodes=sum(1 for _ in self.nodes(self.paths.base)),
            payloads=sum(1 for _ in self.store.list(self.keys.payloads)),
            archives=sum(1 for _ in self.store.list(self.keys.archive_heads)),
            files=len(sizes),
            bytes=sum(sizes),
            recovery=statistics.median(self.progress.recovery),
            processor=statistics.median(self.progress.processor),
        )

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
        read_status(of.coordinator, of.paths)
        self.leadership = self.lead()
        checkpoints = CheckpointStore(
            of.coordinator, of.store, of.paths, of.keys, LinkedWorkArea(of.config.work_path), clock=of.clock
        )
        self.checkpoints = checkpoints
        self.savepoints = SavepointStore(
            of.coordinator,
            of.paths,
            of.keys,
            LinkedWorkArea(of.config.work_path),
            clock=of.clock,
            start=partial(start_of_run, of.coordinator, of.paths),
        )
        key = of.keys.working_directory(self.leadership.epoch, "simulated")
        newest = next(iter(checkpoints.list()), None)
        published = newest.cut if newest is not None else {}
        self.origin = prepare_start(
            of.store,
            LinkedWorkArea(of.config.work_path),
            of.paths,
            a_run(),
            of.progress.generation,
            key=key,
            published=published,
        )
        of.progress.generation = Generation(run=1, epoch=self.leadership.epoch, directory=key)
        of.journal.generation(of.progress.generation)
        of.note()
        housekeeping = Housekeeping(of.runs, self.leadership, checkpoints, LinkedWorkArea(of.config.work_path), key)
        list(housekeeping.finish_earlier(1))
        self.query = WrittenQuery(path_on_this_host(self.origin.directory), batch=of.progress.batch)
        self.publisher = self.make_publisher()
        past = PastAttempts(
            coordinator=of.coordinator,
            paths=of.paths,
            keys=of.keys,
            home_path=of.config.home_path,
            leadership=self.leadership,
            journal=of.journal,
            options=HaOptions(),
            own=(1, of.attempt),
            runs=PastRuns(of.coordinator, of.paths, of.journal, of.config.retention, of.clock, frozenset),
            notes=lambda: iter(()),
            blobs=lambda: None,
        )
        self.cleaning = RemovalTurns(checkpoints, self.leadership, of.clock, past.clear)
        self.query.commit()
        self.publisher.publish(CheckpointKind.PERIODIC)
        of.progress.recovery.append(time.perf_counter() - began)
        of.progress.processor.append(time.process_time() - worked)
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
            area=LinkedWorkArea(of.config.work_path),
            clock=of.clock,
        )

    def work(self, until: int) -> None:
        """Commit batches, and publish as the interval says; the removal has its turns."""
        year = self.of.year
        while self.query.batch < until:
            batches = min(year.per_checkpoint, until - self.query.batch)
            for _ in range(batches):
                self.query.commit()
                self.publisher.record()
            self.of.progress.at += year.seconds * batches
            self.publisher.publish(CheckpointKind.PERIODIC)
            self.clean()
        self.of.progress.batch = self.query.batch

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
        of.progress.batch = self.query.batch
        proof = an_exit().to_bytes()
        of.coordinator.commit(Create(of.paths.submission_exit(1, of.attempt), proof))


COLUMNS = ("month", "RSS MiB", "znodes", "payloads", "archives", "files", "MiB", "recovery, CPU ms", "recovery, ms")


def rows(months: Sequence[Month]) -> list[tuple[str, ...]]:
    """Return the rows of the table: the months, then the last one as a ratio to the first one."""
    figures = [
        (
            month.rss / 2**20,
            float(month.znodes),
            float(month.payloads),
            float(month.archives),
            float(month.files),
            month.bytes / 2**20,
            month.processor * 1e3,
            month.recovery * 1e3,
        )
        for month in months
    ]
    table = [(str(number), *(f"{figure:.0f}" for figure in month)) for number, month in enumerate(figures, 1)]
    ratios = (f"{last / first:.2f}" if first else "" for first, last in zip(figures[0], figures[-1], strict=True))
    return [*table, ("ratio", *ratios)]
