"""The work of the removal thread in one turn: deletions first, then a share of all postponable work.

Invariant: every turn processes the deletion list before any other work, even if that work fails: the listed objects
hold disk space, and too many of them stop publication. All other work runs for a few seconds at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from airflow_provider_ha.checkpoints.retention.store import COLLECTION_SECONDS, CheckpointStore
from airflow_provider_ha.checkpoints.retention.working_files import WorkingFilesCollector
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import HaError, LeadershipError


log = logging.getLogger(__name__)
COLLECTION_INTERVAL = 600.0  # seconds between two collections
RETRY_SECONDS = 60.0  # before a failed collection is retried


class Cleaning:
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
            self._due = self._clock.lease_time() + RETRY_SECONDS
            raise
        if done:
            self._due = self._clock.lease_time() + COLLECTION_INTERVAL
        return done

    def _collect_files(self, more: Callable[[], bool]) -> bool:
        return self._files is None or self._files.collect(self._leadership, more)
