"""The thread that sees that the job commits nothing although it should, and ends the driver where the job wants that.

Invariant: what is not known is no stall: a JVM that does not answer, or a log that cannot be read, is looked at again.
A restart is a loss like any other: the restart strategy counts it and delays the next one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.job_writer import JobWriter
from airflow_provider_ha.driver.lifecycle import Lifecycle
from airflow_provider_ha.driver.queries import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.stall import Look, Stall, StallDetector
from airflow_provider_ha.jobs.failures import STALLED, Failure
from airflow_provider_ha.jobs.options.ha_options import HaOptions


log = logging.getLogger(__name__)
LOOK_SECONDS = 5.0


class StallWatch:
    """Watches over the queries of one driver.

    :param restart: Ends the driver; used where the options say so.
    :param failed: Called with the error of a thread that cannot go on.
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
        self._was = False

    def start(self) -> None:
        """Start the thread, which ends with the process; none where the job wants no watch."""
        if self._timeout > 0:
            threading.Thread(target=self._run, name="stall-watch", daemon=True).start()

    def look(self) -> None:
        """Look at every query that is started, and note what is stalled."""
        looks = {query.name: look for query in self._registry.started if (look := look_at(query)) is not None}
        stall = self._detector.stalled(looks, self._clock.lease_time())
        if self._lifecycle.stopping.is_set():  # guard: stops-are-taken-for-stalls
            stall = None
        if stall is None:
            if self._was:
                log.info("the job is no longer stalled")
            self._was = False
            self._writer.set_stalled("")
            return
        sentence = stall.sentence(_executors(self._registry.started, stall.query))
        if not self._was:  # it names the seconds at which it was seen, so that the status is written once
            log.warning("the job is stalled: %s", sentence)
            self._writer.set_stalled(sentence)
        self._was = True
        if self._restart is not None:  # guard: stalled-jobs-are-not-restarted
            self._restart(f"the job is stalled: {sentence}", _failure(stall, sentence))

    def _run(self) -> None:
        pause = threading.Event()
        try:
            while not self._lifecycle.leaving.is_set():
                pause.wait(min(LOOK_SECONDS, self._timeout / 4))
                self.look()
        except BaseException as error:  # noqa: BLE001  # a job that wants a watch must not go on without it
            self._failed(error)


def _executors(started: Iterable[StartedQuery], name: str) -> int | None:
    """Return how many executors the application has; ``None`` when they are the driver's process, or not known."""
    try:
        handle = next(query.handle for query in started if query.name == name)
        context = handle._jsq.sparkSession().sparkContext()  # noqa: SLF001  # of the query itself, not of the active session
        # Spark counts the driver as one of them.
        return None if context.isLocal() else len(context.statusTracker().getExecutorInfos()) - 1
    except Exception as error:  # noqa: BLE001  # a JVM that does not answer
        log.debug("the executors are not known: %s", error)
        return None


def look_at(query: StartedQuery) -> Look | None:
    """Return what a query does now; ``None`` when it does not say so."""
    try:
        status = query.handle._jsq.status()  # noqa: SLF001  # pyspark's own converts it by way of JSON
        last = query.handle._jsq.lastProgress()  # noqa: SLF001  # as above
        return Look(
            committed=progress(query.directory.fresh()).committed,
            in_trigger=bool(status.isTriggerActive()),
            doing=str(status.message()),
            reported="" if last is None else str(last.timestamp()),  # guard: slow-sources-are-stalled
        )
    except Exception as error:  # noqa: BLE001  # what is not known is no stall
        log.debug("query %s does not say what it does: %s", query.name, error)
        return None


def _failure(stall: Stall, sentence: str) -> Failure:
    return Failure(error_class=STALLED, message=sentence, query=stall.query, batches={stall.query: stall.committed})
