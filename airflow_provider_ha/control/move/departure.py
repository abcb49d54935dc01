"""The old place of a job that moves: its run ends, it is marked, and what it goes on from is a savepoint.

Invariant: the mark is made as the leader of the job, in a transaction that sees the result of its newest run. From then
on no run is made here; nothing that the job has here is removed.
"""

from __future__ import annotations

import time

from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.control.administration import stop
from airflow_provider_ha.control.administration.stop import UnansweredStop
from airflow_provider_ha.control.job.checkpoint_copy import copy_request
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.stores import savepoint_store
from airflow_provider_ha.control.move.outcome import MoveRequest
from airflow_provider_ha.coordination.coordinator import Check, Create, Delete, SetData
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.errors import JobStateError, NodeExistsError, OperationFailedError, OutcomeUnknownError
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.model import OperationState, StartKind
from airflow_provider_ha.jobs.moves import Moved, read_moved
from airflow_provider_ha.recovery.conclude import brief_commit, take_lock


_POLL = 0.5  # seconds


def end_run(job: JobContext, request: MoveRequest) -> None:
    """Stop a job that runs, with a checkpoint; one that is over is left alone.

    It asks for no savepoint: a job that has lost its driver could not take one, and is ended here at once.

    :raises JobStateError: It runs, and is not to be stopped.
    :raises OperationFailedError: It could not be stopped, with the reason; it runs on.
    :raises OutcomeUnknownError: It did not stop in time. Repeat the move.
    """
    if is_over(job):
        return
    if not request.stop:
        raise JobStateError(
            f"job {job.job_id!r} has a live run",
            next_step=f"Add --stop, or stop it first: `spark-ha job stop {job.job_id}`",
        )
    operation_id, unanswered = f"move-{new_id()[:12]}", UnansweredStop()

    def ask() -> None:
        stop.stop(job, operation_id=operation_id, requested_by=request.requested_by, mode="suspend", savepoint=False)

    ask()
    deadline = time.monotonic() + request.wait
    while not is_over(job):
        operation = operations.read(job.coordinator, job.paths, operation_id)
        if operation is not None and operation.state is OperationState.FAILED and not is_over(job):
            raise OperationFailedError(
                f"job {job.job_id!r} could not be stopped: {operation.error}",
                next_step="Remove the reason, then repeat the move",
            )
        if operation is not None and unanswered.due(job.snapshot(), operation):
            ask()
        if time.monotonic() > deadline:
            raise OutcomeUnknownError(
                f"job {job.job_id!r} did not stop within {request.wait:g} s; the request stays",
                next_step="Repeat the move: it goes on from there",
            )
        job.sleep(_POLL)


def mark(job: JobContext, moved: Moved) -> None:
    """Make sure that no run of the job is made here any more. Repeatable.

    :raises JobStateError: The job has a live run, or another move was faster.
    :raises LeadershipUnavailableError: Another process leads the job.
    """
    newest = job.runs.latest()
    if newest is None:
        raise JobStateError(f"job {job.job_id!r} has no run", next_step="Submit it at the target")
    number = newest.run.number
    with take_lock(job, number) as leadership:
        if not is_over(job):
            raise JobStateError(f"job {job.job_id!r} has a new run", next_step="Repeat the move")
        job.journal.moved(moved)
        try:
            leadership.commit(Check(job.paths.run_result(number)), Create(job.paths.moved, moved.to_bytes()))
        except NodeExistsError:
            found = read_moved(job.coordinator, job.paths)
            if found is None or found[0].move_id != moved.move_id:
                raise JobStateError(
                    f"another move of job {job.job_id!r} was faster", next_step="Look at it: repeat the move"
                ) from None


def note_run(job: JobContext, moved: Moved, node: Node) -> None:
    """Say which run the job has at its new place."""
    job.journal.moved(moved)
    _as_leader(job, SetData(node.path, moved.to_bytes(), node.version))


def unmark(job: JobContext, node: Node) -> None:
    """Let the job be started here again."""
    _as_leader(job, Delete(node.path, node.version))
    job.journal.stays()


def savepoint_of(job: JobContext, chosen: Chosen, move_id: str) -> str:
    """Return the id of a savepoint of what was chosen; one is made of a checkpoint.

    :raises CheckpointError: The checkpoint is damaged.
    """
    if chosen.source == StartKind.SAVEPOINT.value:
        return chosen.source_id
    request, root = copy_request(job, chosen, move_id, label=f"made of {chosen.name} for a move")
    return savepoint_store(job).create(brief_commit(job, chosen.run), request, root).savepoint_id


def is_over(job: JobContext) -> bool:
    """Whether the job has no live run."""
    newest = job.runs.latest()
    return newest is None or newest.result is not None


def _as_leader(job: JobContext, *ops: SetData | Delete) -> None:
    newest = job.runs.latest()
    brief_commit(job, newest.run.number if newest else 0)(*ops)
