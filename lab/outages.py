"""A source's directory and a broker are away for five minutes by the clock, with every option at its default."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import psutil

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from lab.suite import Proof
from tests.support.clusters.submit_helpers import kill_all
from tests.support.spark.driver_helpers import APPS, Stream
from tests.support.spark.kafka_server import Kafka, broker, connector_jars
from tests.support.spark.supervised_job import SupervisedJob, recoverer
from tests.system.harness.compare import sink_files


PROMISED = 180.0  # seconds: restart_delay_max, and two starts of Spark at once on a small machine
_PATIENCE = 600.0


@dataclass(frozen=True)
class Outage:
    """How one job came through its outage.

    :param away: What was away.
    :param attempts: How often the run was submitted.
    :param seconds: From the end of the outage to the next commit.
    :param ended: State of the run's result; ``None`` while it goes on.
    :param exact: Whether each row was written once.
    """

    away: str
    attempts: int
    seconds: float
    ended: JobState | None
    exact: bool


class Outages:
    """Both outages at once.

    :param seconds: How long they last.
    """

    name = "outages"
    title = "An absence of five minutes ends no run"

    def __init__(self, seconds: float = 300.0) -> None:
        self._seconds = seconds

    @property
    def about(self) -> str:
        """What is done and what has to hold."""
        return (
            "Two jobs with every option at its default, recovered by `spark-ha cluster recover --watch`. For"
            f" {self._seconds:.0f} s by the clock the directory of the first one's source has another name, and the"
            " broker of the second one is frozen. No run ends; once both are back each job commits again within"
            f" {PROMISED:.0f} s, and each row is written once."
        )

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Do it from its beginning."""
        place = folder / "jobs"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        with ExitStack() as stack:
            server = stack.enter_context(EmbeddedZooKeeper(place / "zookeeper"))
            config = HaConfig.build(zookeeper=server.hosts, storage_root=(place / "storage").as_uri())
            client = stack.enter_context(HaClient.open(config))
            kafka = stack.enter_context(broker())
            jobs = [FromFiles(client, place), FromKafka(client, place, kafka)]
            for job in jobs:
                stack.callback(job.kill)
            stack.enter_context(recoverer(config))
            for job in jobs:
                job.start()
            found = self._away(jobs, tell)
        return Proof(_COLUMNS, [_row(outage) for outage in found], untrue(found))

    def _away(self, jobs: list[FromFiles | FromKafka], tell: Callable[[str], None]) -> list[Outage]:
        for job in jobs:
            job.await_commit(0)
        tell("both jobs have committed; the outages begin")
        before = [job.committed() for job in jobs]
        with ExitStack() as stack:
            for job in jobs:
                stack.enter_context(job.outage())
            Event().wait(self._seconds)  # by the clock, as the promise says
        tell("the outages are over")
        return [job.outcome(committed) for job, committed in zip(jobs, before, strict=True)]


class FromFiles:
    """A job that reads a directory and writes each row into a database."""

    away = "directory of the source"

    def __init__(self, client: HaClient, place: Path) -> None:
        root = place / "files"
        root.mkdir()
        self.job = SupervisedJob(client, Stream(root), ("rows",), job_id="files", options=HaOptions())

    def start(self) -> None:
        """Submit it over two files."""
        self.job.stream.feed(2)
        self.job.submit()

    def kill(self) -> None:
        """Leave no process of it."""
        kill_all(self.job.job._job)

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Give the directory another name for the time of the block."""
        away = self.job.stream.root / "away"
        self.job.stream.source.rename(away)
        yield
        away.rename(self.job.stream.source)
        self.job.stream.feed(1)

    def committed(self) -> int:
        """Return the last committed batch."""
        return _committed(self.job)

    def await_commit(self, before: int) -> None:
        """Wait for a batch after *before*."""
        wait_until(lambda: self.committed() > before, timeout=_PATIENCE, what=f"a commit of {self.job.job_id}")

    def outcome(self, before: int) -> Outage:
        """Wait until the job goes on, stop it, and compare."""
        return _outcome(self.away, self.job, before, lambda: self.job.stream.seen() == self._expected())

    def _expected(self) -> set[tuple[str, int]]:
        return self.job.stream.expected_rows(self.job.stream.files)


class FromKafka(FromFiles):
    """A job that reads a topic and writes each number into files."""

    away = "broker"

    def __init__(self, client: HaClient, place: Path, kafka: Kafka) -> None:
        root = place / "kafka"
        root.mkdir()
        self.job = SupervisedJob(client, Stream(root), ("numbers",), job_id="kafka", options=HaOptions())
        self._kafka, self._topic = kafka, kafka.new_topic()

    def start(self) -> None:
        """Submit it over twenty numbers."""
        self._add(20)
        self.job.conf = {"spark.jars": connector_jars()}
        arguments = [self._kafka.servers, self._topic, str(self._output), str(self.job.gates)]
        self.job.submit_script(APPS / "kafka_gated.py", arguments)

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Freeze the broker for the time of the block."""
        (process,) = [child for child in psutil.Process().children() if "kafka.Kafka" in child.cmdline()]
        process.suspend()
        yield
        process.resume()
        self._add(10)

    def outcome(self, before: int) -> Outage:
        """Wait until the job goes on, stop it, and compare."""
        return _outcome(self.away, self.job, before, lambda: self._written() == Counter([*range(20), *range(10)]))

    def _add(self, rows: int) -> None:
        self._kafka.add(self._topic, rows)

    def _written(self) -> Counter[int]:
        files = sink_files(self._output)
        return Counter(json.loads(line)["number"] for file in files for line in file.read_text().splitlines())

    @property
    def _output(self) -> Path:
        return self.job.stream.root / "numbers"


def _outcome(away: str, job: SupervisedJob, before: int, exact: Callable[[], bool]) -> Outage:
    began = time.monotonic()
    wait_until(lambda: _committed(job) > before, timeout=_PATIENCE, what=f"the next commit of {job.job_id}")
    seconds = time.monotonic() - began
    run = job.job.snapshot().run
    assert run is not None
    ended = run.result.state if run.result is not None else None
    job.stop("suspend")
    job.await_result()
    return Outage(away=away, attempts=len(run.submissions), seconds=seconds, ended=ended, exact=exact())


def _committed(job: SupervisedJob) -> int:
    """Return the last batch that every query has committed; -1 for none, also between two drivers."""
    try:
        return min(job.progress(job.job.snapshot().epoch, query).committed for query in job.queries)
    except FileNotFoundError:
        return -1


def untrue(found: list[Outage]) -> list[str]:
    """Return what does not hold. Pure."""
    said = []
    for outage in found:
        if outage.ended is not None:
            said.append(f"The run ended {outage.ended.value} while the {outage.away} was away.")
        if outage.seconds > PROMISED:
            said.append(f"The job committed again only {outage.seconds:.0f} s after the {outage.away} was back.")
        if not outage.exact:
            said.append(f"The rows of the job whose {outage.away} was away are not exact.")
    return said


_COLUMNS = ("away", "submissions", "next commit, s", "result", "each row once")


def _row(outage: Outage) -> tuple[str, ...]:
    ended = outage.ended.value if outage.ended is not None else "none, it continues"
    exact = "yes" if outage.exact else "no"
    return (outage.away, str(outage.attempts), f"{outage.seconds:.1f}", ended, exact)
