"""Requests to a running job, and their answers.

The requester creates a node whose name can be taken only once; from then on only the leader writes it, fenced by its
epoch. So two requests with the same id are the same request, from any process, and an answer outlives every process
that waits for it.

Invariant for the leader: the answer to an operation that ends the run (stop, cancel) is in the transaction of the run's
result (:func:`ending_ops`), together with the answers to all other requests for an end. Every other answer comes before
it. If an operation is still open when the run has its result, its answer follows from that result (:func:`read`), even
if no process wrote an answer, or if the request came at the same moment.

Two users, or a user and a DAG, may stop the same job. Only the first request is carried out. A request whose demands
the end does not meet has FAILED: its answer has the cause of the end, the unmet demand, and the remedy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete, Op, Reads, SetData
from airflow_provider_ha.coordination.node_names import is_plain, ours, report_stray
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.znode_records import create_once, read_record
from airflow_provider_ha.errors import JobStateError, RecordCorruptError
from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind, OperationState, RunEnd, RunResult
from airflow_provider_ha.jobs.runs.run_store import RunStore, RunView, live, refuse_other_run
from airflow_provider_ha.redaction import public


ENDING = (OperationKind.STOP, OperationKind.CANCEL, OperationKind.CANCEL_WITH_SAVEPOINT)
"""Operations that end the run."""


@dataclass(frozen=True, slots=True)
class OperationResult:
    """The answer to an operation."""

    state: OperationState
    result: Mapping[str, Any]
    error: str = ""


def answer_of_end(operation: Operation, result: RunResult, *, job_id: str) -> OperationResult:
    """Return the answer to an operation that is open when its run gets *result*. Pure.

    :param job_id: The job, for the commands in the answer.
    """
    end = result.end
    if end is None or operation.operation not in ENDING:
        return OperationResult(OperationState.ABANDONED, operation.result, _abandoned(operation, result, job_id))
    if operation.operation_id != end.operation_id and (missing := _missing(operation, result, end, job_id)):
        error = f"run {operation.run} {_ending(end, result)}, {missing}"
        return OperationResult(OperationState.FAILED, operation.result, error)
    whole = {**end.result, **operation.result}
    return OperationResult(OperationState.COMPLETED, whole)


def _missing(operation: Operation, result: RunResult, end: RunEnd, job_id: str) -> str:
    """Return the demand that the end of the run does not meet, and the remedy; empty if it meets all."""
    wanted, canceled = operation.operation, result.state is JobState.CANCELED
    if wanted is OperationKind.STOP:
        if canceled:
            return (
                f"not stopped at a batch boundary. A restore continues from its newest checkpoint: {_restore(job_id)}"
            )
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
        return (
            "not only suspended. Its last windows are emitted; a restore continues from the state before the drain: "
            f"{_restore(job_id)}"
        )
    if operation.arguments.get("savepoint") and not end.result.get("savepoint_id"):
        return _without_savepoint(job_id)
    return ""


def _ending(end: RunEnd, result: RunResult) -> str:
    """Return the cause of a run's end, as the predicate of a sentence about the run."""
    at = "" if result.checkpoint is None else f" (checkpoint {result.checkpoint})"
    if end.operation is None:
        return f"ended{at}, because its script ended"
    how = "drained" if end.drained else "suspended" if end.operation is OperationKind.STOP else "cancelled"
    return f"was {how}{at} by operation {end.operation_id!r} of {end.requested_by}"


def _abandoned(operation: Operation, result: RunResult, job_id: str) -> str:
    why = f": {result.reason}" if result.reason else ""
    said = f"run {operation.run} ended {result.state.value} before this was done{why}"
    return f"{said}. {_copies(job_id)}" if operation.operation is OperationKind.SAVEPOINT else said


def _without_savepoint(job_id: str) -> str:
    return f"without a savepoint. {_copies(job_id)}"


def _copies(job_id: str) -> str:
    return f"`spark-ha savepoint trigger {job_id}` copies its newest proven checkpoint"


def _restore(job_id: str) -> str:
    return f"`spark-ha job restore {job_id}`"


log = logging.getLogger(__name__)
KEPT_FOR = timedelta(days=7)
KEPT_AT_MOST = 100
ANSWERED_AT_MOST = 50  # per transaction: ZooKeeper's limit is 1 MB


class FencedLeader(Protocol):
    """A leader's epoch and fenced transactions (``coordination.leadership.Leadership``)."""

    @property
    def epoch(self) -> int:
        """Epoch of its leadership."""

    def commit(self, *ops: Op) -> list[int]:
        """Apply *ops* if this is still the leader.

        :raises LeadershipError: This process no longer leads; its writes were rejected.
        """


def request(
    coordinator: Coordinator,
    paths: JobPaths,
    kind: OperationKind,
    *,
    operation_id: str,
    arguments: Mapping[str, Any],
    requested_by: str,
    clock: Clock,
    seen: int | None = None,
) -> Operation:
    """Create a request to the job, or find the request with this id again, in any state.

    :param operation_id: The request's unique id, the same for retries.
    :param requested_by: Free text for users: DAG, task and run, or user and host.
    :param seen: Run that the operation is meant for; ``None`` for the newest run in any case.
    :raises JobStateError: The job has no live run, its newest run is not *seen*, or the id belongs to another request.
    """
    known = read(coordinator, paths, operation_id)
    if known is None:
        runs = RunStore(coordinator, paths)
        run = _live_run(runs, paths, kind)
        refuse_other_run(kind.value, paths.job_id, seen=seen, newest=run.run.number)
        wanted = Operation(
            operation_id=operation_id,
            operation=kind,
            arguments=dict(arguments),
            run=run.run.number,
            requested_by=requested_by,
            requested_at=clock.now(),
        )
        create_once(coordinator, paths.operation(operation_id), wanted)
        # Another process may have been faster, and the run may have ended in between: the state in ZooKeeper counts.
        known = read(coordinator, paths, operation_id) or wanted
    if known.operation is not kind or known.arguments != dict(arguments):
        raise JobStateError(
            f"operation {operation_id!r} of job {paths.job_id!r} is a {known.operation.value} with {known.arguments}, "
            f"not a {kind.value} with {dict(arguments)}",
            next_step="Use another operation id",
        )
    return known


def read(coordinator: Coordinator, paths: JobPaths, operation_id: str) -> Operation | None:
    """Return an operation, answered if its run has a result; ``None`` if it is unknown or was removed.

    If the run has a result, the operation is read again, because its answer may have been written in the same
    transaction.
    """
    found = read_record(coordinator, paths.operation(operation_id), Operation)
    if found is None or found[0].state.final:
        return found and found[0]
    result = RunStore(coordinator, paths).result(found[0].run)
    if result is None:
        return found[0]
    again = read_record(coordinator, paths.operation(operation_id), Operation)
    return settled(again[0], result, job_id=paths.job_id) if again else None


def read_listed(coordinator: Coordinator, paths: JobPaths, name: str) -> Operation | None:
    """Return the operation of a child of ``operations``; log a stray child, and return ``None``.

    A stray node cannot be executed or answered, and must not block the other operations.
    """
    path = f"{paths.operations}/{name}"
    if not ours((name,), is_plain, parent=paths.operations):
        return None
    try:
        found = read(coordinator, paths, name)
    except RecordCorruptError as error:
        report_stray(path, error.message)
        return None
    if found is not None and found.operation_id != name:
        report_stray(path, f"it holds operation {found.operation_id!r}")
        return None
    return found


def settled(operation: Operation, result: RunResult | None, *, job_id: str) -> Operation:
    """Return an operation with the answer that follows from the result of its run. Pure."""
    if operation.state.final or result is None:
        return operation
    answer = answer_of_end(operation, result, job_id=job_id)
    return _answered(operation, answer.state, result.at, result=answer.result, error=answer.error)


def list_operations(coordinator: Coordinator, paths: JobPaths) -> list[Operation]:
    """Return all operations, oldest request first."""
    found = (read_listed(coordinator, paths, name) for name in coordinator.children(paths.operations))
    return sorted(
        (operation for operation in found if operation is not None),
        key=lambda operation: (operation.requested_at, operation.operation_id),
    )


def open_runs(coordinator: Coordinator, paths: JobPaths) -> set[int]:
    """Return the runs of the operations without a leader's answer, including runs with a result.

    Such an answer follows from the run's result alone (:func:`settled`), until a leader writes it.
    """
    return {operation.run for operation in _unanswered(coordinator, paths)}


def _unanswered(coordinator: Coordinator, paths: JobPaths) -> list[Operation]:
    """Return the operations without a leader's answer, as stored."""
    nodes = coordinator.read(
        Reads(tuple(f"{paths.operations}/{name}" for name in coordinator.children(paths.operations)))
    )
    found = []
    for path, node in nodes.nodes.items():
        with suppress(RecordCorruptError):  # its requester cannot read it either
            if node is None or (operation := Operation.from_bytes(node.data, source=path)).state.final:
                continue
            if path == paths.operation(operation.operation_id):
                found.append(operation)
    return found


def open_cancels(coordinator: Coordinator, paths: JobPaths, run: int) -> list[Operation]:
    """Return the due, unanswered cancels of *run*."""
    return [
        operation
        for operation in list_operations(coordinator, paths)
        if operation.run == run and not operation.state.final and cancel_is_due(operation)
    ]


def cancel_is_due(operation: Operation) -> bool:
    """Return whether the run has to end now; a cancel with a savepoint waits for the savepoint. Pure."""
    if operation.operation is OperationKind.CANCEL_WITH_SAVEPOINT:
        return bool(operation.result.get("savepoint_id"))
    return operation.operation is OperationKind.CANCEL


def claim(leader: FencedLeader, paths: JobPaths, operation: Operation) -> Operation:
    """Mark an operation as RUNNING under this epoch, even if an earlier epoch left it RUNNING.

    :raises JobStateError: The operation is final already.
    :raises LeadershipError: This process no longer leads.
    """
    if operation.state.final:
        raise JobStateError(f"operation {operation.operation_id!r} is {operation.state.value}: it cannot be executed")
    taken = operation.model_copy(update={"state": OperationState.RUNNING, "epoch": leader.epoch})
    leader.commit(_write(paths, taken))
    return taken


def note(leader: FencedLeader, paths: JobPaths, operation: Operation, *, result: Mapping[str, Any]) -> Operation:
    """Write the interim result of an operation, and leave it RUNNING.

    :raises LeadershipError: This process no longer leads; the result is not written.
    """
    return _answer(leader, paths, operation.model_copy(update={"result": dict(result)}))


def complete(
    leader: FencedLeader, paths: JobPaths, operation: Operation, *, result: Mapping[str, Any], clock: Clock
) -> Operation:
    """Answer an operation that does not end the run.

    :raises LeadershipError: This process no longer leads; the operation is unanswered.
    """
    return _answer(leader, paths, _answered(operation, OperationState.COMPLETED, clock.now(), result=result))


def fail(
    leader: FencedLeader,
    paths: JobPaths,
    operation: Operation,
    *,
    error: str,
    clock: Clock,
    result: Mapping[str, Any] | None = None,
) -> Operation:
    """Answer that an operation failed, with the error and its partial *result* (such as the path of a checkpoint).

    :raises LeadershipError: This process no longer leads; the operation is unanswered.
    """
    return _answer(leader, paths, _answered(operation, OperationState.FAILED, clock.now(), result=result, error=error))


def abandon(leader: FencedLeader, paths: JobPaths, operation: Operation, *, reason: str, clock: Clock) -> Operation:
    """Answer that an operation is abandoned, because its run has ended.

    :raises LeadershipError: This process no longer leads; the operation is unanswered.
    """
    return _answer(leader, paths, _answered(operation, OperationState.ABANDONED, clock.now(), error=reason))


def ending_ops(coordinator: Coordinator, paths: JobPaths, run: int, result: RunResult) -> list[SetData]:
    """Return the writes that answer the open operations of *run*, for the transaction that writes *result*.

    They cover requests for an end (:data:`ENDING`), oldest first. Beyond a limit, the others are answered by the result
    alone.
    """
    if (end := result.end) is None:
        return []
    asked = sorted(
        (each for each in _unanswered(coordinator, paths) if each.run == run and each.operation in ENDING),
        key=lambda each: (each.operation_id != end.operation_id, each.requested_at, each.operation_id),
    )
    return [_write(paths, settled(each, result, job_id=paths.job_id)) for each in asked[:ANSWERED_AT_MOST]]


def expired(operations: Iterable[Operation], now: datetime) -> list[Operation]:
    """Return the operations to remove: final for more than 7 days, or final and not among the newest 100. Pure."""
    newest_first = sorted(operations, key=lambda operation: operation.requested_at, reverse=True)
    return [
        operation
        for rank, operation in enumerate(newest_first)
        if operation.finished_at is not None and (rank >= KEPT_AT_MOST or now - operation.finished_at > KEPT_FOR)
    ]


def forget_op(paths: JobPaths, operation: Operation) -> Delete:
    """Return the removal of an expired operation, for a leader's transaction."""
    return Delete(paths.operation(operation.operation_id))


def _live_run(runs: RunStore, paths: JobPaths, kind: OperationKind) -> RunView:
    view = runs.latest()
    if view is None:
        raise JobStateError(
            f"job {paths.job_id!r} has no run that could accept a {kind.value}",
            next_step="Submit the job first (SparkHaSubmitOperator)",
        )
    if not live(view):  # guard: cancel-of-an-ended-run
        state = view.result.state.value if view.result else ""
        raise JobStateError(
            f"run {view.run.number} of job {paths.job_id!r} is {state}: it accepts no {kind.value}",
            next_step=f"Submit the job (SparkHaSubmitOperator), or restore it: `spark-ha job restore {paths.job_id}`, "
            "SparkHaRestoreOperator",
        )
    return view


def _answered(
    operation: Operation,
    state: OperationState,
    at: datetime,
    *,
    result: Mapping[str, Any] | None = None,
    error: str = "",
) -> Operation:
    update = {"state": state, "result": dict(result or {}), "error": public(error), "finished_at": at}
    return operation.model_copy(update=update)


def _answer(leader: FencedLeader, paths: JobPaths, answered: Operation) -> Operation:
    leader.commit(_write(paths, answered))
    return answered


def _write(paths: JobPaths, operation: Operation) -> SetData:
    return SetData(paths.operation(operation.operation_id), operation.to_bytes())
