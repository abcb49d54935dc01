"""Blobs that nothing names any more, removed once a day: old graphs and applications of runs that are gone.

Each run with other arguments leaves a graph. What goes is what ``spark-ha storage orphans --delete`` would remove
(``pointers.orphans``): nothing younger than 24 hours, and nothing at all while something that may name blobs cannot be
read. When it was last done is the time of an object beside the blobs, so that the next process need not begin again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.pointers.orphans import delete_orphans, find_orphans
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.directories import Directories
from airflow_provider_ha.storage.store import ObjectStore


log = logging.getLogger(__name__)
INTERVAL = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class OrphanCollection:
    """The collections of one cluster. Owns nothing; safe in any thread and process.

    :param directories: Those of the cluster, savepoints among them.
    :param prove: Raises when this process does not lead the cluster, or a job of it, any more.
    """

    coordinator: Coordinator
    cluster: ClusterPaths
    store: ObjectStore
    directories: Directories
    clock: Clock
    prove: Callable[[], None]

    def collect(self) -> int | None:
        """Remove the blobs that nothing names, when no process did that in the last 24 hours; return how many.

        :returns: ``None`` when it was done lately.
        :raises LeadershipError: This process does not lead any more.
        :raises HaError: Something could not be read or removed.
        """
        store = self.store
        done = store.info(keys.BLOB_COLLECTION)
        if done is not None and self.clock.now() - done.modified < INTERVAL:  # guard: blobs-are-collected-all-the-time
            return None
        self.prove()
        store.write(keys.BLOB_COLLECTION, b"")  # first: what fails is not tried again and again
        found = find_orphans(self.coordinator, self.cluster, store, self.directories, clock=self.clock)
        for problem in found.problems:
            log.warning("no blob is removed: %s could not be read: %s", problem.where, problem.reason)
        if found.problems:
            return 0
        self.prove()  # guard: a-former-leader-collects-blobs
        removed = delete_orphans(store, found)
        log.info("%d of %d blobs were not named any more and are removed", len(removed), found.blobs)
        return len(removed)

    def attempt(self) -> None:
        """Collect as :meth:`collect` does. What goes wrong is logged: the blobs stay until the next collection."""
        try:
            self.collect()
        except (HaError, OSError) as error:
            log.warning("blobs that nothing names stay until the next collection: %s", error)

    def begin(self) -> threading.Thread:
        """Begin an attempt beside everything else; it ends with the process."""
        thread = threading.Thread(target=self._run, name="ha-blobs", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        try:
            self.attempt()
        except Exception:  # top of a thread: no caller would see it
            log.exception("blobs that nothing names could not be collected")
