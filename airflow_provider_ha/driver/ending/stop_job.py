"""Stop of a job: every query at a batch boundary, an optional drain, a sharp checkpoint, the end of the run.

A failed stop leaves the job running. Ended queries cannot be restarted under a script that assumes that they still run.
So a failure after the first stopped query means: the operation is FAILED, the driver ends without a result, and the
restart strategy starts the run again from the progress of its queries.

It works in a fork of the stopped directory, so the sharp checkpoint before it stays unchanged.
``checkpoints.working.drain`` has written the entry to execute there; the script's own triggers are ignored.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.checkpoints.areas.drain import drain_key, write_drain_entry
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointKind
from airflow_provider_ha.checkpoints.sinks.sink_registry import sink_connector
from airflow_provider_ha.checkpoints.sinks.unread_sinks import FOREACH_BATCH
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.spark.tree import WritableTree
from airflow_provider_ha.driver.checkpointing.publisher import Publisher
from airflow_provider_ha.driver.context import FencedFunction
from airflow_provider_ha.driver.jvm.component import Component
from airflow_provider_ha.driver.members.run_writer import JobWriter
from airflow_provider_ha.driver.queries.checked_writer import NOOP, WriterCalls, check_writer
from airflow_provider_ha.driver.queries.query_naming import name_query
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.queries.query_stop import stop_aside, stop_together
from airflow_provider_ha.driver.queries.resting_queries import EndedQuery, RestingQuery, described
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec, begins_anew, notes
from airflow_provider_ha.driver.script import EXIT_SECONDS, Lifecycle
from airflow_provider_ha.driver.spark_conf import fit
from airflow_provider_ha.errors import HaError, OperationFailedError
from airflow_provider_ha.jobs.model import DrainedQuery, JobState, Operation, RunEnd


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DrainFork:
    """The fork of a stopped directory in which the last batch of each query is planned.

    :param location: Its URI, as Spark receives it.
    """

    directory: WritableTree
    location: str


def fork_for_drain(area: WorkArea, stopped: str, names: Iterable[str]) -> DrainFork:
    """Fork every query of a stopped directory that has committed a batch, and plan its last batch.

    :param stopped: Key of the directory.
    """
    target = drain_key(stopped)
    if area.contains(target):
        area.remove(target)
    area.create(target)
    for name in names:
        if progress(area.tree(stopped) / name).committed >= 0:
            area.fork(f"{stopped}/{name}", f"{target}/{name}", keep_planned=False)
            write_drain_entry(area.tree(target) / name)
    return DrainFork(area.tree(target), area.uri(target))


class DrainStarter:
    """Starts each query for its last batch, and waits for it.

    :param component: Of the JVM, if the fork is behind it.
    :param reach: Access to the file systems of outputs; by default from the environment.
    :param drained: Query -> its output; complete when the script has ended.
    """

    def __init__(
        self,
        fork: DrainFork,
        calls: WriterCalls,
        component: Component | None = None,
        reach: StorageAccess | None = None,
    ) -> None:
        self._fork = fork
        self._reach = reach or StorageAccess()
        self._calls = calls
        self._component = component
        self.drained: dict[str, DrainedQuery] = {}
        self._seen: set[str] = set()

    def start(self, writer: Any, path: str | None) -> Any:
        """Execute the last batch of the query; returns the handle of the ended query.

        :raises OperationFailedError: It did not execute exactly that batch.
        :raises SystemExit: The query is already drained.
        """
        if begins_anew(notes(writer), writer._spark.conf.get("spark.sql.sources.default")):  # noqa: SLF001  # as below
            return EndedQuery(notes(writer).name)  # its drain is empty, and it would read its input from the beginning
        if (name := name_query(writer, path)) in self._seen:
            raise SystemExit(0)  # the script starts its query again whenever it has ended
        self._seen.add(name)
        session = writer._spark  # noqa: SLF001  # the session that made the writer; it has no public name
        if self._component is not None:
            self._component.check_session(session)
        checked = check_writer(writer, path, self._fork.location, frozenset())
        directory = self._fork.directory / checked.name
        planned = progress(directory).planned
        fit(session, directory.fresh())
        if planned < 0:  # it never had a batch: its drain is empty, and a first batch would be new input
            self._calls.set_format(writer, NOOP)
        withheld = self._withhold_empty(writer)
        self._calls.trigger(writer, once=True)
        handle = self._calls.start(writer, path) if planned < 0 else self._calls.begin(writer, path)
        if self._component is not None:
            self._component.check_query(handle, checked.name)
        handle.awaitTermination()
        if planned < 0:
            return handle
        now = progress(directory)
        if (now.planned, now.committed) != (planned, planned):
            raise OperationFailedError(f"the drain of query {checked.name!r} ended at {now} instead of batch {planned}")
        wrote = withheld is None or withheld.called
        self.drained[checked.name] = _drained(planned, checked.sink, self._reach, wrote=wrote)
        log.info("query %s drained with batch %d", checked.name, planned)
        return handle

    def _withhold_empty(self, writer: Any) -> NonEmptyBatchFunction | None:
        noted = notes(writer)
        if noted.sink != FOREACH_BATCH:
            return None
        withheld = NonEmptyBatchFunction(noted.function)
        self._calls.foreach_batch(writer, withheld)
        return withheld


class NonEmptyBatchFunction:
    """A ``foreachBatch`` function that is called only when the drain has rows for it.

    The next run executes a batch of the same id with other rows. A sink that remembers batch ids would skip that batch
    after an empty batch with the same id; a batch that was never delivered need not be withdrawn.
    """

    def __init__(self, function: Any) -> None:
        self._function = function
        self.called = False

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Deliver the batch, or execute it for its state alone. Every partition is read: Spark checks that."""
        kept = batch.persist()
        try:
            if kept.count():
                self.called = True
                give = self._function.drain if isinstance(self._function, FencedFunction) else self._function
                give(kept, batch_id)
        finally:
            kept.unpersist()


def _drained(batch: int, sink: SinkSpec, reach: StorageAccess, *, wrote: bool) -> DrainedQuery:
    written = described(sink)
    connector = sink_connector(written, reach)
    if connector is None or written.path is None:
        return DrainedQuery(batch=batch, wrote=wrote)
    return DrainedQuery(batch=batch, sink_path=written.path, sink_entry_sha256=connector.digest(batch))


SETTLE_POLL = 0.2
STOP_SECONDS = 3600.0  # for the batches in flight; a cancel ends the wait
SCRIPT_END_SECONDS = EXIT_SECONDS


@dataclass(frozen=True, slots=True)
class StopRequest:
    """The request of a stop operation."""

    terminate: bool
    savepoint: bool

    @classmethod
    def of(cls, operation: Operation) -> StopRequest:
        """Parse the arguments.

        :raises OperationFailedError: The mode is not known.
        """
        mode = operation.arguments.get("mode", "suspend")
        if mode not in ("suspend", "terminate"):
            raise OperationFailedError(f"stop mode {mode!r} is not known", next_step="Use suspend or terminate")
        return cls(terminate=mode == "terminate", savepoint=bool(operation.arguments.get("savepoint", False)))


class MainThread:
    """Work for the main thread after the script has ended: the second run of the script."""

    def __init__(self) -> None:
        self._work: queue.Queue[Callable[[], None] | None] = queue.Queue()

    def run(self, work: Callable[[], Any]) -> Any:
        """Execute *work* on the main thread; returns its result, raises its exception."""
        done: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue()

        def task() -> None:
            try:
                done.put((work(), None))
            except BaseException as error:  # noqa: BLE001  # also SystemExit of the script: it goes to the caller
                done.put((None, error))

        self._work.put(task)
        value, error = done.get()
        if error is not None:
            raise error
        return value

    def finish(self) -> None:
        """Let :meth:`serve` return."""
        self._work.put(None)

    def serve(self) -> None:
        """Execute the submitted work until :meth:`finish` is called."""
        while (task := self._work.get()) is not None:
            task()


@dataclass(frozen=True, slots=True)
class StopJob:
    """The resources of a stop.

    :param area: Holds the working directory.
    :param working: Its key.
    :param savepoint: Takes the additional savepoint: operation -> result of a savepoint operation.
    :param drain: Runs the script a second time in a fork; query -> its output. Called on the main thread.
    :param has_standby: Returns whether a standby driver is ready.
    """

    writer: JobWriter
    publisher: Publisher
    registry: QueryRegistry
    lifecycle: Lifecycle
    main_thread: MainThread
    area: WorkArea
    working: str
    savepoint: Callable[[Operation], dict[str, Any]]
    drain: Callable[[DrainFork], Mapping[str, DrainedQuery]]
    has_standby: Callable[[], bool]

    def run(self, operation: Operation) -> None:
        """Stop the job and end its run.

        :raises HaError: It could not be done; the queries may have been stopped.
        """
        request = StopRequest.of(operation)
        self._stop_queries(terminate=request.terminate)
        result: dict[str, Any] = {}
        try:
            self.writer.set_message("taking the checkpoint")
            checkpoint = self.publisher.publish(CheckpointKind.STOP)
            result = {"checkpoint": checkpoint.number, "path": checkpoint.pin}
            if request.savepoint:
                self.writer.set_message("taking the savepoint")
                result |= self.savepoint(operation)
            drained = self._end_script(checkpoint, terminate=request.terminate)
        except (HaError, OSError) as error:
            raise StopFailedError(str(error), result) from error
        self.writer.end(
            JobState.FINISHED,
            reason="terminated" if request.terminate else "suspended",
            checkpoint=checkpoint.number,
            drained=drained,
            end=RunEnd.of(operation, result),
        )

    def hand_over(self) -> None:
        """Stop every query at a batch boundary, for the driver that follows: it repeats no batch.

        No checkpoint is taken: the next driver continues from the working directory, and the pause would be longer.

        :raises OperationFailedError: No standby driver is ready, or the queries did not end at a boundary.
        """
        if not self.has_standby():
            raise OperationFailedError("no standby driver is ready", next_step="`spark-ha job show` names the reason")
        self._await_whole()
        self.lifecycle.begin_stop()
        self.writer.set_message("handing over: waiting for the batches in flight")
        stop_all(self.registry, self.lifecycle)

    def _await_whole(self) -> None:
        """Wait until the script has started all queries that the job had."""
        while not (self.registry.whole or self.lifecycle.script_ended.wait(SETTLE_POLL)):
            pass

    def _stop_queries(self, *, terminate: bool) -> None:
        """Stop every query at a batch boundary, all at the same time. Queries not started yet remain at rest.

        :raises OperationFailedError: A query failed, hangs, or did not end at a boundary; or the job cannot be drained,
            and its queries still run.
        """
        self._await_whole()
        if terminate and (live := [query.name for query in self.registry.started if query.sink.unplanned]):
            raise OperationFailedError(
                f"{', '.join(map(repr, live))} cannot be drained: the last batch of a real-time or continuous query "
                "cannot be planned",
                next_step="Stop the job with mode='suspend'",
            )
        if terminate and (reason := undrainable(self.registry.resting)):  # guard: drains-beside-a-sink-that-is-ahead
            raise OperationFailedError(reason, next_step="Try again once the script has started it, or suspend the job")
        self.lifecycle.begin_stop()
        self.writer.set_state(JobState.STOPPING, "waiting for the batches in flight")
        stop_all(self.registry, self.lifecycle)
        if terminate and (reason := undrainable(self.registry.resting)):  # its replay was begun and interrupted
            raise StopFailedError(reason, {})

    def _end_script(self, checkpoint: Checkpoint, *, terminate: bool) -> Mapping[str, DrainedQuery]:
        """Let the script continue to its end, and drain if requested."""
        self.writer.set_message("waiting for the end of the script")
        self.lifecycle.ended.set()
        stop_aside(self.registry.aside)  # a script may wait for them alone
        ended = self.lifecycle.script_ended.wait(SCRIPT_END_SECONDS)
        if not terminate:
            return {}
        if not ended:
            raise OperationFailedError(
                f"the script has not ended {SCRIPT_END_SECONDS:.0f} s after its queries, so it cannot be drained",
                next_step="Let the script end after awaitAnyTermination()",
            )
        self.writer.set_message("draining: each query writes its last batch")
        fork = fork_for_drain(self.area, self.working, checkpoint.queries)
        drained: Mapping[str, DrainedQuery] = self.main_thread.run(lambda: self.drain(fork))
        return drained


class StopFailedError(OperationFailedError):
    """A stop that failed after it had requested the first query to end.

    :param result: Its partial result: the checkpoint, if any.
    """

    def __init__(self, reason: str, result: dict[str, Any]) -> None:
        self.result = result
        super().__init__(f"the job could not be stopped: {reason}", next_step="It is started again and keeps running")


def undrainable(resting: Iterable[RestingQuery]) -> str:
    """Return why a job with these queries at rest cannot be drained; empty when it can be.

    A batch that a sink has and its query has not committed would be repeated by the drain, or skipped.
    """
    names = [query.name for query in resting if query.pending]
    if not names:
        return ""
    return f"the script has not started {', '.join(map(repr, names))} yet, which has recorded batches to execute again"


def stop_all(registry: QueryRegistry, lifecycle: Lifecycle) -> None:
    """Stop every query at a batch boundary, all at the same time, and assert that none has a batch in flight.

    Further starts are blocked (:meth:`Lifecycle.begin_stop`); a start in progress is awaited.

    :raises StopFailedError: A query failed, hangs, or did not end at a boundary.
    """
    if not lifecycle.starts_are_over(STOP_SECONDS):
        raise StopFailedError(f"a query is still being started after {STOP_SECONDS:.0f} s", {})
    for report in stop_together(registry.started, STOP_SECONDS):
        if report.failure or not report.ended:
            reason = report.failure or f"query {report.name!r} has not ended after {report.seconds:.0f} s"
            raise StopFailedError(reason, {})
    for query in registry.started:
        now = progress(query.directory)
        if now.planned != now.committed and not query.sink.unplanned:
            raise StopFailedError(f"query {query.name!r} ended at {now}, which is no batch boundary", {})
