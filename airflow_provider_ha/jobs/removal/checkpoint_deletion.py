"""Deletion of a checkpoint or savepoint: by the driver if there is one, otherwise under the job's lock.

Invariants:

- What a job goes on from stays: the newest checkpoint, the newest that is proven, what a reader holds, and the start of
  a live run that has taken no proven checkpoint yet: its driver has to begin from it, or would fall back to it.
- The proof reads every byte, so it is made by the caller and not by a driver, which has other requests to serve. The
  transaction checks that what was proven is still there.
- The record of the batches stays as long as an older checkpoint or savepoint has to replay them (``retention.store``).
  What a run has claimed is given up by the number of later checkpoints: with one less of them it stays longer.
- Of a checkpoint whose pointer cannot be read, the pointer goes and its bytes stay (``retention.unreadable_pointer``).
  The request names their digest: what a person has not seen stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from airflow_provider_ha.checkpoints.restore.restore_point import LATEST
from airflow_provider_ha.checkpoints.store.checkpoint_pointers import DamagedPointer
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.coordination.coordinator import Create, Delete
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import (
    ConfigurationError,
    JobStateError,
    LeadershipUnavailableError,
    OperationFailedError,
    OutcomeUnknownError,
    UnknownJobError,
)
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import checkpoint_store, savepoint_store, select_checkpoint
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState, StartKind
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.recovery.transactions import take_lock


ANSWER_SECONDS = 60.0
_POLL_SECONDS = 0.2


def dispose_savepoint(job: JobContext, savepoints: SavepointStore, savepoint_id: str, *, requested_by: str) -> None:
    """Remove a savepoint: its pointer first, then its files.

    :raises CheckpointMissingError: There is no such savepoint.
    :raises JobStateError: It is the start of a live run that has no checkpoint yet; or it is being read, and no driver
        runs; or another process leads a job whose run is over.
    :raises OperationFailedError: The driver could not remove it, and says why.
    :raises OutcomeUnknownError: The driver did not answer in time.
    """
    savepoints.pointer(savepoint_id)
    savepoints.refuse_start(savepoint_id)  # before the lock: the driver of that run is on its way to take it
    dispose(
        job,
        {"savepoint_id": savepoint_id},
        f"savepoint {savepoint_id!r}",
        lambda leadership: savepoints.dispose(leadership.commit, savepoint_id),
        requested_by=requested_by,
    )


def dispose(
    job: JobContext,
    arguments: dict[str, str],
    what: str,
    remove: Callable[[Leadership], None],
    *,
    requested_by: str,
) -> None:
    """Have the driver remove something, or remove it as the leader of a job that has none.

    :param arguments: Of the operation; the first one says what is removed.
    :param what: The same, for people.
    :raises OperationFailedError: The driver could not remove it, and says why.
    :raises OutcomeUnknownError: The driver did not answer in time.
    """
    led, run = _led(job)
    if not led:
        try:
            with take_lock(job, run) as leadership:
                remove(leadership)
        except LeadershipUnavailableError:
            pass  # a driver has come up: it is asked
        else:
            return
    _await_answer(job, _open_request(job, arguments) or _request(job, arguments, requested_by), what)


def _led(job: JobContext) -> tuple[bool, int]:
    """Return whether the job has a leader, and the number of its newest run; a deleted job that kept it has neither."""
    try:
        snapshot = job.snapshot()
    except UnknownJobError:
        return False, 0
    return snapshot.leader is not None, snapshot.run.run.number if snapshot.run else 0


def _open_request(job: JobContext, arguments: dict[str, str]) -> Operation | None:
    """Return the request that an earlier call did not see answered."""
    name, value = next(iter(arguments.items()))
    for operation in operations.list_operations(job.coordinator, job.paths):
        asked = operation.operation is OperationKind.DISPOSE and operation.arguments.get(name) == value
        if asked and not operation.state.final:
            return operation
    return None


def _request(job: JobContext, arguments: dict[str, str], requested_by: str) -> Operation:
    """Ask the driver by a new id: what was answered about an earlier savepoint of that name is remembered."""
    return operations.request(
        job.coordinator,
        job.paths,
        OperationKind.DISPOSE,
        operation_id=f"dispose-{new_id()[:12]}",
        arguments=arguments,
        requested_by=requested_by,
        clock=job.clock,
    )


def _await_answer(job: JobContext, operation: Operation, what: str) -> None:
    deadline = job.clock.lease_time() + ANSWER_SECONDS
    while not operation.state.final:
        if job.clock.lease_time() >= deadline:
            raise OutcomeUnknownError(
                f"the driver of job {job.job_id!r} has not answered operation {operation.operation_id!r}",
                next_step="Repeat the request; the first one stays",
            )
        job.sleep(_POLL_SECONDS)
        operation = operations.read(job.coordinator, job.paths, operation.operation_id) or operation
    if operation.state is not OperationState.COMPLETED:
        raise OperationFailedError(
            f"{what} of job {job.job_id!r} was not removed: {operation.error.rstrip('.')}",
            next_step="Resolve the reason, then repeat the request",
        )


@dataclass(frozen=True, slots=True)
class CheckpointRemoval:
    """A checkpoint that may be deleted.

    :param number: Its number.
    :param cut: Query -> N; empty when the pointer cannot be read.
    :param created_at: When it was taken; ``None`` when the pointer cannot be read.
    :param proven: The newest that is proven, ``checkpoint-9`` or ``savepoint-<id>``: it stays.
    :param proven_run: Run that took that one.
    :param unreadable: Its pointer, when that cannot be read.
    :param kept: Key of the bytes of such a pointer, once it is removed.
    """

    number: int
    cut: dict[str, int]
    created_at: datetime | None
    proven: str
    proven_run: int
    unreadable: DamagedPointer | None = None
    kept: str | None = None


def plan_removal(job: JobContext, word: str, *, tell: Callable[[str], None] = lambda _: None) -> CheckpointRemoval:
    """Return what deleting a checkpoint removes; refuse what may not go. Changes nothing.

    :param word: ``checkpoint-7``, or ``7``.
    :param tell: Called with each step, for people who wait.
    :raises ConfigurationError: It names no checkpoint.
    :raises UnknownJobError: There is no such job.
    :raises CheckpointMissingError: There is no such checkpoint; those that there are, are named. Or none is proven.
    :raises JobStateError: It may not go.
    :raises RecordTooNewError: A newer release wrote its pointer.
    :raises StorageUnavailableError: A checkpoint could not be read: which one is proven is unknown.
    """
    job.snapshot()  # an unknown job is refused as one
    number, store = _number(job, word), checkpoint_store(job)
    unreadable = store.unreadable(number)
    store.refuse_needed(number, proven="")  # before the proof, which takes long
    tell("verifying the newest checkpoint")
    proven = select_checkpoint(job, start_from=LATEST, fallback=True).require()
    if unreadable is None:
        pointer = store.removable(number, proven.name).record
        removal = CheckpointRemoval(number, dict(pointer.cut), pointer.created_at, proven.name, proven.run)
    else:
        store.refuse_needed(number, proven.name)
        kept = job.keys.removed_pointer(number, unreadable.digest)
        removal = CheckpointRemoval(number, {}, None, proven.name, proven.run, unreadable, kept)
    _refuse_start(job, removal)
    return removal


def delete_checkpoint(job: JobContext, removal: CheckpointRemoval, *, requested_by: str) -> None:
    """Delete a checkpoint: its pointer in one transaction, then its files.

    :raises CheckpointMissingError: It is gone already.
    :raises JobStateError: It may not go any more, and no driver runs; nothing was removed.
    :raises OperationFailedError: The driver could not remove it, and says why.
    :raises OutcomeUnknownError: The driver did not answer in time.
    """
    dispose(
        job,
        {
            "checkpoint": str(removal.number),
            "proven": removal.proven,
            **({"unreadable": removal.unreadable.digest} if removal.unreadable else {}),
        },
        f"checkpoint {removal.number}",
        partial(_remove, job, removal),
        requested_by=requested_by,
    )


def _remove(job: JobContext, removal: CheckpointRemoval, leadership: Leadership) -> None:
    numbers = job.runs.numbers()
    _refuse_start(job, removal)
    # A submitter takes no lock. What can be made and removed at once is not there.
    following = job.paths.run((numbers[-1] if numbers else 0) + 1)
    absent = (Create(following), Delete(following))
    digest = removal.unreadable.digest if removal.unreadable else ""
    checkpoint_store(job).dispose(leadership, removal.number, proven=removal.proven, unreadable=digest, also=absent)


def _refuse_start(job: JobContext, removal: CheckpointRemoval) -> None:
    """Refuse the start of a live run that may still need it.

    :raises JobStateError: It is.
    """
    newest = job.runs.latest()
    if newest is None or newest.result is not None:
        return
    run, start = newest.run, newest.run.start
    number = start.source_id if start.kind is StartKind.CHECKPOINT and start.source_job == job.job_id else None
    if number == str(removal.number) and removal.proven_run != run.number:
        raise JobStateError(
            f"run {run.number} of job {job.job_id!r} begins from checkpoint {number}, and has taken no proven one",
            next_step="Wait for its first checkpoint, or cancel the run; nothing was removed",
        )


def _number(job: JobContext, word: str) -> int:
    digits = word.removeprefix("checkpoint-")
    if digits.isascii() and digits.isdigit():
        return int(digits)
    savepoint = word.removeprefix("savepoint-")
    if savepoint != word or any(word in (each.savepoint_id, each.label) for each in savepoint_store(job).list()):
        raise ConfigurationError(
            f"{word!r} is a savepoint of job {job.job_id!r}, not a checkpoint",
            next_step=f"Remove it with `spark-ha savepoint dispose {job.job_id} {savepoint}`",
        )
    raise ConfigurationError(
        f"{word!r} names no checkpoint of job {job.job_id!r}",
        next_step=f"Use checkpoint-<number>; list them with `spark-ha checkpoint list {job.job_id}`",
    )
