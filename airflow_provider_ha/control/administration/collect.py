"""Collecting the files of one job's working directories for a person, beside the driver that does it by itself.

Invariant: nothing is removed under another epoch than the one under which was searched. While a process leads the job,
each proof is a transaction that checks this epoch; without one the job's lock is held during the removals, a short
while at a time, so that a driver that is started does not wait for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_ha.checkpoints.retention.working_files import search
from airflow_provider_ha.checkpoints.working.layered.collector import note_needs, remove, time_of
from airflow_provider_ha.checkpoints.working.layered.garbage import Garbage, Search
from airflow_provider_ha.checkpoints.working.open_work_area import open_files
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.stores import checkpoint_store
from airflow_provider_ha.coordination.coordinator import Check
from airflow_provider_ha.errors import (
    ConfigurationError,
    FencedError,
    JobStateError,
    NodeMissingError,
    VersionConflictError,
)
from airflow_provider_ha.jobs.directories import working_directory
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.recovery.conclude import take_lock
from airflow_provider_ha.storage.file_store import FileStore


LOCKED_SECONDS = 5.0  # for which the lock is held at a time
Progress = Callable[[str, int, int], None]  # what is done, steps done, of so many (0: not known)


@dataclass(slots=True)
class Collected:
    """What was found in the working directories of one job, and what was removed.

    :param search: Complete.
    :param removed: In the order in which it went; empty after a dry run.
    """

    search: Search
    removed: list[Garbage] = field(default_factory=list)


def collect_job(job: JobContext, *, dry_run: bool, progress: Progress = lambda *_: None) -> Collected:
    """Remove the files of a job's working directories that nothing needs.

    :param dry_run: Whether to search only; then nothing is written, not even a probe.
    :raises ConfigurationError: Its working directories share links, which need no collector.
    :raises JobStateError: A leader is just beginning: it has no working directory yet.
    :raises LeadershipError: Another process has begun to lead the job; the rest stays.
    :raises RecordCorruptError, CheckpointError, StorageUnavailableError: What is needed is not known: nothing goes.
    """
    files = require_files(job)
    snapshot = job.snapshot()
    _refuse_a_beginning(snapshot)
    now = int(job.clock.now().timestamp() * 1000) if dry_run else time_of(files)
    generation = snapshot.generation
    current = None if generation is None else working_directory(job.area, job.paths, generation)
    found = Collected(search(checkpoint_store(job), files, current, now))
    for done, _ in enumerate(found.search.steps()):
        progress("searching", done, 0)
    if not dry_run and found.search.garbage:
        _Removal(job, files, found, progress).run(snapshot)
    return found


def require_files(job: JobContext) -> FileStore:
    """Return the files below the work root.

    :raises ConfigurationError: They are linked there: no file outlives its last name.
    """
    files = open_files(job.config)
    if files is None:
        raise ConfigurationError(
            f"the work root {job.config.work_uri} has links: Spark itself removes what it does not need",
            next_step="Nothing needs to be done",
        )
    return files


def _refuse_a_beginning(snapshot: JobStatus) -> None:
    generation = snapshot.generation
    if snapshot.leader is not None and generation is not None and generation.epoch != snapshot.epoch:
        raise JobStateError(
            f"epoch {snapshot.epoch} of job {snapshot.job_id!r} has no working directory yet",
            next_step="Try again when its driver runs",
        )


class _Removal:
    """The removals of one search, and the right to them."""

    def __init__(self, job: JobContext, files: FileStore, found: Collected, progress: Progress) -> None:
        self._job = job
        self._files = files
        self._found = found
        self._progress = progress
        self._left = list(found.search.garbage)

    def run(self, snapshot: JobStatus) -> None:
        """Remove everything, under the epoch of *snapshot* or with the job's lock."""
        if snapshot.leader is not None:
            self._remove(lambda: self._check(snapshot.epoch), until=None)
            return
        epoch, run = snapshot.epoch, snapshot.run.run.number if snapshot.run else 0
        while self._left:
            with take_lock(self._job, run) as leadership:
                if leadership.epoch != epoch + 1:
                    raise self._fenced(epoch)
                epoch = leadership.epoch
                self._remove(leadership.prove, until=self._job.clock.lease_time() + LOCKED_SECONDS)

    def _remove(self, prove: Callable[[], None], *, until: float | None) -> None:
        total = len(self._found.search.garbage)
        if not self._found.removed:
            note_needs(self._files, self._found.search.known, prove)
        for item in remove(self._files, list(self._left), prove):
            self._found.removed.append(item)
            self._left.pop(0)
            self._progress("removing", len(self._found.removed), total)
            if until is not None and self._job.clock.lease_time() >= until:
                return

    def _check(self, epoch: int) -> None:
        try:
            self._job.coordinator.commit(Check(self._job.paths.epoch, epoch))
        except (VersionConflictError, NodeMissingError):
            raise self._fenced(epoch) from None

    def _fenced(self, epoch: int) -> FencedError:
        removed, total = len(self._found.removed), len(self._found.search.garbage)
        return FencedError(
            f"job {self._job.job_id!r} has another leader than epoch {epoch}, under which its files were looked at: "
            f"{removed} of {total} needless files were removed",
            next_step="Run it again",
        )
