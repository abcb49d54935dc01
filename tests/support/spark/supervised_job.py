"""A job as its users have it: submitted and recovered through ``HaClient``, run by the real supervisor and Spark.

Its script has gates (``tests/apps/driver/gated.py``), so that a kill meets the moment that the test names.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import read_offsets
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.errors import NotConnectedError
from airflow_provider_ha.jobs.model import JobState, Operation, OperationState, RunResult
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec, Start
from airflow_provider_ha.jobs.runs.run_store import RunView
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyStore
from airflow_provider_ha.jobs.submit.requests import LATEST, LostRunPolicy
from airflow_provider_ha.testing.waiting import wait_until
from tests.engine_helpers import pid_of
from tests.support.clusters import submit_helpers
from tests.support.clusters.variables import variables_of
from tests.support.spark.added_standbys import keep_killing, with_standby
from tests.support.spark.driver_helpers import APPS, BOOTSTRAP, CONF, PATIENCE, Stream


LOSS_SECONDS = 30.0  # a session timeout is 3 s; the rest is for a busy machine
FAST_POLL = 0.001  # seconds: to meet a window of some milliseconds


@dataclass
class SupervisedJob:
    """One job with the gated script.

    :param queries: Which of the script's queries it starts.
    :param options: By default a lost driver stays lost until the test recovers it.
    :param repeatable: Queries that write by key, whose plans are SAFE although batches come again.
    :param master: Spark master.
    :param engine_options: Of the target, such as another Spark.
    """

    client: HaClient
    stream: Stream
    queries: tuple[str, ...] = ("windows",)
    job_id: str = "gated"
    conf: dict[str, str] = field(default_factory=dict)
    options: HaOptions = field(
        default_factory=lambda: HaOptions(checkpoint_interval=0, restart_delay=0, restart_in_place=False)
    )
    repeatable: tuple[str, ...] = ("rows",)
    master: str = "local[2]"
    engine_options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gates = self.stream.root / "gates"
        self.gates.mkdir(exist_ok=True)

    @property
    def job(self) -> JobClient:
        """The client of the job."""
        return self.client.job(self.job_id)

    @property
    def run(self) -> RunView:
        """The newest run."""
        run = self.job.snapshot().run
        assert run is not None
        return run

    def submit(self, *, start_from: str = LATEST, accept: Iterable[Verdict] = ()) -> None:
        """Submit the script as a new run."""
        arguments = [*self.stream.arguments, str(self.gates), ",".join(self.queries)]
        self.submit_script(APPS / "gated.py", arguments, start_from=start_from, accept=accept)

    def submit_script(
        self,
        script: Path,
        arguments: list[str],
        *,
        start_from: str = LATEST,
        accept: Iterable[Verdict] = (),
        if_lost: LostRunPolicy | None = None,
    ) -> None:
        """Submit any script as a new run."""
        conf = {key: value for key, value in CONF.items() if key not in ("spark.master", "spark.driver.memory")}
        self.job.submit(
            JobSpec(
                job_id=self.job_id,
                request_id=new_id(),
                application=str(script),
                arguments=arguments,
                conf=conf | {"spark.sql.shuffle.partitions": "1"} | self.conf,
                master=self.master,
                engine_options=self.engine_options,
                driver_memory="1g",
                ha=with_standby(self.options.model_copy(update={"repeatable": self.repeatable})),
                start_from=start_from,
                start=Start(accept_verdicts=frozenset({Verdict.SAFE, *accept}), if_lost=if_lost),
            )
        )
        keep_killing(self.job)

    def recover(self) -> None:
        """Submit the lost run again."""
        self.job.recover(by="test")

    def close_gate(self, gate: str) -> None:
        """Hold what comes to this gate from now on."""
        (self.gates / f"{gate}-reached").unlink(missing_ok=True)
        (self.gates / gate).touch()

    def open_gate(self, gate: str) -> None:
        """Let everything through."""
        (self.gates / gate).unlink()

    def await_held(self, gate: str) -> None:
        """Wait until a batch is held at a closed gate."""
        assert (self.gates / gate).exists()
        wait_until(lambda: (self.gates / f"{gate}-reached").exists(), timeout=PATIENCE, what=f"a batch at {gate!r}")

    @property
    def live(self) -> Path:
        """Parent of the working directories."""
        return self.client.config.work_path / "jobs" / self.job_id / "live"

    def working(self, epoch: int) -> Path | None:
        """The working directory that an epoch made; ``None`` while there is none."""
        found = [path for path in self.live.glob(f"e{epoch}-*") if path.suffix not in (".dead", ".drain")]
        return found[0] if found else None

    def tree(self, epoch: int) -> Tree | None:
        """The same, to be read; as it is now."""
        directory = self.working(epoch)
        return LocalTree(directory) if directory else None

    def progress(self, epoch: int, query: str = "windows") -> Progress:
        """How far a query is in the directory of an epoch."""
        directory = self.tree(epoch)
        return progress(directory / query) if directory else Progress(-1, -1)

    def await_committed(self, epoch: int, batch: int) -> None:
        """Wait until every query of an epoch has committed *batch* or more."""
        self.await_alive(
            lambda: all(self.progress(epoch, query).committed >= batch for query in self.queries),
            f"the commit of batch {batch} in epoch {epoch}",
        )

    def await_read(self, epoch: int) -> None:
        """Wait until every query of an epoch has committed all files of the stream; each reads one per batch."""

        def read(query: str) -> bool:
            directory = self.tree(epoch)
            if directory is None:
                return False
            batch = progress(directory / query).committed  # of the same listing
            return batch >= 0 and read_offsets(directory / query, batch).log_offset(0) == self.stream.files - 1

        self.await_alive(lambda: all(map(read, self.queries)), f"the last file in epoch {epoch}")

    def await_alive(self, predicate: Callable[[], bool], what: str) -> None:
        """Wait for something that only a living driver does; fails with its last words when it is lost."""

        def check() -> bool:
            if predicate():
                return True
            try:
                run = self.job.snapshot().run
            except NotConnectedError:
                return False  # on a busy machine even a ZooKeeper that no fault disturbs is late now and then
            newest = run.newest if run else None
            assert newest is None or newest.exit is None, f"{newest and newest.exit}\n{self.log(newest_only=True)}"
            return False

        wait_until(check, timeout=PATIENCE, what=what, interval=0.1)

    def await_sink(self, batch: int) -> None:
        """Wait, closely, until the file sink's log has *batch*."""
        log = self.stream.output / "_spark_metadata"
        self.await_alive((log / "0").exists, "the first batch in the sink's log")
        entries = (log / str(batch), log / f"{batch}.compact")
        wait_until(
            lambda: any(entry.exists() for entry in entries),
            timeout=PATIENCE,
            what=f"batch {batch} in the sink's log",
            interval=FAST_POLL,
        )

    def log(self, *, newest_only: bool = False) -> str:
        """What the drivers of the newest run have printed, or only the newest of them."""
        run = self.job.snapshot().run
        paths = [
            Path(view.started.handle.log_path) for view in (run.submissions if run else ()) if view.started is not None
        ]
        chosen = paths[-1:] if newest_only else paths
        return "\n".join(path.read_text(errors="replace") for path in chosen if path.exists())

    def driver(self) -> list[psutil.Process]:
        """All processes of the newest submission but its supervisor; the JVM first."""
        children = self.supervisor().children(recursive=True)
        assert children, "there is no driver"
        return children

    def jvm(self) -> psutil.Process:
        """The JVM of the newest submission: spark-submit, a child of its supervisor."""
        return next(child for child in self.supervisor().children() if child.name() == "java")

    def python(self) -> psutil.Process:
        """The Python of the newest submission: the JVM's child that runs the bootstrap; the others are its workers."""
        return next(child for child in self.jvm().children() if _runs_the_bootstrap(child))

    def kill(self) -> None:
        """Kill the driver at once, JVM first, and wait until its death is known.

        A supervisor that would start it again dies first, as with its host.
        """
        doomed = self.driver()
        for process in [self.supervisor(), *doomed] if self.options.restart_in_place else doomed:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.await_lost()

    def supervisor(self) -> psutil.Process:
        """The supervisor of the newest submission."""
        newest = self.run.newest
        assert newest is not None
        assert newest.started is not None
        return psutil.Process(pid_of(newest.started))

    def await_lost(self) -> None:
        """Wait until every process can see that the driver is gone."""
        wait_until(lambda: self.job.snapshot().state is JobState.LOST, timeout=LOSS_SECONDS, what="the loss")

    def standbys(self) -> StandbyStore:
        """The standby drivers of the newest run."""
        return StandbyStore(self.client.coordinator, self.client.paths.job(self.job_id), self.run.run.number)

    def await_standby(self) -> Standby:
        """Return a standby driver once it is ready; a warm-up that failed is an error."""

        def found() -> Standby | None:
            living = self.standbys().living()
            assert not any("failed" in each.note for each in living), living
            return next((each for each in living if each.is_ready), None)

        return wait_until(found, timeout=PATIENCE, what="a standby driver")

    def await_takeover(self, attempt: int) -> None:
        """Wait until an attempt leads that a standby driver has become."""

        def leads() -> bool:
            snapshot = self.job.snapshot()
            return snapshot.leader is not None and snapshot.leader.attempt == attempt

        wait_until(leads, timeout=PATIENCE, what=f"attempt {attempt}", interval=0.02)
        newest = self.run.newest
        assert newest is not None
        assert newest.submission.standby

    def stop(self, mode: str) -> str:
        """Ask for a stop; returns the operation's id."""
        return self.job.request_stop(operation_id=new_id(), requested_by="test", mode=mode).operation_id

    def operation(self, operation_id: str) -> Operation:
        """An operation as it is now."""
        found = self.job.operation(operation_id)
        assert found is not None
        return found

    def decision(self) -> str:
        """Return what the newest attempt leaves to a person; empty if it leaves nothing."""
        newest = self.run.newest
        return newest.exit.decision if newest is not None and newest.exit is not None else ""

    def await_exit(self, attempt: int) -> None:
        """Wait until an attempt of the newest run has ended."""

        def ended() -> bool:
            newest = self.run.newest
            return newest is not None and newest.submission.attempt == attempt and newest.exit is not None

        wait_until(ended, timeout=PATIENCE, what=f"the end of attempt {attempt}", interval=0.2)

    def await_result(self) -> RunResult:
        """Wait until the run has its result, and its processes are proven dead."""

        def ended() -> RunResult | None:
            run = self.job.snapshot().run
            return run.result if run and run.result and run.newest and run.newest.exit else None

        found = wait_until(ended, timeout=PATIENCE, what="the run's result", interval=0.2)
        assert found is not None
        return found


@contextlib.contextmanager
def job_with_standby(zookeeper: EmbeddedZooKeeper, root: Path) -> Iterator[SupervisedJob]:
    """Yield a job with one standby driver, not submitted yet; what it has started is dead afterwards."""
    config = HaConfig.build(
        zookeeper=zookeeper.hosts, storage_root=f"file://{root}/storage", cluster_id=f"c-{new_id()[:12]}"
    )
    options = HaOptions(checkpoint_interval=0, standby_drivers=1, class_archive=False)
    with HaClient.open(config) as client:
        yield SupervisedJob(client, Stream(root), ("windows", "rows"), options=options)
        submit_helpers.kill_all(client.job("gated")._job)


def newest_state(query: Path) -> Path:
    """Return the newest file of a query's state that names a version."""
    found = [path for path in (query / "state").rglob("*") if path.suffix in (".zip", ".changelog", ".delta")]
    return max(found, key=lambda path: int(re.split("[_.]", path.name)[0]))


def terminate_and_compare(job: SupervisedJob, files: int) -> None:
    """Have every window emitted, and compare all rows with the truth."""
    answer = job.stop("terminate")
    result = job.await_result()
    assert result.state is JobState.FINISHED, result.reason
    assert job.operation(answer).state is OperationState.COMPLETED
    compare(job, files)


def compare(job: SupervisedJob, files: int) -> None:
    """Compare all rows of so many files with the truth."""
    assert job.stream.windows() == job.stream.expected_windows(files)
    if "rows" in job.queries:
        assert job.stream.seen() == job.stream.expected_rows(files)


@contextlib.contextmanager
def recoverer(config: HaConfig) -> Iterator[None]:
    """Have ``spark-ha cluster recover --watch`` for the time of the block."""
    environment = os.environ | variables_of(config)
    command = [str(Path(sys.executable).with_name("spark-ha")), "cluster", "recover", "--watch"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _runs_the_bootstrap(process: psutil.Process) -> bool:
    try:
        return BOOTSTRAP.name in " ".join(process.cmdline())
    except psutil.Error:  # a worker that has just ended
        return False
