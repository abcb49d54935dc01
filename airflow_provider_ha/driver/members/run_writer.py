"""Records of a run, written by its driver: working directory, state, Spark application, end. All are fenced.

Invariant: a run's result, the removal of its graph pointer, the answers to all requests for its end and the last status
are one transaction. A pointer that outlived its run would resurrect it (FLINK-10011).

Invariant: only the lease ends the attempts. A leader works through an interrupted connection (contract 3), so a late or
lost answer is no reason to end a healthy driver; once the lease is over, the write itself raises.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Op, SetData
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.figures import StandbyFigures
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.errors import LeadershipLostError, NodeExistsError, NotConnectedError, OutcomeUnknownError
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.model import (
    AcceptedLoss,
    DrainedQuery,
    Generation,
    JobState,
    QueryStatus,
    RunEnd,
    RunResult,
    StandbyCount,
    Status,
)
from airflow_provider_ha.jobs.operations.operations import ending_ops
from airflow_provider_ha.jobs.runs.journal import JobJournal
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyStore
from airflow_provider_ha.jobs.runs.submissions import StartTimes
from airflow_provider_ha.records import Record
from airflow_provider_ha.redaction import public


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SparkApplication:
    """One application of Spark.

    :param application_id: Spark's id; empty when the script has made no session.
    :param ui: URL of its web UI; empty without a UI.
    """

    application_id: str = ""
    ui: str = ""


class RunningApplication:
    """Called several times a second, it queries the JVM once for each context of the script."""

    def __init__(self) -> None:
        self._context: Any = None
        self._known = SparkApplication()

    def __call__(self) -> SparkApplication:
        """Return the application of the script; the last one once its session is stopped."""
        from pyspark import SparkContext  # pyspark is imported inside functions

        context = SparkContext._active_spark_context  # noqa: SLF001  # there is no public way that makes none
        if context is None or context is self._context:
            return self._known
        try:
            self._known = application_of(context)
        except Exception as error:  # noqa: BLE001  # any failure of py4j: a link is no reason to fail a status
            log.debug("Spark does not report the address of its web UI: %s", error)
            return self._known
        self._context = context
        return self._known


def application_of(context: Any) -> SparkApplication:
    """Return the application of a pyspark context.

    Behind a reverse proxy the URL of the UI is the proxy's, which Spark's conf names.
    """
    conf, application_id = context.getConf(), str(context.applicationId)
    proxy = conf.get("spark.ui.reverseProxyUrl", "")
    if proxy and conf.get("spark.ui.reverseProxy", "false") == "true" and context.uiWebUrl:
        return SparkApplication(application_id, f"{proxy.rstrip('/')}/proxy/{application_id}")
    return SparkApplication(application_id, context.uiWebUrl or "")


PAUSE_SECONDS = 0.2


def persist(
    write: Callable[[], object], *, written: Callable[[], bool], lease_left: Callable[[], float], what: str
) -> None:
    """Call *write* until it returns, or until *written* finds its effect.

    :param write: A transaction under the leadership. It is sent again after an unknown outcome, so its second
        application must be harmless, or be rejected because a node exists.
    :param written: Reads back whether an earlier attempt was applied.
    :param lease_left: Remaining seconds of the lease. Reads also fail while ZooKeeper is away, so that *write* may
        never reach the transaction that would fail.
    :param what: For the log and the error.
    :raises LeadershipError: The lease ran out, or another epoch owns the job.
    :raises HaError: Any other error of *write*; the nodes are unchanged.
    """
    unsure = False
    while True:
        try:
            if unsure and written():
                return
            write()
        except OutcomeUnknownError as error:  # a retry is a try in a loop
            unsure = True
            log.warning("%s: no answer yet, reading back: %s", what, error)
        except NotConnectedError as error:
            log.warning("%s: not connected, trying again: %s", what, error)
        except NodeExistsError:
            if not (unsure and written()):
                raise
            return
        else:
            return
        if lease_left() <= 0:
            raise LeadershipLostError(f"{what}: the lease ran out before ZooKeeper had it")
        time.sleep(PAUSE_SECONDS)


FIGURES_SECONDS = 60.0
"""Seconds between two writes of a status in which only figures of batches have changed."""
TerminalState = Literal[JobState.FINISHED, JobState.CANCELED, JobState.FAILED]


class JobWriter:
    """The fenced writes of a driver. Thread-safe.

    :param journal: Receives the working directory and the result before ZooKeeper does (``jobs.journal``).
    :param application: Returns the script's current Spark application.
    :param standby_drivers: Number of standby drivers that the job requests.
    :ivar failed_checkpoints: Returns the number of checkpoints that could not be taken.
    :ivar start_times: Returns when the driver completed the phases of its start.
    :ivar class_archive: How the JVM has loaded its classes (``Status``).
    :ivar state_restore: Returns the fields of a ``QueryStatus`` that report the restore of its state; receives the
        query, and whether it has committed a batch after its start.
    """

    def __init__(
        self,
        *,
        coordinator: Coordinator,
        paths: JobPaths,
        graphs: JobGraphStore,
        journal: JobJournal,
        leadership: Leadership,
        registry: QueryRegistry,
        run: int,
        clock: Clock,
        application: Callable[[], SparkApplication] = SparkApplication,
        standby_drivers: int = 0,
    ) -> None:
        self._coordinator = coordinator
        self._paths = paths
        self._graphs = graphs
        self._journal = journal
        self._runs = RunStore(coordinator, paths)
        self._leadership = leadership
        self._registry = registry
        self._run = run
        self._clock = clock
        self._application = application
        self._standbys = StandbyFigures(StandbyStore(coordinator, paths, run), standby_drivers, clock)
        self._lock = threading.RLock()
        self._state = JobState.STARTING
        self._message = ""
        self._stalled = ""
        self._metrics = ""
        self._loss: AcceptedLoss | None = None
        self.failed_checkpoints: Callable[[], int] = lambda: 0
        self.start_times: Callable[[], StartTimes] = StartTimes
        self.class_archive = ""
        self.state_restore: Callable[[str, bool], Mapping[str, object]] = lambda *_: {}
        self._written: tuple[object, ...] | None = None
        self._ended = False
        self._shown: Mapping[str, int] = {}  # query -> the batch whose figures the written status has
        self._written_at = float("-inf")

    def begin(self, origin: Origin) -> None:
        """Make the working directory current.

        :raises StorageError: The journal could not be written; the directory is not current.
        """
        self._loss = self._loss_with(origin)
        generation = Generation(
            run=self._run,
            epoch=self._leadership.epoch,
            directory=origin.key,
            fallback=origin.fallback,
            lossy=dict(origin.lossy),
            loss=self._loss,
        )
        self._journal.generation(generation)
        message = f"from {origin.source}" if origin.source else "fresh"
        if origin.fallback is not None and origin.kind is OriginKind.FALLBACK:
            message = public(origin.fallback.sentence)
        if origin.message:
            message = public(origin.message)
        with self._lock:
            self._message = message
            facts, status = self._facts(None), self._status(None)
            self._leadership.commit(
                self._put(self._paths.generation, generation), self._put(self._paths.status, status)
            )
            self._written = facts

    def _loss_with(self, origin: Origin) -> AcceptedLoss | None:
        """Return the accepted losses of the run, this one included; once for each batch."""
        known = read_record(self._coordinator, self._paths.generation, Generation)
        before = known[0] if known is not None and known[0].run == self._run else None
        loss = before.loss if before is not None else None
        if not origin.lossy or (before is not None and before.lossy == origin.lossy):
            return loss
        return AcceptedLoss(
            queries=dict(origin.lossy),
            reason=public(origin.message),
            epoch=self._leadership.epoch,
            count=(loss.count if loss is not None else 0) + 1,
            at=self._clock.now(),
        )

    @property
    def losses(self) -> int:
        """Number of times that the run has continued without its missing input, by consent."""
        return self._loss.count if self._loss is not None else 0

    @property
    def standbys(self) -> StandbyCount | None:
        """The run's standby drivers at the last count; ``None`` for a job that requests none. Never waits."""
        return self._standbys.count

    @property
    def living_standbys(self) -> tuple[Standby, ...]:
        """The run's living standby drivers at the last count. Never waits."""
        return self._standbys.living

    def set_state(self, state: JobState, message: str = "") -> None:
        """Note the state; :meth:`publish_status` writes it. States noted after the end are ignored."""
        with self._lock:
            if not self._ended:
                self._state, self._message = state, public(message)

    @property
    def state(self) -> JobState:
        """The state in the published status. Never waits: the lock is held during writes to ZooKeeper."""
        state, stalled = self._state, self._stalled
        return JobState.STALLED if stalled and state in (JobState.STARTING, JobState.RUNNING) else state

    def set_stalled(self, reason: str) -> None:
        """Note the stalled query and the reason; empty for no stalled query."""
        with self._lock:
            self._stalled = public(reason)

    def set_metrics(self, place: str) -> None:
        """Note where the metrics of this driver are served."""
        with self._lock:
            self._metrics = place

    def set_message(self, message: str) -> None:
        """Note a problem that does not change the state; as :meth:`set_state`."""
        with self._lock:
            self.set_state(self._state, message)

    def publish_status(self, checkpoint: int | None) -> None:
        """Write the status when it has changed: state, message, checkpoint, application, resting queries, standbys.

        New figures of batches alone are written only when the status is a minute old. An idle job writes nothing.
        """
        with self._lock:
            self._standbys.update()
            now = self._facts(checkpoint)
            batches = self._registry.triggers.batches()
            if not self._ended and (now != self._written or self._figures_are_due(batches)):
                self._leadership.commit(self._put(self._paths.status, self._status(checkpoint)))
                self._written, self._shown, self._written_at = now, batches, self._clock.lease_time()

    def _facts(self, checkpoint: int | None) -> tuple[object, ...]:
        """Return the facts whose change is published immediately."""
        resting = tuple(query.name for query in self._registry.resting)
        failed = self.failed_checkpoints() > 0  # the message reports each; the figure follows within a minute
        said = (self._state, checkpoint, self._message, resting, self._application(), self._stalled, self._metrics)
        return (*said, failed, self.start_times(), self._standbys.count)

    def _figures_are_due(self, batches: Mapping[str, int]) -> bool:
        return batches != self._shown and self._clock.lease_time() - self._written_at >= FIGURES_SECONDS

    def end(
        self,
        state: TerminalState,
        *,
        reason: str = "",
        checkpoint: int | None = None,
        drained: Mapping[str, DrainedQuery] | None = None,
        end: RunEnd | None = None,
        queries: Mapping[str, QueryStatus] | None = None,
    ) -> None:
        """Write the run's result, and all records that end with it. Repeats the transaction while the lease lasts.

        :param end: The successful end: answers the other requests to the run (``operations.ending_ops``).
        :param queries: Positions of the queries; by default the registry's.
        :raises LeadershipError: This process no longer leads; the run may have the result.
        :raises StorageError: The journal could not be written; the run has no result.
        """
        at, reason = self._clock.now(), public(reason)
        result = RunResult(
            state=state,
            epoch=self._leadership.epoch,
            reason=reason,
            checkpoint=checkpoint,
            drained=dict(drained or {}),
            end=end,
            at=at,
        )
        with self._lock:
            self._state, self._message, self._stalled, self._metrics = state, reason, "", ""
            status = self._status(checkpoint)
            if queries is not None:
                status = status.model_copy(update={"queries": dict(queries)})
            self._journal.result(self._run, result)
            persist(
                lambda: self._commit_end(result, status),
                written=lambda: self._runs.result(self._run) == result,  # guard: results-read-back
                lease_left=self._leadership.lease_left,
                what=f"the result of run {self._run}",
            )
            self._ended = True
        log.info("run %d is %s: %s", self._run, state.value, reason or "done")

    def _commit_end(self, result: RunResult, status: Status) -> None:
        ops: list[Op] = [
            self._runs.result_op(self._run, result),
            self._put(self._paths.status, status),
            *ending_ops(self._coordinator, self._paths, self._run, result),
        ]
        if (removal := self._graphs.remove_op(self._run)) is not None:
            ops.append(removal)
        self._leadership.commit(*ops)

    def _status(self, checkpoint: int | None) -> Status:
        application = self._application()
        return Status(
            state=self._state,
            run=self._run,
            epoch=self._leadership.epoch,
            queries={query.name: self._query_status(query) for query in self._registry.started},
            not_started={query.name: query.status() for query in self._registry.resting},
            checkpoint=checkpoint,
            message=self._message,
            application_id=application.application_id,
            spark_ui=application.ui,
            stalled=self._stalled,
            metrics=self._metrics,
            failed_checkpoints=self.failed_checkpoints(),
            loss=self._loss,
            class_archive=self.class_archive,
            times=self.start_times(),
            standbys=None if self._state.terminal else self._standbys.count,
            at=self._clock.now(),
        )

    def _query_status(self, query: StartedQuery) -> QueryStatus:
        status = query.status()
        restored = self.state_restore(query.name, status.committed > query.committed_before)
        return status.model_copy(update={**self._registry.triggers.figures(query.name), **restored})

    def _put(self, path: str, record: Record) -> Op:
        node = self._coordinator.find(path)
        if node is None:
            return Create(path, record.to_bytes())
        return SetData(path, record.to_bytes(), node.version)
