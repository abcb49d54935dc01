"""Cleanup after past runs: by the leader of the cluster, or for a person.

A driver cleans up after itself, and after what earlier ones left (``driver.housekeeping``). What is left here are jobs
that no driver will come for: a run that was ended without one, or whose driver died between its result and CLEAN.

A driver removes it by itself, and so does the leader of the cluster for jobs without one. Here it is done at once, in
the same transactions, with the job's lock a second at a time. A job that has a live run is left to its driver: to take
its lock would look like a leadership of that run.

Invariant: nothing is removed under another epoch than the one under which was searched. While a process leads the job,
each proof is a transaction that checks this epoch; without one the job's lock is held during the removals, a short
while at a time, so that a driver that is started does not wait for all of them.
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
from airflow_provider_ha.jobs.removal.past_runs import PastRuns
from airflow_provider_ha.jobs.runs.journal import has_earlier_life
from airflow_provider_ha.jobs.runs.run_store import working_directory
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.storage.file_store import FileStore


LOCKED_SECONDS = 1.0  # for which the lock is held at a time


def past_runs(job: JobContext) -> PastRuns:
    """Return what finds and removes them, by the retention of the connection."""
    return PastRuns(
        job.coordinator,
        job.paths,
        job.journal,
        job.config.retention,
        job.clock,
        partial(runs_in_use, job.coordinator, job.paths),
    )


def clear_past(job: JobContext, newest: int) -> Iterator[None]:
    """Remove what they have left, of a job without a live run; yields after each step.

    What is read of a run that is over does not change any more, and what may change is removed by its version. So the
    job's lock is held for transactions only, and not for long: a driver that comes does not wait.

    :param newest: The newest run, which is over.
    :raises JobStateError: There is a newer run: its driver goes on with this.
    :raises LeadershipError: Another process leads the job.
    :raises HaError: Something could not be read or removed; the next call goes on.
    """
    lock = _BriefLock(job, newest)
    try:
        yield from past_runs(job).clear(lock.commit)
    finally:
        lock.release()


class _BriefLock:
    """The lock of a job without a driver, for many transactions; nothing renews its lease, so it is taken again."""

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
            self._admit()  # a newer run may have been made between the first look and the grant
            self._until = now + min(LOCKED_SECONDS, self._leadership.lease_left() / 2)
        return self._leadership.commit(*ops)

    def release(self) -> None:
        """Give the lock back, when it is held."""
        leadership, self._leadership = self._leadership, None
        if leadership is not None:
            leadership.release()

    def _admit(self) -> None:
        numbers = self._job.runs.numbers()
        over = self._job.runs.result(self._newest) is not None
        if numbers[-1] != self._newest or not over:
            raise JobStateError(
                f"run {numbers[-1]} of job {self._job.job_id!r} has begun",
                next_step="Nothing needs to be done: its driver goes on with the removal",
            )


_PROGRESS_SECONDS = 0.5
PruneProgress = Callable[[int], None]  # runs that are removed


@dataclass(slots=True)
class PruneReport:
    """What was found of one job, and what was removed.

    :param runs: How many runs are known.
    :param expendable: Numbers of those that can go.
    :param submissions: How many submissions these have.
    :param tasks: How many tasks had started or followed them.
    :param outputs: How many claims of outputs are of runs that are over.
    :param leases: How many things that are gone have leases that have expired.
    :param removed: How many runs were removed.
    :param kept: Run -> reason why it stays, for runs that are old enough to be removed.
    :param left_to: What removes it, when this was not done here; empty when it was.
    """

    runs: int
    expendable: list[int] = field(default_factory=list)
    submissions: int = 0
    tasks: int = 0
    outputs: int = 0
    leases: int = 0
    removed: int = 0
    kept: dict[int, str] = field(default_factory=dict)
    left_to: str = ""


def prune_job(job: JobContext, *, dry_run: bool, progress: PruneProgress = lambda _: None) -> PruneReport:
    """Remove what runs that are long over have left.

    :param dry_run: Whether to count only; then nothing is written.
    :raises RecordCorruptError: Something may refer to a run and cannot be read: nothing is removed.
    :raises JobStateError: A new run has begun; the rest is left to its driver.
    :raises LeadershipError: Another process has begun to lead the job; the rest stays.
    """
    past = past_runs(job)
    found = PruneReport(runs=len(job.runs.numbers()))
    count = past.count()
    found.expendable, found.submissions, found.tasks = list(count.runs), count.submissions, count.tasks
    found.outputs, found.leases, found.kept = count.outputs, count.leases, dict(past.kept)
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


COLLECTION_LOCK_SECONDS = 5.0  # for which the lock is held at a time
CollectionProgress = Callable[[str, int, int], None]  # what is done, steps done, of so many (0: not known)


@dataclass(slots=True)
class FileCollection:
    """What was found in the working directories of one job, and what was removed.

    :param search: Complete.
    :param removed: In the order in which it went; empty after a dry run.
    """

    search: GarbageSearch
    removed: list[Garbage] = field(default_factory=list)


def collect_job(job: JobContext, *, dry_run: bool, progress: CollectionProgress = lambda *_: None) -> FileCollection:
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
    found = FileCollection(search(checkpoint_store(job), files, current, now))
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

    def __init__(self, job: JobContext, files: FileStore, found: FileCollection, progress: CollectionProgress) -> None:
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
            f"job {self._job.job_id!r} has another leader than epoch {epoch}, under which its files were looked at: "
            f"{removed} of {total} needless files were removed",
            next_step="Run it again",
        )


log = logging.getLogger(__name__)
_PAST_SECONDS = 30.0  # for one job at a time: others wait for this thread


def has_past_runs(job: JobContext) -> bool:
    """Whether a job that is over has runs that can go. What cannot be read says nothing, and nothing goes then."""
    try:
        return next(past_runs(job).find(), None) is not None
    except RecordCorruptError as error:
        log.warning("the past runs of %s stay: %s", job.job_id, error)
        return False


def clean_up(job: JobContext) -> tuple[int, ...]:
    """Remove what runs that are over have left, and mark their results CLEAN; returns their numbers.

    Runs that are long over go as well, as many as half a minute allows.

    Repeatable: what stops it in between leaves the results DIRTY, for the next call.

    :raises JobStateError: The newest run has no result: nothing is cleaned up then.
    :raises LeadershipUnavailableError: Another process leads the job.
    :raises LeadershipLostError: It took longer than the lease; the next call goes on.
    """
    run = _ended(job)
    with take_lock(job, run, admit=lambda: _require_ended(job, run)) as leadership:
        _require_ended(job, run)  # a newer run may have been made between the first look and the grant
        pointer = job.graphs.remove_op(run, alone=True)  # guard: clean-ups-remove-the-pointer-of-a-newer-run
        if pointer is not None:
            log.warning("job %s: a graph pointer of an ended run is removed; run %d is not run again", job.job_id, run)
            leadership.commit(pointer)  # guard: pointer-first
        checkpoints = checkpoint_store(job)  # guard: clean-last
        checkpoints.shutdown(leadership, terminal=True)  # the retained ones stay; what is listed for deletion goes
        for key in _superfluous(job, checkpoints):
            # guard: cleanup-prove
            leadership.prove()  # a former leader removes nothing
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
    current = working_directory(job.area, job.paths, generation)  # what lies beside it is removed: it has to be ours
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
