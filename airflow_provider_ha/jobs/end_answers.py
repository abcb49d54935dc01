"""What the end of a run answers to the requests that are still open: to all that asked for this end, the same result.

Two people who stop one job, or a person and a DAG, ask for one end, and only one of the requests is carried out. A
request that the end does not fulfil has FAILED: its answer says what ended the run, what is missing, and what helps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind, OperationState, RunEnd, RunResult


ENDING = (OperationKind.STOP, OperationKind.CANCEL, OperationKind.CANCEL_WITH_SAVEPOINT)
"""The kinds that ask for the end of the run."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one operation."""

    state: OperationState
    result: Mapping[str, Any]
    error: str = ""


def answer_of_end(operation: Operation, result: RunResult, *, job_id: str) -> Answer:
    """Return what an open operation is answered when its run has *result*. Pure.

    :param job_id: The job, for the commands that help.
    """
    end = result.end
    if end is None or operation.operation not in ENDING:
        return Answer(OperationState.ABANDONED, operation.result, _abandoned(operation, result, job_id))
    if operation.operation_id != end.operation_id and (missing := _missing(operation, result, end, job_id)):
        error = f"run {operation.run} {_ending(end, result)}, {missing}"
        return Answer(OperationState.FAILED, operation.result, error)
    whole = {**end.result, **operation.result}
    return Answer(OperationState.COMPLETED, whole)


def _missing(operation: Operation, result: RunResult, end: RunEnd, job_id: str) -> str:
    """Return what the end of the run lacks of what was asked, and what helps; empty when it lacks nothing."""
    wanted, canceled = operation.operation, result.state is JobState.CANCELED
    if wanted is OperationKind.STOP:
        if canceled:
            return f"not stopped at a batch boundary. A restore goes on from its newest checkpoint: {_restore(job_id)}"
        return _missing_of_stop(operation, end, job_id)
    if not canceled:
        return f"not cancelled. Nothing is left to cancel: `spark-ha job show {job_id}` shows how it ended"
    if wanted is OperationKind.CANCEL_WITH_SAVEPOINT and not ({**end.result, **operation.result}).get("savepoint_id"):
        return _without_savepoint(job_id)
    return ""


def _missing_of_stop(operation: Operation, end: RunEnd, job_id: str) -> str:
    drain = operation.arguments.get("mode") == "terminate"
    if drain and not end.drained:
        return (
            f"not drained. To drain it, start it again ({_restore(job_id)}), then "
            f"`spark-ha job stop {job_id} --mode terminate`"
        )
    if end.drained and not drain:
        return f"not only suspended. Its last windows are emitted; a restore goes on from before: {_restore(job_id)}"
    if operation.arguments.get("savepoint") and not end.result.get("savepoint_id"):
        return _without_savepoint(job_id)
    return ""


def _ending(end: RunEnd, result: RunResult) -> str:
    """Return what ended a run, as the rest of a sentence that begins with the run."""
    at = "" if result.checkpoint is None else f" (checkpoint {result.checkpoint})"
    if end.operation is None:
        return f"ended by itself{at}, as its script did"
    how = "drained" if end.drained else "suspended" if end.operation is OperationKind.STOP else "cancelled"
    return f"was {how}{at} by operation {end.operation_id!r} of {end.requested_by}"


def _abandoned(operation: Operation, result: RunResult, job_id: str) -> str:
    why = f": {result.reason}" if result.reason else ""
    said = f"run {operation.run} ended {result.state.value} before this was done{why}"
    return f"{said}. {_copies(job_id)}" if operation.operation is OperationKind.SAVEPOINT else said


def _without_savepoint(job_id: str) -> str:
    return f"without a savepoint. {_copies(job_id)}"


def _copies(job_id: str) -> str:
    return f"`spark-ha savepoint trigger {job_id}` makes a savepoint of its newest proven checkpoint"


def _restore(job_id: str) -> str:
    return f"`spark-ha restore {job_id}`"
