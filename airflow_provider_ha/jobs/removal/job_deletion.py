"""Deletion of a job: one transaction for all readers, then the removal of its pointers, records and files.

Invariants:

- The deleting process is not the job's leader, so it takes the job's lock (contract 1). A job with a leader, a live
  run, a reader or an open move to another cluster is refused before any change.
- One transaction deletes the job for all readers (``jobs.removal.removal_records``). A kill before it has no effect.
  After it, the next call of the same command continues, and new runs are refused until the deletion is complete.
- Readers take their lease before they read a pointer, and the transaction removes the pointers. So a reader either
  finds no pointer, or the deletion finds its lease and the files wait for the reader.
- The epoch and the checkpoint counter stay, so that a process that slept through the deletion cannot write. So do
  blobs, which other jobs may name, and directories that the job has claimed outside the cluster. With
  *keep_savepoints*, the savepoints and the input of their restore stay too.

The exits of submissions are removed, but their proof of death has to outlive them: a host that leads in the next life
removes the directories of earlier lives, and a process without a proof of death may still write there. An ended job is
no proof: the host of a lost driver may be cut off, and a supervisor writes an exit after the result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from airflow_provider_ha.checkpoints.areas.open_work_area import open_files
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Op, Reads
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.node_names import is_checkpoint, is_plain, node_numbers, ours
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import (
    JobStateError,
    NodeExistsError,
    NodeMissingError,
    RecordCorruptError,
    VersionConflictError,
)
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import checkpoint_store, readers, require_over
from airflow_provider_ha.jobs.move.move_records import read_arrival, read_moved
from airflow_provider_ha.jobs.recovery.transactions import take_lock
from airflow_provider_ha.jobs.removal.removal_records import (
    DeletedJob,
    JobLife,
    PastLife,
    RemovedRunStore,
    Span,
    read_life,
)
from airflow_provider_ha.jobs.restore.recorded_past import known_past
from airflow_provider_ha.jobs.runs.output_claims import own_claims
from airflow_provider_ha.jobs.runs.run_store import RunStore, decode
from airflow_provider_ha.jobs.runs.submissions import SubmissionExit
from airflow_provider_ha.storage.durable import remove_tree


_BATCH = 50  # nodes per transaction: a lease lasts seconds, and ZooKeeper's packets are small
_ATTEMPTS = 3


def remove_nodes(coordinator: Coordinator, leadership: Leadership, base: str, *, spared: tuple[str, ...]) -> None:
    """Remove all nodes below *base* in fenced transactions, children first.

    :param spared: Paths of nodes that stay, with their children.
    :raises VersionConflictError, NodeMissingError: Another process still writes there.
    """
    for attempt in range(_ATTEMPTS):
        try:
            nodes = list(_below(coordinator, base, spared))
            for start in range(0, len(nodes), _BATCH):
                leadership.prove()
                leadership.commit(*(Delete(path) for path in nodes[start : start + _BATCH]))
        except (VersionConflictError, NodeMissingError):  # noqa: PERF203  # a retry is a try in a loop
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _below(coordinator: Coordinator, base: str, spared: tuple[str, ...]) -> Iterator[str]:
    for name in coordinator.children(base):
        path = f"{base}/{name}"
        if path not in spared:
            yield from _below(coordinator, path, spared)
            yield path


log = logging.getLogger(__name__)


def unproven_runs(coordinator: Coordinator, paths: JobPaths, last_run: int) -> tuple[Span, ...]:
    """Return the runs up to *last_run* without a proof of death, as ascending spans.

    They include runs that ZooKeeper has lost: neither present nor recorded as removed.

    :raises RecordCorruptError: The record of removed runs cannot be read.
    """
    before = RemovedRunStore(coordinator, paths).read()
    known = RunStore(coordinator, paths).numbers()
    proven = {run for run in range(1, before.through + 1) if before.removed(run)} - set(known)
    proven |= {run for run in known if _is_proven(coordinator, paths, run)}
    return spans(run for run in range(1, last_run + 1) if run not in proven)


def spans(runs: Iterable[int]) -> tuple[Span, ...]:
    """Return ascending numbers as spans of consecutive ones. Pure."""
    found: list[Span] = []
    for run in runs:
        if found and found[-1][1] == run - 1:
            found[-1] = (found[-1][0], run)
        else:
            found.append((run, run))
    return tuple(found)


def _is_proven(coordinator: Coordinator, paths: JobPaths, run: int) -> bool:
    parent = paths.submissions(run)
    exits = tuple(
        paths.submission_exit(run, each) for each in node_numbers(coordinator.children(parent), parent=parent)
    )
    seen = coordinator.read(Reads(exits)).nodes if exits else {}
    try:
        return all(decode(seen[path], SubmissionExit) is not None for path in exits)
    except RecordCorruptError as error:
        log.warning("the directories of run %d stay: %s", run, error)
        return False


MOST_POINTERS = 4000  # in one transaction: ZooKeeper has room to spare
_PROVE_EVERY = 100  # objects


class DeletionState(str, Enum):
    """Progress of a deletion."""

    PLANNED = "planned"
    WAITING = "waiting"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """The deletion of a job: its plan or its result.

    :param runs: Number of runs.
    :param checkpoints: Number of retained checkpoints.
    :param savepoints: Ids of the savepoints.
    :param keep_savepoints: Whether the savepoints stay.
    :param waiting: Readers that the removal of files waits for; the job itself is already deleted.
    """

    job_id: str
    state: DeletionState
    runs: int
    checkpoints: int
    savepoints: tuple[str, ...]
    keep_savepoints: bool
    waiting: tuple[str, ...] = ()


def plan_deletion(job: JobContext, *, keep_savepoints: bool) -> Deletion:
    """Return the deletion that :func:`delete_job` would make. Changes nothing.

    :raises UnknownJobError: The job does not exist.
    :raises JobStateError: As :func:`delete_job`.
    """
    life = read_life(job.coordinator, job.paths)
    _require_deletable(job, life, keep_savepoints=keep_savepoints)
    planned = Deletion(
        job_id=job.job_id,
        state=DeletionState.PLANNED,
        runs=len(job.runs.numbers()),
        checkpoints=len(_checkpoints(job)),
        savepoints=tuple(_savepoints(job)),
        keep_savepoints=keep_savepoints,
    )
    return replace(planned, state=DeletionState.DELETED) if _is_done(life, planned) else planned


def delete_job(job: JobContext, *, keep_savepoints: bool, by: str) -> Deletion:
    """Delete a job. Repeatable: the next call completes an interrupted deletion.

    :param keep_savepoints: Whether the savepoints stay; a later run with the same job id can start from them.
    :raises UnknownJobError: The job does not exist.
    :raises JobStateError: The job has a leader, a live run, a reader or an open move to another cluster; or an earlier,
        incomplete call made another choice about the savepoints.
    :raises StorageUnavailableError: The work root is missing; the job is unchanged.
    :raises LeadershipUnavailableError: Another process leads the job.
    :raises LeadershipError, StorageUnavailableError, CoordinationError: The job is either deleted or unchanged; repeat
        the call.
    """
    planned = plan_deletion(job, keep_savepoints=keep_savepoints)
    if planned.state is DeletionState.DELETED:
        return planned
    job.area.require()
    run = max(job.runs.numbers(), default=0)

    def admit() -> None:
        _require_deletable(job, read_life(job.coordinator, job.paths), keep_savepoints=keep_savepoints, led=True)

    with take_lock(job, run, admit=admit) as leadership:
        life = read_life(job.coordinator, job.paths)
        last_run = max([life.last_run, *job.runs.numbers()])  # before its result is read
        # another process may have led in between
        _require_deletable(job, life, keep_savepoints=keep_savepoints, led=True)
        # removing files takes long
        leadership.start_heartbeats(lambda reason: log.warning("job %s: %s", job.job_id, reason))
        past = _past(job, life, last_run, keep_savepoints=keep_savepoints)
        record = DeletedJob(
            keep_savepoints=keep_savepoints,
            last_run=last_run,
            drained=past.drained,  # guard: deleted-drains-are-forgotten
            unrecorded=past.unrecorded,
            starts=past.starts,
            by=by,
            at=job.clock.now(),
            # a continued deletion finds them in its record
            unproven=life.deleted.unproven if life.deleted else unproven_runs(job.coordinator, job.paths, last_run),
        )
        life = _make_gone(job, leadership, life, record)
        checkpoint_store(job).work_off(leadership)  # entries listed for deletion earlier
        # guard: deleted-files-are-read
        if waiting := readers(job):
            log.warning("the files of job %s wait for %s", job.job_id, waiting)
            return replace(planned, state=DeletionState.WAITING, waiting=tuple(waiting))
        _remove_records(job, leadership, keep_savepoints=keep_savepoints)
        _remove_files(job, leadership.prove, keep_savepoints=keep_savepoints)
        assert life.deleted is not None  # noqa: S101  # it was just made
        leadership.commit(*life.ends(life.deleted.model_copy(update={"complete": True})))
    log.info("job %s is deleted by %s", job.job_id, by)
    return replace(planned, state=DeletionState.DELETED)


def _past(job: JobContext, life: JobLife, last_run: int, *, keep_savepoints: bool) -> PastLife:
    """Return the job's past for a restore; a continued deletion finds it in the deletion's record."""
    if life.deleted is not None:
        return life.deleted.past
    if not keep_savepoints or not _savepoints(job):
        return PastLife(last_run=last_run)  # a restore has no savepoint to begin from
    return known_past(job, last_run)


def _is_done(life: JobLife, planned: Deletion) -> bool:
    kept = planned.keep_savepoints or not planned.savepoints
    return life.deleted is not None and life.deleted.complete and kept


def _require_deletable(job: JobContext, life: JobLife, *, keep_savepoints: bool, led: bool = False) -> None:
    """Refuse a job that must not be deleted.

    :param led: Whether this process leads the job, or is about to; a leader is then no reason to refuse.
    """
    if life.deleted is not None:
        if keep_savepoints and not life.deleted.keep_savepoints and not life.deleted.complete:
            raise JobStateError(
                f"job {job.job_id!r} is being deleted without its savepoints",
                next_step="Complete that without --keep-savepoints",
            )
        if life.deleted.keep_savepoints and not keep_savepoints and not life.deleted.complete:
            raise JobStateError(
                f"job {job.job_id!r} is being deleted, and its savepoints are kept",
                next_step=f"Complete that first: {life.deleted.command(job.job_id)}; then they can go, too",
            )
        return
    if led:
        _require_no_live_run(job)
    else:
        require_over(job)
    left, coming = read_moved(job.coordinator, job.paths), read_arrival(job.coordinator, job.paths)
    if (left is not None and left[0].run is None) or coming is not None:
        where = left[0].sentence if left is not None else "is being moved here"
        raise JobStateError(
            f"job {job.job_id!r} {where}",
            next_step="End the move with `spark-ha job move`, or give it up with --abandon",
        )


def _require_no_live_run(job: JobContext) -> None:
    if (run := job.runs.live_run()) is not None:
        raise JobStateError(
            f"job {job.job_id!r} has a live run, number {run}",
            next_step=f"End it first: `spark-ha job stop {job.job_id}` or `spark-ha job cancel {job.job_id}`",
        )


def _make_gone(job: JobContext, leadership: Leadership, life: JobLife, record: DeletedJob) -> JobLife:
    """Delete the job for all readers in one transaction; return its life after that.

    :raises JobStateError: The job has more pointers than one transaction can remove; it is unchanged.
    """
    pointers = [f"{job.paths.checkpoints}/{name}" for name in _checkpoints(job)]
    if not record.keep_savepoints:
        pointers += [f"{job.paths.savepoints}/{name}" for name in _savepoints(job)]
    if len(pointers) > MOST_POINTERS:
        raise JobStateError(
            f"job {job.job_id!r} has {len(pointers)} checkpoints and savepoints, more than one transaction removes",
            next_step=f"Delete savepoints first: `spark-ha delete savepoint {job.job_id} SAVEPOINT`",
        )
    job.coordinator.ensure(job.paths.cluster.deleted_jobs)
    absent: list[str] = []
    if life.deleted is None:
        job.coordinator.ensure(job.paths.runs)
        absent = [job.paths.arriving, job.paths.run(record.last_run + 1)]  # a submitter takes no lock
    # ZooKeeper has no check for absence: create and delete in one transaction instead.
    stays: list[Op] = [op for path in absent for op in (Create(path), Delete(path))]
    gone: list[Op] = [Delete(path) for path in pointers]  # guard: pointers-outlive-jobs
    try:
        leadership.commit(*life.ends(record), *stays, *gone)
    except (NodeExistsError, VersionConflictError) as error:
        raise JobStateError(
            f"job {job.job_id!r} was submitted or moved at this moment", next_step="Inspect the job, then delete again"
        ) from error
    return replace(life, deleted=record, version=life.version + 1)


def _checkpoints(job: JobContext) -> list[str]:
    return ours(job.coordinator.children(job.paths.checkpoints), is_checkpoint, parent=job.paths.checkpoints)


def _savepoints(job: JobContext) -> list[str]:
    return ours(job.coordinator.children(job.paths.savepoints), is_plain, parent=job.paths.savepoints)


def _remove_records(job: JobContext, leadership: Leadership, *, keep_savepoints: bool) -> None:
    spared = (job.paths.lock, job.paths.checkpoint_id_counter)  # guard: deletion-keeps-epochs
    kept = (job.paths.savepoints,) if keep_savepoints else ()
    remove_nodes(job.coordinator, leadership, job.paths.base, spared=(*spared, *kept))
    # A later run with the same number must not look like the owner of an output.
    claims = [node.path for node, _ in own_claims(job.coordinator, job.paths)]
    for path in (job.paths.cluster.quarantined(job.job_id), *claims):
        node = job.coordinator.find(path)
        if node is not None:
            leadership.commit(Delete(path, node.version))


def _remove_files(job: JobContext, prove: Callable[[], None], *, keep_savepoints: bool) -> None:
    keys, area = job.keys, job.area
    # Notes about fenced functions go: they count for known epochs only. The last epoch is known from its working
    # directory alone, so notes that outlive the directory would hide batches that a later epoch passed to its sinks,
    # and the verdict would be SAFE.
    kept = (keys.savepoints, keys.payloads, keys.archives) if keep_savepoints else ()
    for found in list(job.store.list(keys.journals)):  # first, or a rebuild would recreate the runs in them
        job.store.delete(found.key)
    for prefix in (keys.live, keys.pins, keys.notes, keys.savepoints):
        if prefix not in kept:
            prove()
            area.remove(prefix.removesuffix("/"))
    files = open_files(job.config)
    if files is not None:  # files named by this job's base files; other jobs do not use them
        _each(prove, [found.key for found in (*files.list(keys.live), *files.prepared(keys.live))], files.delete)
    remove_tree(job.config.home_path / keys.submissions)
    left = [found.key for found in job.store.list(f"{keys.base}/") if not found.key.startswith(kept)]
    _each(prove, left, job.store.delete)  # guard: kept-savepoints-lose-their-files
    if not keep_savepoints:
        remove_tree(job.config.home_path / keys.base)


def _each(prove: Callable[[], None], names: list[str], remove: Callable[[str], None]) -> None:
    for number, key in enumerate(names):
        if number % _PROVE_EVERY == 0:
            prove()
        remove(key)
