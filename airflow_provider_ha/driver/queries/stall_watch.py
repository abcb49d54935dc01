"""Detection of a job without commits: the thread that samples its queries, and the pure rules of a stall.

Invariant: unknown facts are no stall: an unresponsive JVM, or an unreadable log, is checked again. A restart is a loss
like any other: the restart strategy counts it and delays the next one.

A query that waits for its next trigger, or for data, is working, even without input. A hang is inside a trigger: a
batch that does not end, tasks without an executor, or a source that does not answer. A query without input whose source
is slow to answer is inside a trigger at nearly each check, each time another one: its reports show the difference.

A job that does not work yet may hang outside of any trigger: in a script that has not started its queries, or in a
query that does not reach its first trigger. It is stalled after the same time without a sign of life.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.members.run_writer import JobWriter
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.submissions import STALLED, Failure


@dataclass(frozen=True, slots=True)
class QuerySample:
    """The findings of one check of a query.

    :param committed: Its last committed batch.
    :param in_trigger: Whether it is inside a trigger; else it waits for the next one, or has ended.
    :param doing: Its activity, in Spark's words.
    :param reported: Begin of its last reported trigger; without data, Spark reports a trigger every 10 s.
    """

    committed: int
    in_trigger: bool
    doing: str = ""
    reported: str = ""


@dataclass(frozen=True, slots=True)
class Stall:
    """A stalled query.

    :param seconds: Time since its last commit.
    """

    query: str
    committed: int
    seconds: float
    doing: str

    def sentence(self, executors: int | None) -> str:
        """Return for people the query, the time since its last commit, and the reason.

        :param executors: Number of executors of the application; ``None`` if they are the driver's own process.
        """
        why = f" ({self.doing})" if self.doing else ""
        after = f"after batch {self.committed}" if self.committed >= 0 else "before its first batch"
        return (
            f"query {self.query!r} has been in one trigger {after} for {self.seconds:.0f} s{why}{_without(executors)}"
        )


@dataclass(frozen=True, slots=True)
class Silence:
    """A job that does not work yet, and gives no sign of life.

    :param waiting: The obstacle, as a phrase.
    :param seconds: Time since the last sign of life.
    """

    waiting: str
    seconds: float

    def sentence(self, executors: int | None) -> str:
        """As :meth:`Stall.sentence`."""
        return f"no commit or report for {self.seconds:.0f} s: {self.waiting}{_without(executors)}"


@dataclass(slots=True)
class SilenceDetector:
    """Remembers the last sign of life of a job that does not work yet.

    :param timeout: Seconds.
    """

    timeout: float
    _heard: object = None
    _since: float | None = None

    def silent(self, waiting: str, heard: object, now: float) -> Silence | None:
        """Process a check of the job; return its silence if it is too long.

        :param waiting: The obstacle to its work; empty when there is none, or it is not known.
        :param heard: A value that changes with each sign of life.
        :param now: Seconds on the clock of the leases.
        """
        if not waiting or self._since is None or heard != self._heard:
            self._heard, self._since = heard, now
        seconds = now - self._since
        return Silence(waiting, seconds) if waiting and seconds >= self.timeout else None


@dataclass(frozen=True, slots=True)
class _Since:
    committed: int
    reported: str
    at: float


@dataclass(slots=True)
class StallDetector:
    """Remembers since when each query has been in its trigger.

    :param timeout: Seconds.
    """

    timeout: float
    _since: dict[str, _Since] = field(default_factory=dict)

    def stalled(self, looks: Mapping[str, QuerySample], now: float) -> Stall | None:
        """Process a check of every started query; return the query that is stalled the longest.

        :param now: Seconds on the clock of the leases.
        """
        before, self._since = self._since, {}
        found: list[Stall] = []
        for query, look in looks.items():
            since = before.get(query)
            goes_on = since is None or (look.committed, look.reported) != (since.committed, since.reported)
            if since is None or goes_on or not look.in_trigger:
                since = _Since(look.committed, look.reported, now)
            self._since[query] = since
            if now - since.at >= self.timeout:
                found.append(Stall(query, look.committed, now - since.at, look.doing))
        return max(found, key=lambda stall: stall.seconds, default=None)


def _without(executors: int | None) -> str:
    return "; the application has no executors" if executors == 0 else ""


log = logging.getLogger(__name__)
LOOK_SECONDS = 5.0


class StallWatch:
    """Watches over the queries of a driver.

    :param restart: Ends the driver; used where the options say so.
    :param failed: Called with the error of a thread that cannot continue.
    """

    def __init__(
        self,
        registry: QueryRegistry,
        writer: JobWriter,
        lifecycle: Lifecycle,
        options: HaOptions,
        clock: Clock,
        *,
        restart: Callable[[str, Failure], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._registry = registry
        self._writer = writer
        self._lifecycle = lifecycle
        self._restart = restart if options.restart_stalled else None
        self._clock = clock
        self._failed = failed
        self._timeout = options.stall_timeout
        self._detector = StallDetector(options.stall_timeout)
        self._silence = SilenceDetector(options.stall_timeout)
        self._read: dict[str, int] = {}  # query -> its last committed batch when its directory was last read
        self._worked: tuple[StartedQuery, ...] = ()
        self._said: Stall | Silence | None = None

    def start(self) -> None:
        """Start the thread, which ends with the process; none if the job wants no watch."""
        if self._timeout > 0:
            threading.Thread(target=self._run, name="stall-watch", daemon=True).start()

    def look(self) -> None:
        """Check every started query, and note a stall."""
        started, now = self._registry.started, self._clock.lease_time()
        noted = self._registry.noted
        looks = _looks(started, {name: max(batch, self._read.get(name, -1)) for name, batch in noted.items()})
        if self._detector.stalled(looks, now):
            looks = _looks(started, {})  # storage that cannot be read is no stall
            self._read = {name: look.committed for name, look in looks.items()}
        signs = self._signs(started, looks)
        silence = self._silence.silent(signs.waiting, signs, now)
        # A script with executors may compute for a long time before its first query: that is no stall.
        if silence is not None and not started and _executors(started, None) != 0:
            silence = None
        stall = self._detector.stalled(looks, now) or silence  # if both apply, the query in its trigger is named
        if self._lifecycle.stopping.is_set():
            stall = None
        if stall is None:
            if self._said is not None:
                log.info("the job is no longer stalled")
            self._said = None
            self._writer.set_stalled("")
            return
        sentence = stall.sentence(_executors(started, stall.query if isinstance(stall, Stall) else None))
        # It names the seconds at which it was seen, so that the status is written once.
        if self._said is None or _subject(stall) != _subject(self._said):
            log.warning("the job is stalled: %s", sentence)
            self._writer.set_stalled(sentence)
            self._said = stall
        if self._restart is not None:
            self._restart(f"the job is stalled: {sentence}", _failure(stall, sentence, signs.committed))

    def _signs(self, started: tuple[StartedQuery, ...], looks: Mapping[str, QuerySample]) -> _Signs:
        """Return the signs of life of a job that does not work yet; empty if it works, or its state is unknown."""
        if len(looks) < len(started) or (started and started == self._worked):
            return _Signs()
        try:
            waiting = self._registry.not_working()
            if not waiting:
                self._worked = started  # their directories need not be read again for this
                return _Signs()
            # Includes queries at rest: a restored query executes batches again before it is started.
            members = self._registry.members
            committed = {query.name: progress(query.directory).committed for query in members}
        except Exception as error:  # noqa: BLE001  # an unknown state is no stall
            log.debug("the progress of the queries is unknown: %s", error)
            return _Signs()
        return _Signs(waiting, looks, committed, self._registry.begun)

    def _run(self) -> None:
        pause = threading.Event()
        try:
            while not self._lifecycle.leaving.is_set():
                pause.wait(min(LOOK_SECONDS, self._timeout / 4))
                self.look()
        except BaseException as error:  # noqa: BLE001  # a job that wants a watch must not continue without it
            self._failed(error)


@dataclass(frozen=True, slots=True)
class _Signs:
    """The signs of life of a job: any change is one.

    :param waiting: The obstacle to its work; empty when there is none.
    :param begun: Queries that the script has begun to start.
    """

    waiting: str = ""
    looks: Mapping[str, QuerySample] = field(default_factory=dict)
    committed: Mapping[str, int] = field(default_factory=dict)
    begun: frozenset[str] = frozenset()


def _executors(started: tuple[StartedQuery, ...], name: str | None) -> int | None:
    """Return the number of executors of the application; ``None`` if they are the driver's process, or not known.

    :param name: The query in question; ``None`` for the application of the script.
    """
    try:
        context = _active_context() if name is None else _context_of(started, name)
        # Spark counts the driver as an executor.
        return None if context.isLocal() else len(context.statusTracker().getExecutorInfos()) - 1
    except Exception as error:  # noqa: BLE001  # a JVM that does not answer
        log.debug("the executors are not known: %s", error)
        return None


def _context_of(started: tuple[StartedQuery, ...], name: str) -> Any:
    handle = next(query.handle for query in started if query.name == name)
    return handle._jsq.sparkSession().sparkContext()  # noqa: SLF001  # of the query itself, not of the active session


def _active_context() -> Any:
    from pyspark import SparkContext  # pyspark is imported inside functions

    active: Any = SparkContext._active_spark_context  # noqa: SLF001  # there is no public way that makes none
    return active._jsc.sc()  # noqa: SLF001  # pyspark's own tracker cannot list executors


def _looks(started: tuple[StartedQuery, ...], noted: Mapping[str, int]) -> dict[str, QuerySample]:
    found = ((query.name, look_at(query, noted.get(query.name))) for query in started)
    return {name: look for name, look in found if look is not None}


def look_at(query: StartedQuery, noted: int | None = None) -> QuerySample | None:
    """Return the current activity of a query; ``None`` if unknown.

    :param noted: Its last committed batch as far as it is known; ``None`` reads its directory.
    """
    try:
        status = query.handle._jsq.status()  # noqa: SLF001  # pyspark's own converts it by way of JSON
        last = query.handle._jsq.lastProgress()  # noqa: SLF001  # as above
        return QuerySample(
            committed=progress(query.directory).committed if noted is None else noted,
            in_trigger=bool(status.isTriggerActive()),
            doing=str(status.message()),
            reported="" if last is None else str(last.timestamp()),
        )
    except Exception as error:  # noqa: BLE001  # an unknown state is no stall
        log.debug("the activity of query %s is unknown: %s", query.name, error)
        return None


def _subject(stall: Stall | Silence) -> tuple[str, int]:
    """Return the subject of a sentence: another subject has to be reported."""
    return (stall.query, stall.committed) if isinstance(stall, Stall) else (stall.waiting, -1)


def _failure(stall: Stall | Silence, sentence: str, committed: Mapping[str, int]) -> Failure:
    query, batches = None, dict(committed)
    if isinstance(stall, Stall):
        query, batches = stall.query, {stall.query: stall.committed}
    return Failure(error_class=STALLED, message=sentence, query=query, batches=batches)
