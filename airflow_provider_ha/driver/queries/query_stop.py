"""Stop a query at a batch boundary: the batch in flight is finished, and none is planned after it.

``StreamingQuery.stop()`` interrupts. Setting the query's state to TERMINATED lets the batch finish, but Spark
interrupts itself when it sees that state between planning a batch and executing it (SPARK-57963): the plan is then on
disk without its commit. So the query's own thread is inspected while its progress lock is held, and the state is set
only where it is harmless (``docs/explanation/spark-facts.md`` section 3).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_provider_ha.driver.queries.query_registry import StartedQuery
from airflow_provider_ha.driver.queries.writer_notes import CONTINUOUS_EXECUTION


log = logging.getLogger(__name__)
SAMPLE_SECONDS = 0.005
JOIN_MILLISECONDS = 500
ENDING_SECONDS = 600.0  # for the batch in flight of a query that the script starts again


class QueryActivity(Enum):
    """The current activity of a query's thread."""

    EXECUTING = "executing"  # past the check that would interrupt
    WAITING = "waiting"  # for its next trigger: asleep until then
    POLLING = "polling"  # found no data a moment ago
    PLANNING = "planning"  # anything else: inspect it again


def classify(frames: Sequence[str]) -> QueryActivity:
    """Return the activity of the thread with this stack.

    :param frames: ``StackTraceElement.toString()`` of its frames.
    """

    def has(text: str) -> bool:
        return any(text in frame for frame in frames)

    if has("runBatch") and (has("withNewExecutionId") or has(".addBatch(") or has("withProgressLocked")):
        return QueryActivity.EXECUTING
    if has("waitTillTime"):
        return QueryActivity.WAITING
    if has("Thread.sleep") and has("executeOneBatch"):
        return QueryActivity.POLLING
    return QueryActivity.PLANNING


@dataclass(frozen=True, slots=True)
class StopReport:
    """The end of a query.

    :param ended: Whether its thread is gone.
    :param failure: Its exception, if it failed.
    """

    name: str
    ended: bool
    seconds: float
    failure: str | None = None


class GracefulStop:
    """The stop of a query."""

    def __init__(self, query: StartedQuery) -> None:
        self._query = query
        self._execution = query.handle._jsq.streamingQuery()  # noqa: SLF001  # the way to Spark's own execution object
        self._thread = self._execution.queryExecutionThread()
        self._terminated, self._active = _states()

    def run(self, timeout: float) -> StopReport:
        """Stop the query and wait until its thread is gone, at most *timeout* seconds."""
        begin = time.monotonic()
        end = begin + timeout
        if self._is_continuous():
            # It has no reachable boundary: the output of its last epoch is repeated.
            self._query.handle._jsq.stop()  # noqa: SLF001  # pyspark's own is patched
        while self._thread.isAlive() and time.monotonic() < end and not self._try():
            time.sleep(SAMPLE_SECONDS)
        while self._thread.isAlive() and time.monotonic() < end:
            # Not awaitTermination(t): it returns "terminated" with the state, while the batch still runs.
            self._thread.join(JOIN_MILLISECONDS)
        return StopReport(
            self._query.name, not self._thread.isAlive(), time.monotonic() - begin, failure=self._query.failure()
        )

    def _is_continuous(self) -> bool:
        return self._query.sink.unplanned and self._execution.getClass().getSimpleName() == CONTINUOUS_EXECUTION

    def _frames(self) -> list[str]:
        return [str(frame) for frame in self._thread.getStackTrace()]

    def _try(self) -> bool:
        """Set the state if this moment allows it. While the lock is held, no offsets or commits entry can appear."""
        lock, state = self._execution.awaitProgressLock(), self._execution.state()
        lock.lock()
        try:
            moment = classify(self._frames())
            if moment is QueryActivity.PLANNING:
                return False
            state.set(self._terminated)
            if moment is QueryActivity.EXECUTING:
                return True
            still = classify(self._frames())
            if still is QueryActivity.WAITING:
                self._thread.interrupt()  # otherwise it would sleep until its next trigger, perhaps an hour
                return True
            if still is QueryActivity.POLLING:
                return True
            state.set(self._active)
            return False
        finally:
            lock.unlock()


def has_ended(handle: Any) -> bool:
    """Return whether a query has ended, its last batch included. A query that is just ending is awaited.

    :param handle: pyspark's ``StreamingQuery``.
    """
    if handle.isActive:
        return False
    # Spark reports "terminated" with the state, while the batch may still run.
    thread = handle._jsq.streamingQuery().queryExecutionThread()  # noqa: SLF001  # as above
    end = time.monotonic() + ENDING_SECONDS
    while thread.isAlive() and time.monotonic() < end:
        thread.join(JOIN_MILLISECONDS)
    return not thread.isAlive()


def _states() -> tuple[Any, Any]:
    """Return Spark's TERMINATED and ACTIVE (package of Spark 4.1 and later)."""
    from pyspark import SparkContext  # pyspark is imported inside functions

    runtime = SparkContext._jvm.org.apache.spark.sql.execution.streaming.runtime  # type: ignore[union-attr]  # noqa: SLF001  # the gateway has no public name
    return getattr(getattr(runtime, "TERMINATED$"), "MODULE$"), getattr(getattr(runtime, "ACTIVE$"), "MODULE$")


def stop_aside(handles: Iterable[Any]) -> None:
    """Stop display queries without waiting: their state is not kept."""
    for handle in handles:
        threading.Thread(target=_stop_aside, args=(handle,), name="stop-look", daemon=True).start()


def _stop_aside(handle: Any) -> None:
    try:
        handle._jsq.stop()  # noqa: SLF001  # pyspark's own is patched
    except Exception as error:  # noqa: BLE001  # py4j: the script's end may have ended the JVM already
        log.debug("a display query could not be stopped: %s", error)


def stop_together(queries: Sequence[StartedQuery], timeout: float) -> list[StopReport]:
    """Stop all *queries* at the same time, one thread each; returns when all have ended or *timeout* is over."""
    reports: list[StopReport] = []
    lock = threading.Lock()

    def stop(query: StartedQuery) -> None:
        try:
            report = GracefulStop(query).run(timeout)
        except Exception as error:  # noqa: BLE001  # any failure of py4j is a stop that failed, and is reported as such
            report = StopReport(query.name, ended=False, seconds=0.0, failure=f"could not be stopped: {error}")
        with lock:
            reports.append(report)

    threads = [threading.Thread(target=stop, args=(query,), name=f"stop-{query.name}") for query in queries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return reports
