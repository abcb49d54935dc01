"""Turns committed batches into checkpoints: cut, pin, payload, pointer; without delaying the batches.

Invariants: a cut belongs to one epoch; its closure is pinned before its payload is written, the payload before its
pointer (contracts 2 and 7); a cut holds every query of the run, also those that its script has not started yet; it
reads the commits of downstream queries before those of upstream ones, so that a query is never ahead of its input. Old
checkpoints are removed by another thread; when that thread falls behind, publication pauses (FLINK-17073).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ha.checkpoints.areas.work_area import RetainedCut, WorkArea
from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, CheckpointKind, QueryCut, QuerySources
from airflow_provider_ha.checkpoints.ownership import ClaimMode
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Op
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.driver.checkpointing.origin import Origin
from airflow_provider_ha.driver.checkpointing.progress import BatchRecorder, Measure, PeriodicProgress, ProgressSource
from airflow_provider_ha.driver.figures import CheckpointFigures
from airflow_provider_ha.driver.queries.query_registry import Member, QueryRegistry
from airflow_provider_ha.errors import CheckpointError, CheckpointMissingError, HaError, LeadershipError
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.storage.keys import JobKeys


log = logging.getLogger(__name__)
Sources = Callable[[str, Sequence[BatchEntry]], QuerySources]
"""Query, its last batches -> its sources."""
MAX_WAITING = 10  # removals; each occupies the disk space of a whole checkpoint
PIN_ATTEMPTS = 5  # a closure can be purged while it is linked; the next cut is newer


@dataclass(frozen=True, slots=True)
class Provenance:
    """The common fields of this driver's checkpoints.

    :param graph: Digest of the job graph.
    """

    job_id: str
    run: int
    graph: str
    spark_version: str


@dataclass(slots=True)
class _Published:
    """The content of the newest checkpoint."""

    number: int | None = None
    cut: dict[str, int] = field(default_factory=dict)
    at: float = float("-inf")


class Publisher:
    """Takes checkpoints of the queries in *registry*. Thread-safe.

    :param area: Holds the working directory, and its retained parts.
    :param source: Decides when a tick has to read the directories; by default every tick reads them.
    :param figures: Receive the time and size of each checkpoint.
    :param sources: Returns the sources of a query, given its last batches. Never waits.
    :param measure: Determines the lengths of the input files of a batch.
    """

    def __init__(
        self,
        *,
        store: CheckpointStore,
        leadership: Leadership,
        registry: QueryRegistry,
        origin: Origin,
        provenance: Provenance,
        options: HaOptions,
        area: WorkArea,
        clock: Clock,
        source: ProgressSource | None = None,
        figures: CheckpointFigures | None = None,
        sources: Sources = lambda *_: QuerySources(),
        measure: Measure = lambda *_: None,
    ) -> None:
        self._store = store
        self._leadership = leadership
        self._registry = registry
        self._origin = origin
        self._provenance = provenance
        self._options = options
        self._area = area
        self._clock = clock
        self._source = source or PeriodicProgress(clock)
        self._sources, self._measure = sources, measure
        self._look_due = True
        self._committed: dict[str, int] = {}  # as of the last look
        self._recorders: dict[str, BatchRecorder] = {}
        self._last = self._newest_of_run()
        self._unfinished: Checkpoint | None = None
        self._tried = 0
        self._began = 0.0
        self._lock = threading.RLock()
        self.figures = figures or CheckpointFigures()

    def _newest_of_run(self) -> _Published:
        """Return the newest checkpoint that an earlier driver of the run has taken."""
        own = (pointer for pointer in self._store.list() if pointer.run == self._provenance.run)
        newest = next(own, None)
        return _Published() if newest is None else _Published(newest.number, dict(newest.cut))

    @property
    def latest(self) -> int | None:
        """Number of the newest checkpoint of this run."""
        return self._last.number

    def tick(self) -> Checkpoint | None:
        """Record new batches when the source reports progress, and take a checkpoint when one is due. Returns it.

        :raises ApplicationRefusedError: A query commits elsewhere than in its working directory.
        :raises CheckpointError: One is due, but too many old ones wait to be removed; or as :meth:`publish`.
        """
        moved = self._source.moved()  # without the lock: a JVM that hangs must not delay a stop
        reported = [(query, query.reported()) for query in self._registry.started] if moved else []  # as above
        with self._lock:
            # Kept until a read has succeeded: the source reports each move only once.
            self._look_due = moved or self._look_due
            if self._look_due:
                self._look()
            for query, trigger in reported:
                query.check_commit(trigger, self._committed.get(query.name, -1))
            if not self._due():
                return None
            with self.figures.attempt():
                self._refuse_backlog()  # guard: back-pressure
            return self.publish(CheckpointKind.PERIODIC)

    def record(self) -> dict[str, int]:
        """Remember new batches of all queries; return query -> its last committed batch."""
        committed: dict[str, int] = {}
        with self._lock:
            for query in self._registry.members:
                if query.name not in self._recorders:
                    self._recorders[query.name] = BatchRecorder(
                        query.directory,
                        self._origin.known(query.name),
                        self._measure,
                        carried_to=self._origin.carried_to(query.name),
                    )
                committed[query.name] = self._recorders[query.name].poll()
        return committed

    def _look(self) -> None:
        self._committed = self.record()
        self._registry.note_commits(self._committed)
        self._look_due = False

    def publish(self, reason: CheckpointKind) -> Checkpoint:
        """Take a checkpoint now.

        :raises CheckpointError: The closure could not be pinned.
        :raises StorageError: The payload could not be written.
        :raises LeadershipError: This process may no longer write for the job.
        """
        with self._lock, self.figures.attempt():
            if self._unfinished is not None:
                finished = self._finish(self._unfinished)
                if reason is CheckpointKind.PERIODIC:
                    return finished
            # A number whose attempt failed permanently is not tried again: its names are taken.
            number = max(self._store.next_number(), self._tried + 1)
            self._began = self._clock.lease_time()
            pinned = self._pinned(number, reason)
            # Part of the payload: its pointer, which may be written again, has to stay the same.
            seconds = round(self._clock.lease_time() - self._began, 3)
            return self._finish(pinned.model_copy(update={"seconds": seconds}))

    def publish_requested(self) -> tuple[Checkpoint, bool]:
        """Return a checkpoint of all batches committed so far, and whether it was taken for this request.

        Without a batch after the newest checkpoint of the run, that checkpoint is returned.

        :raises CheckpointMissingError: The queries have not committed a batch yet.
        :raises CheckpointError: Too many old ones wait to be removed; or as :meth:`publish`.
        """
        with self._lock:
            if self._unfinished is not None:  # it may be older than the newest batch, so it is no answer yet
                with self.figures.attempt():
                    self._finish(self._unfinished)
            self._look()
            if all(batch < 0 for batch in self._committed.values()):
                raise CheckpointMissingError(
                    f"job {self._provenance.job_id!r} has not committed a batch yet",
                    next_step="Retry after the first batch",
                )
            if not self._has_news():
                assert self._last.number is not None  # noqa: S101  # it holds all commits
                return self._store.load(self._store.pointer(self._last.number)), False
            with self.figures.attempt():
                self._refuse_backlog()
            return self.publish(CheckpointKind.PERIODIC), True

    def _finish(self, checkpoint: Checkpoint) -> Checkpoint:
        """Write payload and pointer. After a temporary refusal this checkpoint is finished later, not pinned twice."""
        self._unfinished, self._tried = checkpoint, checkpoint.number
        try:
            self._store.add(self._leadership, checkpoint, *self._claim())
        except HaError as error:
            if not error.retryable:
                self._unfinished = None
            raise
        self._unfinished = None
        self.figures.published(checkpoint, self._clock.lease_time() - self._began)
        self._remember(checkpoint)
        self._mark_old()
        log.info("checkpoint %d (%s): %s", checkpoint.number, checkpoint.reason.value, self._last.cut)
        return checkpoint

    def _claim(self) -> list[Op]:
        """Return the operations by which the job, with the run's first checkpoint, owns the source of its restore.

        Before that checkpoint the restore may still fail, and its source is all that the user has.
        """
        plan, run = self._origin.plan, self._provenance.run
        if plan is None or plan.claim_mode is ClaimMode.NO_CLAIM:
            return []
        if any(pointer.run == run for pointer in self._store.list()):
            return []
        return self._store.claims.ops(plan, run=run, epoch=self._leadership.epoch)

    def _due(self) -> bool:
        """Return whether the last read has found commits without a checkpoint, and the interval is over.

        Not before the script has come to its first wait: until then a restore may still fail, and claims nothing.
        """
        if not self._registry.started or not self._registry.settled:
            return False
        if not self._has_news():
            return False
        if self._last.number is None and not self._registry.advanced and not self._registry.running:
            return False  # the first checkpoint of a run that has done nothing yet
        return self._clock.lease_time() - self._last.at >= self._options.checkpoint_interval

    def _has_news(self) -> bool:
        """Return whether the last read has found another cut than that of the run's newest checkpoint.

        A fallback begins before it; the directory of an earlier driver may hold the same cut.
        """
        return any(
            self._committed.get(query.name, -1) != self._last.cut.get(query.name, -1)
            for query in self._registry.members
        )

    def _mark_old(self) -> None:
        """Put checkpoints beyond the retention onto the deletion list. A failure casts no doubt on the new one (C3)."""
        try:
            self._store.subsume(self._leadership, self._options.retained_checkpoints)
        except LeadershipError:
            raise
        except HaError as error:
            log.warning("old checkpoints could not be marked; the next checkpoint tries again: %s", error)

    def _refuse_backlog(self) -> None:
        waiting = self._store.waiting()
        if waiting > MAX_WAITING:
            raise CheckpointError(
                f"{waiting} old checkpoints and savepoints wait to be removed, so no new one is taken",
                next_step="Find the obstacle to the removal in the driver's log",
            )

    def _pinned(self, number: int, reason: CheckpointKind) -> Checkpoint:
        """Cut and pin; when Spark has purged files of the cut, a newer cut replaces it."""
        pin_key = JobKeys(self._provenance.job_id).pin(number, self._leadership.epoch)
        for attempt in range(1, PIN_ATTEMPTS + 1):
            self.record()
            queries = self._registry.members
            cut = {query.name: progress(query.directory).committed for query in reversed(queries)}
            if self._registry.members != queries:
                continue  # a start of a query has begun, and may have changed its sink
            sinks = {query.name: query.sink_now() for query in queries}
            try:
                retained = self._area.retain(self._origin.key, pin_key, cut, sinks=_file_sinks(queries))
            except CheckpointMissingError:
                if attempt == PIN_ATTEMPTS:
                    raise
                continue
            self.record()  # the content of the pin is recorded at least
            cuts = {
                query: QueryCut(
                    batch=cut[query],
                    sink=sinks[query],
                    entries=self._recorders[query].entries(),
                    files=dict(retained.files[query]),
                    sources=self._sources(query, self._recorders[query].entries()),
                )
                for query in cut
            }
            return self._checkpoint(number, retained, reason, cuts)
        raise CheckpointError(f"checkpoint {number} could not be pinned")

    def _checkpoint(
        self, number: int, retained: RetainedCut, reason: CheckpointKind, queries: dict[str, QueryCut]
    ) -> Checkpoint:
        return Checkpoint(
            job_id=self._provenance.job_id,
            number=number,
            run=self._provenance.run,
            epoch=self._leadership.epoch,
            reason=reason,
            created_at=self._clock.now(),
            queries=queries,
            directory=self._origin.key,
            pin=None if retained.key == self._origin.key else retained.key,
            graph=self._provenance.graph,
            spark_version=self._provenance.spark_version,
        )

    def _remember(self, checkpoint: Checkpoint) -> None:
        for name, query in checkpoint.queries.items():
            self._recorders[name].published(query.entries)
        cut = {name: query.batch for name, query in checkpoint.queries.items()}
        self._last = _Published(checkpoint.number, cut, self._clock.lease_time())


def requested_checkpoint(publisher: Publisher) -> dict[str, Any]:
    """Take a checkpoint for an operation; return the operation's result. Raises as ``Publisher.publish_requested``.

    Another epoch may answer the same request: its checkpoint also holds all that was committed at the request.
    """
    checkpoint, is_new = publisher.publish_requested()
    return {
        "checkpoint": checkpoint.number,
        "path": checkpoint.pin or checkpoint.directory,
        "cut": {query: part.batch for query, part in checkpoint.queries.items()},
        "new": is_new,
    }


def _file_sinks(queries: tuple[Member, ...]) -> dict[str, Tree]:
    return {query.name: query.sink_log for query in queries if query.sink_log is not None}
