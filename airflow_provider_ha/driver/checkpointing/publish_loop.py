"""Threads that publish checkpoints several times a second, and remove old checkpoints and notes.

Invariant: incomplete removals stay on the deletion list in ZooKeeper, for the next turn or for the next leader. A
failed removal is logged and disturbs no other work (C3); a lost leadership ends the driver.

Invariant: every turn processes the deletion list before any other work, even if that work fails: the listed objects
hold disk space, and too many of them stop publication. All other work runs for a few seconds at a time.

Nothing is removed on the way of a recovery to its first batch: the disk and the store are needed there.

Invariant: while a checkpoint or savepoint cannot be read, the lowest cut is not known, and every note stays. An
unreadable note keeps the others of its query.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchLog
from airflow_provider_ha.checkpoints.store.checkpoint_store import COLLECTION_SECONDS, CheckpointStore
from airflow_provider_ha.checkpoints.store.working_directories import WorkingFilesCollector
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.driver.checkpointing.publisher import Publisher
from airflow_provider_ha.driver.members.run_writer import JobWriter
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import ApplicationRefusedError, HaError, LeadershipError, RecordCorruptError
from airflow_provider_ha.jobs.model import JobState


log = logging.getLogger(__name__)
RETRY_SECONDS = 30.0
IDLE_SECONDS = 120.0  # without a batch: the source is idle, and nothing waits for the disk


Clean = Callable[[Callable[[], bool]], bool]
"""Removes superfluous objects while its argument returns true; returns whether it is done for now."""


class RemovalLoop:
    """Cleans up when woken, and again every half a minute; immediately while work is left.

    Its first turn continues the work of an earlier leader, with the first batch, or :data:`IDLE_SECONDS` later.

    :param clean: Removes superfluous objects. It should return when the loop is woken or stopped.
    :param failed: Called with the error of a thread that cannot continue.
    """

    def __init__(self, clean: Clean, failed: Callable[[BaseException], None]) -> None:
        self._clean = clean
        self._failed = failed
        self._first = threading.Event()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="removal", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def begin(self) -> None:
        """Allow the first turn. Does not block."""
        self._first.set()

    def wake(self) -> None:
        """Clean up soon. Does not block."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread after a last turn."""
        self._stopping.set()
        self._first.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._first.wait(IDLE_SECONDS)
            done = False
            while True:
                if done:
                    self._wake.wait(RETRY_SECONDS)
                self._wake.clear()
                last = self._stopping.is_set()
                done = self._turn()
                if last:
                    return
        except BaseException as error:  # noqa: BLE001  # a deposed leader must notice
            self._failed(error)

    def _undisturbed(self) -> bool:
        return not (self._wake.is_set() or self._stopping.is_set())

    def _turn(self) -> bool:
        try:
            return self._clean(self._undisturbed)
        except LeadershipError:
            raise
        except (HaError, OSError) as error:
            log.warning("old checkpoints could not be removed; they stay on the list: %s", error)
            return True


COLLECTION_INTERVAL = 600.0  # seconds between two collections
COLLECTION_RETRY_SECONDS = 60.0  # before a failed collection is retried


class RemovalTurns:
    """The turns of a driver's removal thread. Not thread-safe.

    :param past: Starts to remove the remains of earlier submissions, and yields after each step.
    :param files: Removes files that batches no longer need from working directories if Spark does not; ``None`` where
        Spark removes them.
    """

    def __init__(
        self,
        store: CheckpointStore,
        leadership: Leadership,
        clock: Clock,
        past: Callable[[], Iterator[None]],
        files: WorkingFilesCollector | None = None,
    ) -> None:
        self._store = store
        self._leadership = leadership
        self._clock = clock
        self._past: Iterator[None] = past()
        self._files = files
        self._due = clock.lease_time()

    def turn(self, go_on: Callable[[], bool]) -> bool:
        """Process the deletion list, then the due work, while *go_on* returns true and for a few seconds at most.

        :returns: Whether all work that is possible now is done.
        :raises LeadershipError: This process may no longer write for the job.
        :raises HaError, OSError: Something could not be removed; it is tried again.
        """
        self._store.work_off(self._leadership)
        deadline = self._clock.lease_time() + COLLECTION_SECONDS

        def more() -> bool:
            return go_on() and self._clock.lease_time() < deadline

        return not go_on() or (self._clear_past(more) and self._collect(more) and self._collect_files(more))

    def _clear_past(self, more: Callable[[], bool]) -> bool:
        try:
            for _ in self._past:
                if not more():
                    return False
        except LeadershipError:
            raise
        except (HaError, OSError) as error:
            log.warning("the remains of earlier submissions stay; the next driver tries again: %s", error)
        return True

    def _collect(self, more: Callable[[], bool]) -> bool:
        if self._clock.lease_time() < self._due:
            return True
        try:
            done = self._store.collect(self._leadership, more)
        except HaError:
            self._due = self._clock.lease_time() + COLLECTION_RETRY_SECONDS
            raise
        if done:
            self._due = self._clock.lease_time() + COLLECTION_INTERVAL
        return done

    def _collect_files(self, more: Callable[[], bool]) -> bool:
        return self._files is None or self._files.collect(self._leadership, more)


def clear_notes(
    checkpoints: CheckpointStore, leadership: Leadership, given: Callable[[str], ForeachBatchLog]
) -> Iterator[None]:
    """Remove them; yields after each.

    :param given: Returns the notes about a query.
    :raises LeadershipError: This process may no longer write for the job.
    :raises StorageUnavailableError: Notes could not be read or removed; the next call continues.
    """
    for query, floor in (checkpoints.floor() or {}).items():
        notes = given(query)
        try:
            needless = notes.needless(epoch=leadership.epoch, floor=floor)
        except RecordCorruptError as error:
            log.warning("the notes about query %s stay: %s", query, error)
            continue
        for epoch in needless:
            leadership.prove()
            notes.forget(epoch)
            yield


TICK_SECONDS = 0.15
PAUSE_AFTER_FAILURE = 2.0


class PublishLoop:
    """Ticks until the process ends. A refusal of storage or ZooKeeper is retried, and shown in the status.

    :param failed: Called with the error of a thread that cannot continue.
    :param settled: Called repeatedly once the script has made all its starts.
    :param running: Called once, when the job is RUNNING for the first time.
    :param clean: One turn of the removal thread.
    """

    def __init__(
        self,
        publisher: Publisher,
        writer: JobWriter,
        registry: QueryRegistry,
        lifecycle: Lifecycle,
        failed: Callable[[BaseException], None],
        *,
        settled: Callable[[], None],
        running: Callable[[], None],
        clean: Clean,
    ) -> None:
        self._publisher = publisher
        self._writer = writer
        self._registry = registry
        self._settled = settled
        self._running = running
        self._lifecycle = lifecycle
        self._failed = failed
        self._removal = RemovalLoop(clean, failed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        """Start both threads."""
        self._thread.start()
        self._removal.start()

    def stop(self) -> None:
        """End the thread after its tick, then the removal after a last turn."""
        self._stop.set()
        self._thread.join()
        self._removal.stop()

    def tick(self) -> float:
        """Do the due work; returns the seconds until the next tick."""
        try:
            if not self._lifecycle.stopping.is_set():
                standing = self._standing() if self._registry.settled else None
                if standing is not None and not self._lifecycle.stopping.is_set():
                    self._writer.set_state(*standing)
                published = self._publisher.tick()
                if self._registry.advanced:
                    self._removal.begin()
                if published is not None:
                    self._removal.wake()
                if self._registry.settled:
                    self._settled()
            self._writer.publish_status(self._publisher.latest)
        except LeadershipError:
            raise
        except ApplicationRefusedError as error:
            self._writer.end(JobState.FAILED, reason=str(error))
            raise
        except HaError as error:
            log.warning("no checkpoint: %s", error)
            self._writer.set_message(f"no checkpoint: {error.message}")
            self._tell()
            return PAUSE_AFTER_FAILURE
        return TICK_SECONDS

    def _standing(self) -> tuple[JobState, str]:
        """Return the state of a job whose script is set up, and its message.

        A job that has been RUNNING stays so: a later start of a query does not make the job start again.
        """
        registry = self._registry
        waiting = "" if registry.running else registry.not_working()
        if waiting:
            return JobState.STARTING, waiting
        if not registry.running:
            registry.running = True
            self._running()
        return JobState.RUNNING, registry.missing()

    def _tell(self) -> None:
        """Write the reason into the status now: while it lasts, ticks do not complete."""
        try:
            self._writer.publish_status(self._publisher.latest)
        except LeadershipError:
            raise
        except HaError as error:
            log.warning("the status could not be written; the next tick tries again: %s", error)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._stop.wait(self.tick())
        except BaseException as error:  # noqa: BLE001  # without its checkpoints the job must not continue silently
            self._failed(error)
