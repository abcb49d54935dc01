"""Helpers of the driver's tests: a real spark-submit, a real ZooKeeper, a small stream and its truth without Spark."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.jobs.application.application_files import collect_application
from airflow_provider_ha.jobs.application.artifacts import fetch_application, upload_application
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import SPEC_VARIABLE, DriverSpec
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import GraphPointer, JobGraph
from airflow_provider_ha.jobs.model import (
    Generation,
    JobState,
    Operation,
    OperationKind,
    Run,
    RunResult,
    StartPoint,
    Status,
)
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.runs.submissions import Submission
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.uris import of_log, split
from tests.support.spark.class_archive import java_options


APPS = Path(__file__).parents[2] / "apps" / "driver"
BOOTSTRAP = Path(__file__).parents[3] / "airflow_provider_ha" / "driver" / "bootstrap.py"
PATIENCE = 300.0  # seconds; a Spark that starts beside other tests on two cores can take a minute for its first batch
EPOCH = datetime(2024, 1, 1, tzinfo=timezone.utc)
CONF = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.driver.extraJavaOptions": java_options(),
}


@dataclass
class Stream:
    """Input, output and truth of ``counts.py``: file *i* holds rows of minute *i*, some of them twice.

    :param keys: Keys of each file's rows.
    """

    root: Path
    files: int = 0
    keys: tuple[str, ...] = ("a", "b")

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the script, without the pause."""
        return (str(self.source), str(self.output), str(self.database))

    @property
    def source(self) -> Path:
        """Input directory."""
        return self.root / "in"

    @property
    def output(self) -> Path:
        """Directory of the JSON sink."""
        return self.root / "out"

    @property
    def database(self) -> Path:
        """The sqlite file."""
        return self.root / "seen.db"

    def feed(self, count: int) -> None:
        """Add *count* files, one minute each."""
        self.source.mkdir(parents=True, exist_ok=True)
        for number in range(self.files, self.files + count):
            lines = [
                json.dumps({"ts": self.minute(number).isoformat(), "key": key, "value": number * 10 + value})
                for key in self.keys
                for value in (1, 2, 2)
            ]
            aside = self.root / "aside.json"
            aside.write_text("\n".join(lines))
            # Spark reads files in the order of their times; with equal ones a later minute makes an earlier one late.
            os.utime(aside, (1_700_000_000 + number,) * 2)
            aside.rename(self.source / f"{number:04d}.json")
        self.files += count

    @staticmethod
    def minute(number: int) -> datetime:
        """Return the event time of a file's rows."""
        return EPOCH + timedelta(minutes=number)

    def expected_windows(self, files: int) -> dict[tuple[int, str], tuple[int, int]]:
        """Return the windows of the first *files* files: (start, key) -> (rows, sum)."""
        return {
            (int(self.minute(number).timestamp()), key): (3, 30 * number + 5)
            for number in range(files)
            for key in self.keys
        }

    def windows(self) -> dict[tuple[int, str], tuple[int, int]]:
        """Return what a reader of the JSON sink sees; fails on a window that is there twice."""
        found: dict[tuple[int, str], tuple[int, int]] = {}
        for path in self.sink_files():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                key = (row["start"], row["key"])
                assert key not in found, f"window {key} is in the output twice"
                found[key] = (row["n"], row["total"])
        return found

    def seen(self) -> set[tuple[str, int]]:
        """Return the rows in sqlite; empty until the script has made its table."""
        with sqlite3.connect(self.database) as connection:
            made = connection.execute("select 1 from sqlite_master where name = 'seen'").fetchone()
            return set(connection.execute("select key, value from seen")) if made else set()

    def expected_rows(self, files: int) -> set[tuple[str, int]]:
        """Return the distinct rows of the first *files* files."""
        return {(key, number * 10 + value) for number in range(files) for key in self.keys for value in (1, 2)}

    def sink_files(self) -> list[Path]:
        """Return the files that the sink's log names."""
        log = self.output / "_spark_metadata"
        numbers = {int(path.name.split(".")[0]): path for path in log.iterdir() if path.name[0].isdigit()}
        compact = max((n for n, path in numbers.items() if path.suffix == ".compact"), default=-1)
        found = {}
        for number in sorted(n for n in numbers if n >= compact):
            for line in numbers[number].read_text().splitlines()[1:]:
                found[json.loads(line)["path"]] = True
        return [Path(split(of_log(path)).path) for path in found]


@dataclass
class ManagedJob:
    """One job of a test, submitted without an engine: run node, submission, pointer, then spark-submit."""

    config: HaConfig
    coordinator: Coordinator
    scratch: Path
    job_id: str = "counts"
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.paths = ClusterPaths(self.config.root, self.config.cluster_id).job(self.job_id)
        self.keys = JobKeys(self.job_id)
        self.store = open_store(self.config)
        self.runs = RunStore(self.coordinator, self.paths)
        self.clock = SystemClock()
        create_job(self.coordinator, self.paths)

    def submit(
        self,
        script: Path,
        arguments: Sequence[str],
        *,
        options: HaOptions | None = None,
        start: StartPoint | None = None,
        conf: dict[str, str] | None = None,
    ) -> int:
        """Create the next run and its first submission; returns its number."""
        uploaded = upload_application(self.store, collect_application(application=script))
        graph = JobGraph(
            job_id=self.job_id,
            name=self.job_id,
            application=uploaded.application,
            modules=uploaded.modules,
            arguments=tuple(arguments),
            conf=CONF | (conf or {}),
            options=(options or HaOptions(checkpoint_interval=0)).model_copy(update={"repeatable": ("rows",)}),
        )
        graphs = JobGraphStore(self.coordinator, self.store, self.paths)
        blob = graphs.write_graph(graph)
        latest = self.runs.latest()
        number = latest.run.number + 1 if latest else 1
        run = Run(
            number=number,
            graph=blob,
            start=start or StartPoint(),
            request_id=new_id(),
            created_at=self.clock.now(),
        )
        self.coordinator.commit(
            self.runs.create_op(run),
            *self.runs.submission_ops(number, self._submission(1)),
            graphs.pointer_op(GraphPointer(graph=blob, run=number)),
        )
        return number

    def resubmit(self, run: int) -> int:
        """Create the next submission of a run; returns its attempt."""
        attempt = len(self.runs.get(run).submissions) + 1
        self.coordinator.commit(*self.runs.submission_ops(run, self._submission(attempt)))
        return attempt

    def start(self, run: int, attempt: int = 1) -> subprocess.Popen[bytes]:
        """Start the driver of a submission in a new process group."""
        view = self.runs.get(run)
        graph = JobGraphStore(self.coordinator, self.store, self.paths).read_graph(view.run.graph)
        directory = self.directory(run, attempt)
        directory.mkdir(parents=True)
        spec = DriverSpec(
            config=self.config,
            ticket=Ticket(
                job_id=self.job_id,
                run=run,
                attempt=attempt,
                submission_id=view.submissions[-1].submission.submission_id,
                graph=view.run.graph,
            ),
            directory=directory,
        )
        spec.write()
        fetch_application(self.store, graph, spec.home.application_directory)
        spec.home.properties.write_text("".join(f"{key}={value}\n" for key, value in graph.conf.items()))
        submit = Path(sys.executable).with_name("spark-submit")
        environment = os.environ | {
            SPEC_VARIABLE: str(spec.home.spec),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        with spec.home.driver_log.open("wb") as log:
            process = subprocess.Popen(
                [str(submit), "--properties-file", str(spec.home.properties), str(BOOTSTRAP)],
                cwd=spec.home.application_directory,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def directory(self, run: int, attempt: int = 1) -> Path:
        """Directory of a submission."""
        return self.config.work_path / self.keys.application(run, attempt)

    def log(self, run: int, attempt: int = 1) -> str:
        """What a driver has printed."""
        return (self.directory(run, attempt) / "driver.log").read_text(errors="replace")

    def failure(self, run: int, attempt: int = 1) -> str:
        """Why a driver ended."""
        return str(json.loads((self.directory(run, attempt) / "failure.json").read_text())["reason"])

    @property
    def working(self) -> Path | None:
        """The current working directory."""
        found = read_record(self.coordinator, self.paths.generation, Generation)
        return self.config.work_path / found[0].directory if found else None

    def progress(self, query: str) -> Progress:
        """How far a query is in the current working directory."""
        return progress(LocalTree(self.working / query)) if self.working else Progress(-1, -1)

    @property
    def status(self) -> Status | None:
        """The job's status."""
        found = read_record(self.coordinator, self.paths.status, Status)
        return found[0] if found else None

    @property
    def checkpoints(self) -> CheckpointStore:
        """The job's checkpoints."""
        return CheckpointStore(
            self.coordinator, self.store, self.paths, self.keys, LinkedWorkArea(self.config.work_path)
        )

    def newest_checkpoint(self) -> CheckpointPointer | None:
        """The newest checkpoint."""
        return next(iter(self.checkpoints.list()), None)

    def result(self, run: int) -> RunResult | None:
        """The result of a run."""
        return self.runs.result(run)

    def ask(self, kind: OperationKind, **arguments: object) -> Operation:
        """Ask for an operation."""
        return operations.request(
            self.coordinator,
            self.paths,
            kind,
            operation_id=new_id(),
            arguments=arguments,
            requested_by="test",
            clock=self.clock,
        )

    def await_operation(self, operation: Operation, timeout: float = PATIENCE) -> Operation:
        """Wait until an operation is final."""

        def final() -> Operation | None:
            found = operations.read(self.coordinator, self.paths, operation.operation_id)
            return found if found is not None and found.state.final else None

        found = wait_until(final, timeout=timeout, what=f"{operation.operation.value} to be answered")
        assert found is not None
        return found

    def await_consumed(self, process: subprocess.Popen[bytes], queries: Sequence[str], batch: int) -> None:
        """Wait until all *queries* have committed *batch* or more; fails when the driver ends before."""

        def consumed() -> bool:
            assert process.poll() is None, f"the driver ended with {process.poll()}"
            return all(self.progress(query).committed >= batch for query in queries)

        wait_until(consumed, timeout=PATIENCE, what=f"{queries} to commit batch {batch}")

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the whole process group at once, and wait until the dead leader's node is gone."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        wait_until(lambda: self.coordinator.find(self.paths.leader) is None, timeout=10, what="the lock to be free")

    def close(self) -> None:
        """Kill what is left."""
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _submission(self, attempt: int) -> Submission:
        return Submission(
            attempt=attempt,
            submission_id=new_id(),
            requested_by="test",
            engine="none",
            created_at=self.clock.now(),
        )


def finished(result: RunResult | None) -> RunResult:
    """Assert that a run is FINISHED, and return its result."""
    assert result is not None
    assert result.state is JobState.FINISHED, result.reason
    return result
