"""The thread that records, publishes and reports, several times a second; another thread removes old checkpoints."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from airflow_provider_ha.driver.job_writer import JobWriter
from airflow_provider_ha.driver.lifecycle import Lifecycle
from airflow_provider_ha.driver.publisher import Publisher
from airflow_provider_ha.driver.queries import QueryRegistry
from airflow_provider_ha.driver.removal_loop import Clean, RemovalLoop
from airflow_provider_ha.errors import ApplicationRefusedError, HaError, LeadershipError
from airflow_provider_ha.jobs.model import JobState


log = logging.getLogger(__name__)
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
                if self._publisher.tick() is not None:
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
