"""Deletion of a checkpoint or savepoint: by the driver if there is one, otherwise under the job's lock.

Invariants:

- Checkpoints that a job may continue from stay: the newest, the newest proven one, those under a reader's lease, and
  the start of a live run without a proven checkpoint, because its driver begins there or falls back to it.
- The proof reads every byte, so the caller makes it, and not a driver, which has other requests to serve. The
  transaction checks that the proven checkpoint still exists.
- Batch records stay as long as an older checkpoint or savepoint needs them for a replay
  (``checkpoints.store.checkpoint_store``). The claims of a run are released by the number of later checkpoints; a
  deletion lowers that number and so keeps a claim longer.
- If a pointer cannot be read, it is removed from ZooKeeper and its bytes are kept in storage
  (``checkpoints.store.checkpoint_pointers``). The request names their digest, so a pointer that the user has not seen
  stays.
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
    :raises JobStateError: The savepoint is the start of a live run without a checkpoint; or a reader holds it and no
        driver runs; or another process leads a job whose run has ended.
    :raises OperationFailedError: The driver could not remove it; the message has its reason.
    :raises OutcomeUnknownError: The driver did not answer in time.
    """
    savepoints.pointer(savepoint_id)
    savepoints.refuse_start(savepoint_id)  # before taking the lock, which that run's driver is about to take
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
    """Let the driver remove a checkpoint or savepoint, or remove it as the leader of a job without a driver.

    :param arguments: Arguments of the operation; the first one identifies the object.
    :param what: Description of the object for messages.
    :raises OperationFailedError: The driver could not remove the object; the message has its reason.
    :raises OutcomeUnknownError: The driver did not answer in time.
    """
    led, run = _led(job)
    if not led:
        try:
            with take_lock(job, run) as leadership:
                remove(leadership)
        except LeadershipUnavailableError:
            pass  # a driver has started by then: it gets the request
        else:
            return
    # A new id: the driver would repeat its answer to an earlier request with the same id.
    asked = _open_request(job, arguments) or operations.request(
        job.coordinator,
        job.paths,
        OperationKind.DISPOSE,
        operation_id=f"dispose-{new_id()[:12]}",
        arguments=arguments,
        requested_by=requested_by,
        clock=job.clock,
    )
    _await_answer(job, asked, what)


def _led(job: JobContext) -> tuple[bool, int]:
    """Return whether the job has a leader, and the number of its newest run (``False, 0`` for a deleted job)."""
    try:
        snapshot = job.snapshot()
    except UnknownJobError:
        return False, 0
    return snapshot.leader is not None, snapshot.run.run.number if snapshot.run else 0


def _open_request(job: JobContext, arguments: dict[str, str]) -> Operation | None:
    """Return the open request of an earlier call, if any."""
    name, value = next(iter(arguments.items()))
    for operation in operations.list_operations(job.coordinator, job.paths):
        asked = operation.operation is OperationKind.DISPOSE and operation.arguments.get(name) == value
        if asked and not operation.state.final:
            return operation
    return None


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
    """A deletable checkpoint.

    :param cut: Query -> N; empty when the pointer cannot be read.
    :param created_at: Creation time; ``None`` when the pointer cannot be read.
    :param proven: Name of the newest proven checkpoint, which stays: ``checkpoint-9`` or ``savepoint-<id>``.
    :param proven_run: Number of the run that took the proven checkpoint.
    :param unreadable: The pointer of the deletable checkpoint, if it cannot be read.
    :param kept: Storage key of the unreadable pointer's bytes after the removal.
    """

    number: int
    cut: dict[str, int]
    created_at: datetime | None
    proven: str
    proven_run: int
    unreadable: DamagedPointer | None = None
    kept: str | None = None


def plan_removal(job: JobContext, word: str, *, tell: Callable[[str], None] = lambda _: None) -> CheckpointRemoval:
    """Return the effect of deleting a checkpoint, or refuse a needed one. Changes nothing.

    :param word: ``checkpoint-7``, or ``7``.
    :param tell: Progress callback, called with a description before a long step.
    :raises ConfigurationError: *word* names no checkpoint.
    :raises UnknownJobError: The job does not exist.
    :raises CheckpointMissingError: The checkpoint does not exist (the message lists the existing ones), or none is
        proven.
    :raises JobStateError: The job may still need the checkpoint.
    :raises RecordTooNewError: A newer release wrote the pointer.
    :raises StorageUnavailableError: A checkpoint could not be read, so the newest proven one is unknown.
    """
    job.snapshot()  # raises UnknownJobError
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

    :raises CheckpointMissingError: The checkpoint no longer exists.
    :raises JobStateError: The job has come to need the checkpoint, and no driver runs; the checkpoint stays.
    :raises OperationFailedError: The driver could not remove it; the message has its reason.
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
    # A submitter takes no lock. ZooKeeper has no check for absence: create and delete in one transaction instead.
    following = job.paths.run((numbers[-1] if numbers else 0) + 1)
    absent = (Create(following), Delete(following))
    digest = removal.unreadable.digest if removal.unreadable else ""
    checkpoint_store(job).dispose(leadership, removal.number, proven=removal.proven, unreadable=digest, also=absent)


def _refuse_start(job: JobContext, removal: CheckpointRemoval) -> None:
    """Refuse to delete the start of a live run that may still need it.

    :raises JobStateError: A live run may need this start.
    """
    newest = job.runs.latest()
    if newest is None or newest.result is not None:
        return
    run, start = newest.run, newest.run.start
    number = start.source_id if start.kind is StartKind.CHECKPOINT and start.source_job == job.job_id else None
    if number == str(removal.number) and removal.proven_run != run.number:
        raise JobStateError(
            f"run {run.number} of job {job.job_id!r} starts from checkpoint {number}, and has taken no proven "
            "checkpoint",
            next_step="Wait for its first checkpoint, or cancel the run",
        )


def _number(job: JobContext, word: str) -> int:
    digits = word.removeprefix("checkpoint-")
    if digits.isascii() and digits.isdigit():
        return int(digits)
    savepoint = word.removeprefix("savepoint-")
    if savepoint != word or any(word in (each.savepoint_id, each.label) for each in savepoint_store(job).list()):
        raise ConfigurationError(
            f"{word!r} is a savepoint of job {job.job_id!r}, not a checkpoint",
            next_step=f"Remove it with `spark-ha delete savepoint {job.job_id} {savepoint}`",
        )
    raise ConfigurationError(
        f"{word!r} names no checkpoint of job {job.job_id!r}",
        next_step=f"Use checkpoint-<number>; list them with `spark-ha checkpoint list {job.job_id}`",
    )
