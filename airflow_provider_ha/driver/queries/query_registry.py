"""The queries of the run: started by the script, in their order, or still at rest.

Later queries may read the output of earlier ones; a query at rest will be started after all running ones. If the script
has stopped and restarted a query, only the newest handle counts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from airflow_provider_ha.checkpoints.model import QuerySink
from airflow_provider_ha.checkpoints.sinks.sink_registry import sink_record
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.figures import QueryTrigger, ReportedTriggers, read_trigger
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery, as_it_is, described
from airflow_provider_ha.driver.queries.writer_notes import CONTINUOUS_EXECUTION, SinkSpec
from airflow_provider_ha.errors import ApplicationRefusedError
from airflow_provider_ha.jobs.model import OperationKind, QueryStatus


log = logging.getLogger(__name__)
# A script that never waits (it loops and sleeps) counts as set up this many seconds after its last start().
SETTLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class StartedQuery:
    """A query of the script.

    :param handle: pyspark's ``StreamingQuery``.
    :param directory: Its checkpoint location in this epoch.
    :param replayed: Batches that were executed again before the real start.
    :param committed_before: Highest batch committed at its start; -1 for none.
    :param reach: Access to the file system of its output.
    """

    name: str
    handle: Any
    sink: SinkSpec
    directory: Tree
    replayed: int = 0
    committed_before: int = -1
    reach: StorageAccess = field(default_factory=StorageAccess)

    @property
    def output(self) -> str | None:
        """Output directory of its file sink; ``None`` for other sinks."""
        return self.sink.path

    def sink_now(self) -> QuerySink:
        """Return the current content of the sink."""
        return as_it_is(described(self.sink), self.reach)

    @property
    def sink_log(self) -> Tree | None:
        """Log of its file sink; ``None`` for other sinks."""
        return sink_record(described(self.sink), self.reach)

    def status(self) -> QueryStatus:
        """Return the query's progress, from its directory."""
        now = progress(self.directory)
        return QueryStatus(
            planned=now.planned,
            committed=now.committed,
            sink=self.sink.path or self.sink.source,
            replayed=self.replayed,
        )

    def first_trigger_is_over(self, noted: int = -1) -> bool:
        """Return whether it has committed a batch since its start, or its first trigger found no data.

        Spark reports progress for the first time at the end of the first trigger, even without data. The directory is
        not read before: this is called several times a second.

        :param noted: Its last committed batch at the last look at its directory; -1 for none.
        """
        if noted > self.committed_before:
            return True
        if self.sink.unplanned:
            return self._has_committed() or has_had_its_first_trigger(self.handle)
        trigger = self.reported()
        if trigger is None:
            return has_had_its_first_trigger(self.handle)
        # Without data it names the batch that comes next.
        return (not trigger.executed and trigger.batch == self.committed_before + 1) or self._has_committed()

    def _has_committed(self) -> bool:
        return progress(self.directory).committed > self.committed_before

    def reported(self) -> QueryTrigger | None:
        """Return the last trigger that Spark has reported; ``None`` without a report or an answer."""
        try:
            last = self.handle._jsq.lastProgress()  # noqa: SLF001  # pyspark's own converts all of it
            return None if last is None else read_trigger(str(last.json()))
        except Exception as error:  # noqa: BLE001  # a JVM that does not answer
            log.debug("query %s does not report its last trigger: %s", self.name, error)
            return None

    def check_commit(self, trigger: QueryTrigger | None, committed: int) -> None:
        """Refuse a query that has committed a batch which its directory does not have.

        :param trigger: The last report before the directory was read: Spark reports a batch after its commit.
        :param committed: Highest batch committed in the directory.
        :raises ApplicationRefusedError: Its checkpoint is in another place, unknown to the job.
        """
        if trigger is None or not trigger.executed or self.sink.unplanned:
            return
        if self.committed_before < trigger.batch <= committed:
            return
        raise ApplicationRefusedError(
            f"query {self.name!r} has committed batch {trigger.batch} in {self._place()}, but its working directory "
            f"{self.directory} has batches up to {committed}: a loss of the driver would lose its progress",
            next_step="See that the script sets no checkpoint location past writeStream, and that LC_ALL of the driver "
            "names a locale with UTF-8; then check the content of its sink, and submit the job again",
        )

    def _place(self) -> str:
        try:
            return str(self.handle._jsq.streamingQuery().resolvedCheckpointRoot())  # noqa: SLF001  # it has no public name
        except Exception:  # noqa: BLE001  # a JVM that does not answer
            return "another directory"

    def failure(self) -> str | None:
        """Return why the query failed, or ``None``."""
        error = self.handle.exception()
        return None if error is None else f"query {self.name!r} failed: {error}"


def has_had_its_first_trigger(handle: Any) -> bool:
    """Return whether Spark has reported progress of a query, or the query has ended well without any."""
    try:
        if handle._jsq.lastProgress() is not None:  # noqa: SLF001  # pyspark's own converts all of it
            return True
        return not handle.isActive and handle.exception() is None
    except Exception as error:  # noqa: BLE001  # a JVM that does not answer has not said that it works
        log.debug("a query does not report whether its first trigger is over: %s", error)
        return False


def _aside_has_worked(handle: Any) -> bool:
    return has_had_its_first_trigger(handle) or _has_committed_an_epoch(handle)


def _has_committed_an_epoch(handle: Any) -> bool:
    """Return whether a continuous query works: Spark never reports progress of such queries (measured with 4.2)."""
    try:
        execution = handle._jsq.streamingQuery()  # noqa: SLF001  # the way to Spark's own execution object
        if execution.getClass().getSimpleName() != CONTINUOUS_EXECUTION:
            return False
        return bool(execution.commitLog().getLatestBatchId().isDefined())
    except Exception as error:  # noqa: BLE001  # as above
        log.debug("a query does not report whether it has committed an epoch: %s", error)
        return False


Member: TypeAlias = StartedQuery | RestingQuery


class QueryRegistry:
    """Every query of the run, running or not. Thread-safe.

    :param on_start: Called when a query was started.
    :param on_commit: Called once, when a query has committed a batch after its start.
    :ivar triggers: The newest batch per query, as Spark has reported it.
    :ivar advanced: Whether a query has committed a batch after its start.
    :ivar running: Whether the job has been RUNNING under this driver.
    """

    def __init__(
        self, clock: Clock, on_start: Callable[[], None] = lambda: None, on_commit: Callable[[], None] = lambda: None
    ) -> None:
        self._on_start, self._on_commit = on_start, on_commit
        self.advanced = self.running = False
        self.triggers = ReportedTriggers()
        self._clock = clock
        self._members: dict[str, Member] = {}
        self._rank: dict[str, int] = {}  # order of the first start in this epoch
        self._beginning: set[str] = set()
        self._noted: Mapping[str, int] = {}
        self._last_start = 0.0
        self._complete = False
        self._waiting = threading.Event()
        self._lock = threading.Lock()
        self._aside: list[Any] = []

    def expect(self, queries: Iterable[RestingQuery], *, complete: bool) -> None:
        """Note the queries that the working directory was made with.

        :param complete: Whether they are all queries of the run, not only those started before its driver died.
        """
        with self._lock:
            self._members.update({query.name: query for query in queries})
            self._complete = complete

    def begin(self, query: RestingQuery) -> None:
        """Note that a query is being started, with its sink from the script; until then it is at rest."""
        with self._lock:
            self._rank.setdefault(query.name, len(self._rank))
            self._beginning.add(query.name)
            if query.name in self._members:
                self._members[query.name] = query

    def add_aside(self, handle: Any) -> None:
        """Note a query that is part of no cut: it has no past at any start."""
        with self._lock:
            self._aside.append(handle)

    @property
    def aside(self) -> tuple[Any, ...]:
        """The handles of the queries that are part of no cut."""
        with self._lock:
            return tuple(self._aside)

    def give_up(self, name: str) -> None:
        """Note that the start of a query was given up."""
        with self._lock:
            self._beginning.discard(name)

    def add(self, query: StartedQuery) -> None:
        """Register a query that was just started."""
        with self._lock:
            self._rank.setdefault(query.name, len(self._rank))
            self._beginning.discard(query.name)
            self._members[query.name] = query
            self._last_start = self._clock.lease_time()
        self._on_start()

    def find_name(self, name: str) -> Member | None:
        """Return the query with this name."""
        with self._lock:
            return self._members.get(name)

    @property
    def members(self) -> tuple[Member, ...]:
        """All queries of the run, in the order of their start in this epoch; those not started yet come last."""
        with self._lock:
            last = len(self._rank)
            return tuple(sorted(self._members.values(), key=lambda query: self._rank.get(query.name, last)))

    @property
    def started(self) -> tuple[StartedQuery, ...]:
        """The queries that were started, in the order of their first start."""
        return tuple(query for query in self.members if isinstance(query, StartedQuery))

    @property
    def resting(self) -> tuple[RestingQuery, ...]:
        """The queries that the run had, and that the script has not started yet."""
        return tuple(query for query in self.members if isinstance(query, RestingQuery))

    @property
    def begun(self) -> frozenset[str]:
        """Names of the queries that the script has begun to start in this epoch."""
        with self._lock:
            return frozenset(self._rank)

    def missing(self) -> str:
        """Return the queries of the run that the script has not begun to start; empty when it has begun all starts."""
        begun = self.begun
        names = [repr(query.name) for query in self.resting if query.name not in begun]
        return f"the script has not started {', '.join(names)}, which the run had before" if names else ""

    def not_working(self) -> str:
        """Return the queries that keep the job from being RUNNING, and why; empty without such a query.

        A query that the script has not begun to start does not count while another one works: the script decides when,
        and whether, to start it. See :meth:`missing`.
        """
        started = self.started
        if not started and (missing := self.missing()):
            return missing
        if not started and any(map(_aside_has_worked, self.aside)):
            return ""
        if not started:
            return "the script has not started a query"
        noted = self._noted
        names = [repr(each.name) for each in started if not each.first_trigger_is_over(noted.get(each.name, -1))]
        return f"waiting for the first batch of {', '.join(names)}" if names else ""

    def find(self, handle: Any) -> StartedQuery | None:
        """Return the query of a pyspark handle: scripts also get handles from ``spark.streams.active``."""
        run = handle.runId
        return next((query for query in self.started if query.handle.runId == run), None)

    @property
    def noted(self) -> Mapping[str, int]:
        """Query -> its last committed batch, as of the publisher's last look."""
        return self._noted

    def note_commits(self, committed: Mapping[str, int]) -> None:
        """Note the progress of the queries.

        :param committed: Query -> its last committed batch.
        """
        self._noted = committed
        if self.advanced:
            return
        self.advanced = any(committed.get(query.name, -1) > query.committed_before for query in self.started)
        if self.advanced:
            self._on_commit()

    def drop(self, names: Iterable[str]) -> None:
        """Forget queries at rest: no later cut holds them."""
        with self._lock:
            for name in names:
                del self._members[name]

    def script_waits(self) -> None:
        """Note that the script waits: for now it has made all its starts."""
        self._waiting.set()

    @property
    def settled(self) -> bool:
        """Whether, as far as the driver can see, the script has made all its starts for now."""
        if self._waiting.is_set():
            return True
        with self._lock:
            calm = bool(self._rank) and not self._beginning
            return calm and self._clock.lease_time() - self._last_start > SETTLE_SECONDS

    @property
    def whole(self) -> bool:
        """Whether a cut of :attr:`members` holds every query of the run.

        The queries of earlier epochs are members from the beginning. Only the first run of a script has to start its
        own queries first: a part of them would make a partial cut.
        """
        return self._complete or self.settled

    def ready_for(self, kind: OperationKind) -> bool:
        """Return whether this kind of operation finds the queries that it needs.

        A checkpoint waits for the script as the periodic ones do: before that a restore may still fail, and a run's
        first checkpoint claims the source of its restore.
        """
        if kind is OperationKind.CHECKPOINT:
            return bool(self.started) and self.settled
        return self.whole

    def failure(self) -> str | None:
        """Return why the first failed query failed, or ``None``; queries that the script has restarted do not count."""
        return next((reason for query in self.started if (reason := query.failure())), None)
