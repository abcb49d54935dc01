"""Cleanup after past runs, by the leader of the cluster or on request, without a driver.

A driver cleans up its own run and earlier ones (``driver.members.housekeeping``). This module serves jobs that no
driver comes for: the run was ended without a driver, or its driver died between the result and CLEAN. It uses the same
transactions, and holds the job's lock for seconds at most, so that a starting driver does not wait for the whole
cleanup. A job with a live run is left to its driver: taking the lock would look like a leadership of that run.

Invariant: files are removed under the epoch under which they were searched. While a process leads the job, each removal
follows a transaction that checks this epoch. Without a leader, the removals hold the job's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from airflow_provider_ha.checkpoints.areas.layered.garbage import Garbage, GarbageSearch, note_needs, remove, time_of
from airflow_provider_ha.checkpoints.areas.open_work_area import open_files
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.claims import runs_in_use
from airflow_provider_ha.checkpoints.store.working_directories import search, superfluous_directories
from airflow_provider_ha.coordination.coordinator import Check, Op
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import (
    ConfigurationError,
    FencedError,
    JobStateError,
    NodeMissingError,
    RecordCorruptError,
    VersionConflictError,
)
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import checkpoint_store
from airflow_provider_ha.jobs.recovery.transactions import take_lock
from airflow_provider_ha.jobs.removal.past_runs import PastRuns, PruneReport
from airflow_provider_ha.jobs.runs.journal import has_earlier_life
from airflow_provider_ha.jobs.runs.run_store import working_directory
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.storage.object_store import ObjectStore


LOCKED_SECONDS = 1.0  # longest time of holding the lock


def past_runs(job: JobContext) -> PastRuns:
    """Return the job's past runs, with the retention of the connection."""
    return PastRuns(
        job.coordinator,
        job.paths,
        job.journal,
        job.config.retention,
        job.clock,
        partial(runs_in_use, job.coordinator, job.paths),
    )


def clear_past(job: JobContext, newest: int) -> Iterator[None]:
    """Remove the records of past runs from a job without a live run; yield after each step.

    The records of an ended run are final, and nodes that may still change are removed by version. So only the
    transactions need the job's lock, for a short time: a starting driver does not wait.

    :param newest: Number of the newest run, which has ended.
    :raises JobStateError: A newer run exists; its driver continues the removal.
    :raises LeadershipError: Another process leads the job.
    :raises HaError: A read or removal failed; the next call continues.
    """
    lock = _BriefLock(job, newest)
    try:
        yield from past_runs(job).clear(lock.commit)
    finally:
        lock.release()


class _BriefLock:
    """The lock of a job without a driver, for many transactions: taken again each second instead of a lease renewal."""

    def __init__(self, job: JobContext, newest: int) -> None:
        self._job = job
        self._newest = newest
        self._leadership: Leadership | None = None
        self._until = 0.0

    def commit(self, *ops: Op) -> list[int]:
        """Apply *ops* as the job's leader; raises as :meth:`Leadership.commit` and :func:`clear_past` do."""
        now = self._job.clock.lease_time()
        if self._leadership is None or now >= self._until:
            self.release()
            self._leadership = take_lock(self._job, self._newest, admit=self._admit)
            self._until = now + min(LOCKED_SECONDS, self._leadership.lease_left() / 2)
        return self._leadership.commit(*ops)

    def release(self) -> None:
        """Release the lock, if held."""
        leadership, self._leadership = self._leadership, None
        if leadership is not None:
            leadership.release()

    def _admit(self) -> None:
        numbers = self._job.runs.numbers()
        over = self._job.runs.result(self._newest) is not None
        if numbers[-1] != self._newest or not over:
            raise JobStateError(
                f"run {numbers[-1]} of job {self._job.job_id!r} has begun",
                next_step="Nothing needs to be done: its driver continues the removal",
            )


_PROGRESS_SECONDS = 0.5
PruneProgress = Callable[[int], None]  # number of removed runs


def prune_job(job: JobContext, *, dry_run: bool, progress: PruneProgress = lambda _: None) -> PruneReport:
    """Remove the records of runs that ended long ago.

    :param dry_run: Whether to only count, without any write.
    :raises RecordCorruptError: A record that may refer to a run cannot be read; all runs stay.
    :raises JobStateError: A new run has begun; the remaining removals are left to its driver.
    :raises LeadershipError: Another process has begun to lead the job; the other runs stay.
    """
    found = past_runs(job).count()
    found.left_to = _left_to(job)
    if not dry_run and not found.left_to:
        _remove(job, found, progress)
    return found


def _left_to(job: JobContext) -> str:
    snapshot = job.snapshot()
    if snapshot.leader is not None:
        return f"epoch {snapshot.leader.epoch} on {snapshot.leader.host}, which leads the job"
    live = snapshot.run is not None and snapshot.run.result is None
    return "the next driver of its live run" if live else ""


def _remove(job: JobContext, found: PruneReport, progress: PruneProgress) -> None:
    numbers = job.runs.numbers()
    if not numbers:
        return
    looked = job.clock.lease_time()
    for _ in clear_past(job, numbers[-1]):
        if job.clock.lease_time() - looked >= _PROGRESS_SECONDS:
            progress(found.runs - len(job.runs.numbers()))
            looked = job.clock.lease_time()
    found.removed = len(set(found.expendable) - set(job.runs.numbers()))


COLLECTION_LOCK_SECONDS = 5.0  # longest time of holding the lock
CollectionProgress = Callable[[str, int, int], None]  # activity, completed steps, total steps (0: unknown)


@dataclass(slots=True)
class FileCollection:
    """The garbage in a job's working directories, and its removed part.

    :param search: Complete result of the search.
    :param removed: Removed items in the order of removal; empty after a dry run.
    """

    search: GarbageSearch
    removed: list[Garbage] = field(default_factory=list)


def collect_job(job: JobContext, *, dry_run: bool, progress: CollectionProgress = lambda *_: None) -> FileCollection:
    """Remove unneeded files from a job's working directories.

    :param dry_run: Whether to only search, without any write, not even a probe.
    :raises ConfigurationError: The working directories share files by links, which need no collector.
    :raises JobStateError: A new leader has no working directory yet.
    :raises LeadershipError: Another process has begun to lead the job; the other files stay.
    :raises RecordCorruptError, CheckpointError, StorageUnavailableError: The needed files are unknown; all files stay.
    """
    files = require_files(job)
    snapshot = job.snapshot()
    _refuse_a_beginning(snapshot)
    now = int(job.clock.now().timestamp() * 1000) if dry_run else time_of(files)
    generation = snapshot.generation
    current = None if generation is None else working_directory(job.area, job.paths, generation)
    found = FileCollection(search(checkpoint_store(job), files, current, now))
    for done, _ in enumerate(found.search.steps()):
        progress("searching", done, 0)
    if not dry_run and found.search.garbage:
        _Removal(job, files, found, progress).run(snapshot)
    return found


def needs_collection(job: JobContext) -> bool:
    """Return whether the working directories of a job need a collector: they share files by copies, not by links."""
    return open_files(job.config) is not None


def require_files(job: JobContext) -> ObjectStore:
    """Return the files below the work root.

    :raises ConfigurationError: The work root has links: the file system removes a file with its last name.
    """
    files = open_files(job.config)
    if files is None:
        raise ConfigurationError(
            f"the work root {job.config.work_uri} has links: Spark itself removes unneeded files",
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
    """The removals after a search, with the checks of leadership that they need."""

    def __init__(
        self, job: JobContext, files: ObjectStore, found: FileCollection, progress: CollectionProgress
    ) -> None:
        self._job = job
        self._files = files
        self._found = found
        self._progress = progress
        self._left = list(found.search.garbage)

    def run(self, snapshot: JobStatus) -> None:
        """Remove all items, under the epoch of *snapshot* or with the job's lock."""
        if snapshot.leader is not None:
            self._remove(lambda: self._check(snapshot.epoch), until=None)
            return
        epoch, run = snapshot.epoch, snapshot.run.run.number if snapshot.run else 0
        while self._left:
            with take_lock(self._job, run) as leadership:
                if leadership.epoch != epoch + 1:
                    raise self._fenced(epoch)
                epoch = leadership.epoch
                self._remove(leadership.prove, until=self._job.clock.lease_time() + COLLECTION_LOCK_SECONDS)

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
            f"job {self._job.job_id!r} has another leader than epoch {epoch}, under which its files were searched: "
            f"{removed} of {total} unneeded files were removed",
            next_step="Run it again",
        )


log = logging.getLogger(__name__)
_PAST_SECONDS = 30.0  # per job and call: other jobs wait for this thread


def has_past_runs(job: JobContext) -> bool:
    """Return whether an ended job has removable runs; ``False`` if a record cannot be read: then all runs stay."""
    try:
        return next(past_runs(job).find(), None) is not None
    except RecordCorruptError as error:
        log.warning("the past runs of %s stay: %s", job.job_id, error)
        return False


def clean_up(job: JobContext) -> tuple[int, ...]:
    """Remove the remains of ended runs, mark their results CLEAN, and return their numbers.

    Also remove runs that ended long ago, as many as half a minute allows. Repeatable: an interrupted call leaves the
    results DIRTY for the next call.

    :raises JobStateError: The newest run has no result; its files stay.
    :raises LeadershipUnavailableError: Another process leads the job.
    :raises LeadershipLostError: The cleanup took longer than the lease; the next call continues.
    """
    run = _ended(job)
    with take_lock(job, run, admit=lambda: _require_ended(job, run)) as leadership:
        pointer = job.graphs.remove_op(run, alone=True)  # guard: clean-ups-remove-the-pointer-of-a-newer-run
        if pointer is not None:
            log.warning("job %s: a graph pointer of an ended run is removed; run %d is not run again", job.job_id, run)
            leadership.commit(pointer)  # guard: pointer-first
        checkpoints = checkpoint_store(job)  # guard: clean-last
        # retained checkpoints stay, entries listed for deletion are removed
        checkpoints.shutdown(leadership, terminal=True)
        for key in _superfluous(job, checkpoints):
            # guard: cleanup-prove
            leadership.prove()  # a former leader must not remove anything
            log.info("working directory %s is removed", key)
            job.area.remove(key)
        numbers = [number for number, result in job.runs.results().items() if result.cleanup == "DIRTY"]
        dirty = {number: mark for number in numbers if (mark := job.runs.clean_op(number)) is not None}
        if dirty:
            leadership.commit(*dirty.values())
    _remove_past(job, run)
    return tuple(dirty)


def _remove_past(job: JobContext, run: int) -> None:
    until = job.clock.lease_time() + _PAST_SECONDS
    try:
        for _ in clear_past(job, run):
            if job.clock.lease_time() >= until:
                return
    except RecordCorruptError as error:
        log.warning("the past runs of %s stay: %s", job.job_id, error)


def _superfluous(job: JobContext, checkpoints: CheckpointStore) -> list[str]:
    generation = job.snapshot().generation
    if generation is None or has_earlier_life(job.coordinator, job.paths, job.journal):
        return []
    current = working_directory(job.area, job.paths, generation)  # its siblings are removed, so it has to be ours
    return superfluous_directories(checkpoints, job.area, current, drains_after=job.runs.drains_after())


def _ended(job: JobContext) -> int:
    numbers = job.runs.numbers()
    if not numbers:
        raise JobStateError(f"job {job.job_id!r} has no run", next_step="Nothing needs to be done")
    _require_ended(job, numbers[-1])
    return numbers[-1]


def _require_ended(job: JobContext, run: int) -> None:
    newest = job.runs.numbers()[-1]
    if newest != run or job.runs.result(run) is None:  # guard: dirty-first
        raise JobStateError(
            f"run {newest} of job {job.job_id!r} is not over", next_step="Nothing is cleaned up while a run is live"
        )
