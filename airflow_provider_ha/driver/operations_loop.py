"""Serves the requests to the running job: savepoint, checkpoint, stop, cancel, dispose, hand-over, fail-over.

Two threads: one polls for requests and cancels immediately, the other executes one request after the other. So a
hanging stop can still be cancelled (design, section 5).
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.driver.ending.stop_job import StopFailedError, StopRequest
from airflow_provider_ha.driver.members.run_writer import persist
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import HaError, LeadershipError, NodeMissingError
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState
from airflow_provider_ha.jobs.operations import operations


log = logging.getLogger(__name__)
_LEAVING = (OperationKind.STOP, OperationKind.HAND_OVER, OperationKind.FAIL_OVER)
_NEEDS_QUERIES = (OperationKind.SAVEPOINT, OperationKind.CHECKPOINT, OperationKind.CANCEL_WITH_SAVEPOINT)
POLL_SECONDS = 1.0  # in addition to the watch: a watch announces a possible change, never the absence of changes


@dataclass(frozen=True, slots=True)
class OperationHandlers:
    """The handler of each kind of operation.

    :param ready: Returns whether this kind of operation is possible now: a savepoint before every query of the job has
        been started would be incomplete.
    :param savepoint: Returns the operation's result.
    :param dispose: Returns the operation's result.
    :param stop: Ends the run, which includes the operation's answer.
    :param stopped: Called after a stop, to end the process; receives the reason if the stop failed half-way.
    :param cancel: Ends the process; the supervisor then ends the run. Called again when it raises.
    :param checkpoint: Returns the operation's result.
    :param hand_over: Stops every query at a batch boundary.
    :param make_way: Ends the process after the answer to a hand-over or fail-over; another driver continues.
    :param jvm_is_gone: Returns whether the JVM has ended, and this process is about to.
    """

    ready: Callable[[OperationKind], bool]
    savepoint: Callable[[Operation], dict[str, Any]]
    dispose: Callable[[Operation], dict[str, Any]]
    stop: Callable[[Operation], None]
    stopped: Callable[[str | None], None]
    cancel: Callable[[Operation], None]
    checkpoint: Callable[[Operation], dict[str, Any]]
    hand_over: Callable[[], None]
    make_way: Callable[[Operation], None]
    jvm_is_gone: Callable[[], bool]


@dataclass
class OperationsLoop:
    """Finds the operations of a run and dispatches them.

    :param failed: Called with the error of a thread that cannot continue.
    """

    coordinator: Coordinator
    paths: JobPaths
    leadership: Leadership
    lifecycle: Lifecycle
    handlers: OperationHandlers
    run: int
    clock: Clock
    failed: Callable[[BaseException], None]
    _changed: threading.Event = field(default_factory=threading.Event)
    _work: queue.Queue[Operation] = field(default_factory=queue.Queue)
    _taken: set[str] = field(default_factory=set)
    _said: set[str] = field(default_factory=set)  # operations reported as waiting for the end of the run
    _final: dict[str, Operation] = field(default_factory=dict)  # answers never change: each is read once
    _began: tuple[datetime, float] = field(init=False)

    def __post_init__(self) -> None:
        self._began = (self.clock.now(), self.clock.lease_time())

    def start(self) -> None:
        """Start both threads; they end with the process."""
        for name, body in (("operations", self._look_for_ever), ("operations-worker", self._work_for_ever)):
            threading.Thread(target=self._guarded, args=(body,), name=name, daemon=True).start()

    def look(self) -> None:
        """Start the requests since the last pass, a cancel first.

        An operation that ZooKeeper refuses is tried again in the next pass, and delays no other operation.
        """
        self._changed.clear()
        names = self.coordinator.children(self.paths.operations, watch=self._changed.set)
        found = [
            operation
            for name in names
            if (operation := self._final.get(name) or operations.read_listed(self.coordinator, self.paths, name))
            is not None
        ]
        self._final = {operation.operation_id: operation for operation in found if operation.state.final}
        for operation in sorted(found, key=_urgency):
            if not operation.state.final and operation.operation_id not in self._taken and self._may_begin(operation):
                self._try(partial(self._take, operation), f"operation {operation.operation_id} could not be taken up")
        for operation in operations.expired(self._final.values(), self._now()):
            self._try(partial(self._forget, operation), f"operation {operation.operation_id} could not be forgotten")

    @staticmethod
    def _try(step: Callable[[], None], failure: str) -> None:
        try:
            step()
        except LeadershipError:
            raise
        except HaError as error:
            log.warning("%s; the next pass tries again: %s", failure, error)

    def _may_begin(self, operation: Operation) -> bool:
        """Return whether to start it now. A request during a recovery waits until its result can be complete."""
        kind = operation.operation
        if operations.cancel_is_due(operation):
            return True
        return kind not in _NEEDS_QUERIES or self.handlers.ready(kind)

    def _forget(self, operation: Operation) -> None:
        """Delete an expired answer: an hourly schedule would otherwise fill the node."""
        self.leadership.commit(operations.forget_op(self.paths, operation))
        log.info("operation %s is forgotten", operation.operation_id)

    def _take(self, operation: Operation) -> None:
        reason = abandoned(operation, self.run, self.leadership.epoch)
        if reason:
            operations.abandon(self.leadership, self.paths, operation, reason=reason, clock=self.clock)
            return
        claimed = operations.claim(self.leadership, self.paths, operation)
        log.info("operation %s: %s %s", operation.operation_id, operation.operation.value, operation.arguments)
        if operations.cancel_is_due(operation):
            self.handlers.cancel(claimed)
        else:
            self._work.put(claimed)
            if self.lifecycle.stopping.is_set():  # the worker may hang in the stop, and never reach it
                self._say_it_waits(claimed)
        self._taken.add(operation.operation_id)  # last: what failed before is tried again

    def _look_for_ever(self) -> None:
        while not self.lifecycle.leaving.is_set():
            self._try(self.look, "operations could not be read")
            self._changed.wait(POLL_SECONDS)

    def _work_for_ever(self) -> None:
        while True:
            self._do(self._work.get())

    def _do(self, operation: Operation) -> None:
        if self.lifecycle.stopping.is_set():
            self._say_it_waits(operation)
            return  # the end of the run answers it, or the next driver starts it again
        try:
            if operation.operation in _LEAVING:
                self._leave(operation)
                return
            result = self._handler(operation.operation)(operation)
        except LeadershipError:
            raise
        # Also errors other than outages, such as a file in place of a directory: without an answer the next epoch would
        # start the operation and end in the same way.
        except (HaError, OSError) as error:
            if operation.operation in _LEAVING and self.handlers.jvm_is_gone():
                log.warning("operation %s is left to the next driver: the JVM has ended", operation.operation_id)
                self.handlers.stopped(str(error))
                return
            log.exception("operation %s failed", operation.operation_id)
            left = error.result if isinstance(error, StopFailedError) else None
            self._answer(operation, partial(operations.fail, error=str(error), result=left))
            if self.lifecycle.stopping.is_set():
                self.handlers.stopped(str(error))
        else:
            if operation.operation is OperationKind.CANCEL_WITH_SAVEPOINT:
                self._cancel_saved(operation, result)
            else:
                self._answer(operation, partial(operations.complete, result=result))

    def _say_it_waits(self, operation: Operation) -> None:
        """Log once why an operation has to wait."""
        if operation.operation_id in self._said:
            return
        self._said.add(operation.operation_id)
        with_savepoint = operation.operation is OperationKind.CANCEL_WITH_SAVEPOINT
        log.info(
            "operation %s (%s) waits: run %d is ending already. "
            "The end of the run answers it, or the next driver takes it up%s",
            operation.operation_id,
            operation.operation.value,
            self.run,
            f". To end the run immediately: `spark-ha job cancel {self.paths.job_id}`, without a savepoint"
            if with_savepoint
            else "",
        )

    def _handler(self, kind: OperationKind) -> Callable[[Operation], dict[str, Any]]:
        if kind is OperationKind.CHECKPOINT:
            return self.handlers.checkpoint
        return self.handlers.dispose if kind is OperationKind.DISPOSE else self.handlers.savepoint

    def _cancel_saved(self, operation: Operation, result: dict[str, Any]) -> None:
        """Note the savepoint, then end the run: after the note, a process that finds this one dead also ends the run.

        :raises LeadershipError: The lease ran out before ZooKeeper had the note; the next leader begins again.
        """

        def written() -> bool:
            found = operations.read(self.coordinator, self.paths, operation.operation_id)
            return found is None or operations.cancel_is_due(found)

        self._persist(
            operation, partial(operations.note, self.leadership, self.paths, operation, result=result), written
        )
        found = operations.read(self.coordinator, self.paths, operation.operation_id)
        if found is not None:
            self.handlers.cancel(found)

    def _answer(self, operation: Operation, write: Callable[..., object]) -> None:
        """Write an answer, also across an interrupted connection: the work is done, and only its answer is missing.

        :raises LeadershipError: The lease ran out before ZooKeeper had the answer.
        """

        def written() -> bool:
            found = operations.read(self.coordinator, self.paths, operation.operation_id)
            return found is None or found.state.final

        self._persist(operation, partial(write, self.leadership, self.paths, operation, clock=self.clock), written)

    def _persist(self, operation: Operation, write: Callable[[], object], written: Callable[[], bool]) -> None:
        try:
            persist(
                write,
                written=written,
                lease_left=self.leadership.lease_left,
                what=f"the answer to operation {operation.operation_id}",
            )
        except NodeMissingError as error:
            log.warning("operation %s is gone, and its answer with it: %s", operation.operation_id, error)

    def _leave(self, operation: Operation) -> None:
        kind = operation.operation
        if kind is OperationKind.STOP:
            StopRequest.of(operation)  # first: while an impossible stop holds the end, a script would wait for it
        if not self.lifecycle.claim_end():
            return  # the script has ended: the writer of the result answers this operation
        try:
            if kind is OperationKind.STOP:
                self.handlers.stop(operation)
            elif kind is OperationKind.HAND_OVER:
                self.handlers.hand_over()
        except (HaError, OSError):
            if not self.lifecycle.stopping.is_set():
                self.lifecycle.give_end_back()  # all queries still run: the next stop, or the script, may end the run
            raise
        if kind is OperationKind.STOP:
            self.handlers.stopped(None)
            return
        # First the answer: the next driver would begin the operation again.
        self._answer(operation, partial(operations.complete, result={}))
        self.handlers.make_way(operation)

    def _now(self) -> datetime:
        """Return the wall-clock time by the boot-time clock: a step of the wall clock does not age answers."""
        at, since = self._began
        return at + timedelta(seconds=self.clock.lease_time() - since)

    def _guarded(self, body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001  # a thread that dies in silence would leave requests unanswered
            self.failed(error)


def _urgency(operation: Operation) -> tuple[bool, datetime, str]:
    return (operation.operation is not OperationKind.CANCEL, operation.requested_at, operation.operation_id)


def abandoned(operation: Operation, run: int, epoch: int) -> str:
    """Return why an open operation will not be done; empty when it will.

    A stop, cancel or checkpoint that an earlier epoch started is still wanted. A savepoint is not: an incomplete
    savepoint is useless, and the requester decides whether a later moment is acceptable. Nor is a hand-over or a
    fail-over: the job has another driver.
    """
    if operation.run != run:
        return f"it was requested of run {operation.run}; run {run} is running"
    taken_before = operation.state is OperationState.RUNNING and (operation.epoch or 0) < epoch
    once = (OperationKind.SAVEPOINT, OperationKind.HAND_OVER, OperationKind.FAIL_OVER)
    if taken_before and operation.operation in once:
        return f"the driver of epoch {operation.epoch} died while it worked on it"
    return ""
