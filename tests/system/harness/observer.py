"""Looks at a running job from outside: ZooKeeper, its directories, its processes. Changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import psutil
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.model import CheckpointKind, CheckpointPointer
from airflow_provider_ha.checkpoints.spark import checkpoint_layout
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, names, read_text
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.jobs.observe import read_status
from airflow_provider_ha.jobs.runs.run_store import decode
from airflow_provider_ha.jobs.runs.submissions import SubmissionStarted
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.testing.waiting import wait_until
from tests.engine_helpers import pid_of


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DriverProcesses:
    """The processes of one submission.

    :param supervisor: Outlives the others.
    :param jvm: Where Spark runs.
    :param python: Where the application runs.
    """

    supervisor: int
    jvm: int
    python: int

    def alive(self) -> list[int]:
        """Return those that still exist; a zombie exists no more."""
        return [pid for pid in (self.jvm, self.python) if exists(pid)]


class JobObserver:
    """Looks at one job.

    :param coordinator: A session of the observer's own.
    :param area: Where the job works; by default that of *config*.
    """

    def __init__(self, config: HaConfig, coordinator: Coordinator, job_id: str, area: WorkArea | None = None) -> None:
        self.job_id = job_id
        self._config = config
        self._area = area or open_work_area(config)
        self._coordinator = coordinator
        self._paths = ClusterPaths(config.root, config.cluster_id).job(job_id)
        self._keys = JobKeys(job_id)

    def snapshot(self) -> JobStatus:
        """Return what ZooKeeper says of the job now."""
        return read_status(self._coordinator, self._paths)

    def directory(self) -> Tree:
        """Return the current working directory; one directory per query below it."""
        generation = self.snapshot().generation
        if generation is None:
            message = f"job {self.job_id} has no working directory yet"
            raise LookupError(message)
        return self._area.tree(generation.directory)

    def pins(self) -> dict[int, Path]:
        """Return the directories of the retained checkpoints, oldest first."""
        found: dict[int, Path] = {}
        for number in self.snapshot().checkpoint_numbers:
            pointer = decode(self._coordinator.find(self._paths.checkpoint(number)), CheckpointPointer)
            if pointer is not None:
                found[number] = self._config.work_path / self._keys.pin(number, pointer.epoch)
        return found

    def stopped_sharply(self) -> bool:
        """Whether the newest checkpoint is that of a stop: from then on nothing more is read."""
        number = self.snapshot().latest_checkpoint
        node = self._coordinator.find(self._paths.checkpoint(number)) if number else None
        pointer = decode(node, CheckpointPointer)
        return pointer is not None and pointer.reason is CheckpointKind.STOP

    def savepoint(self, savepoint_id: str) -> Path:
        """Return the directory of a savepoint."""
        return self._config.work_path / self._keys.savepoint(savepoint_id)

    def progress(self) -> dict[str, Progress]:
        """Return how far each query is in the current working directory."""
        return progress(self.directory())

    def files_read(self) -> dict[str, int]:
        """Return how many input files each query has read and committed."""
        return undisturbed(self._files_read)

    def driver(self) -> DriverProcesses:
        """Return the processes of the newest submission, once both of them are up."""
        return wait_until(self._driver, timeout=60, what=f"the driver of {self.job_id} to be up")

    def leader_epoch(self) -> int:
        """Return the epoch of who leads now; 0 when no process does."""
        leader = self.snapshot().leader
        return leader.epoch if leader else 0

    def _files_read(self) -> dict[str, int]:
        directory = self.directory()
        return {name: files_committed(directory / name) for name in checkpoint_layout.queries(directory)}

    def _driver(self) -> DriverProcesses | None:
        view = self.snapshot().run
        newest = view.newest if view else None
        if view is None or newest is None or newest.started is None:
            return None
        submission = self._config.work_path / self._keys.application(view.run.number, newest.submission.attempt)
        return _processes(newest.started, submission / "driver.pid")


@retry(
    retry=retry_if_exception_type((FileNotFoundError, FileGoneError)),
    stop=stop_after_delay(30),
    wait=wait_fixed(0.1),
    reraise=True,
)
def undisturbed(look: Callable[[], T]) -> T:
    """Look until nothing vanishes: Spark purges its logs, a new epoch renames the directory of the last."""
    return look()


def progress(directory: Tree) -> dict[str, Progress]:
    """Return how far each query below a working directory is."""
    now = directory.fresh()
    return {query: checkpoint_layout.progress(now / query) for query in checkpoint_layout.queries(now)}


def files_committed(checkpoint: Tree) -> int:
    """Return how many input files the query of this directory has read and committed.

    Spark logs the files of a batch before it plans the batch: only those up to the log offset of the last committed
    batch count.
    """
    committed = checkpoint_layout.progress(checkpoint).committed
    return len(_files(checkpoint, after=-1, until=_log_offset(checkpoint, committed)))


def rows_in(checkpoint: Tree, batches: Iterable[int]) -> int:
    """Return how many input rows these batches of a query read."""
    files = {
        path
        for batch in batches
        for path in _files(checkpoint, after=_log_offset(checkpoint, batch - 1), until=_log_offset(checkpoint, batch))
    }
    return sum(path.read_bytes().count(b"\n") - 1 for path in files)  # the first line holds the names of the columns


def _log_offset(checkpoint: Tree, batch: int) -> int:
    """Return the position in the log of the file source that a batch ends with; -1 before the first batch."""
    if batch < 0:
        return -1
    last_line = read_text(checkpoint / checkpoint_layout.OFFSETS, str(batch)).splitlines()[-1]
    return int(json.loads(last_line)["logOffset"])


def _files(checkpoint: Tree, *, after: int, until: int) -> set[Path]:
    log = (checkpoint / f"{checkpoint_layout.SOURCES}/0").fresh()
    numbers = {int(name.partition(".")[0]): name for name in names(log) if name[0].isdigit()}
    compacted = max((number for number, name in numbers.items() if name.endswith(".compact")), default=0)
    entries = (
        json.loads(line)
        for number, name in numbers.items()
        if number >= compacted  # it has all entries of those before it
        for line in read_text(log, name).splitlines()[1:]
    )
    return {Path(unquote(urlsplit(entry["path"]).path)) for entry in entries if after < entry["batchId"] <= until}


def exists(pid: int) -> bool:
    """Whether a process exists and can still run."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _processes(started: SubmissionStarted, pid_file: Path) -> DriverProcesses | None:
    try:
        python = int(pid_file.read_text())
        supervisor = psutil.Process(pid_of(started))
        jvms = [child.pid for child in supervisor.children() if child.name() == "java"]
    except (OSError, ValueError, psutil.NoSuchProcess):
        return None
    return DriverProcesses(supervisor.pid, jvms[0], python) if jvms and exists(python) else None
