"""Daily removal of unreferenced blobs: old graphs and applications of removed runs.

Each run with other arguments leaves a graph. It follows the rules of ``spark-ha storage orphans --delete``
(``pointers.orphans``): only blobs older than 24 hours, and only when every possible reference was read. The time of the
last collection is the time of an object next to the blobs, so that a new process does not repeat it.
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
    """The collections of a cluster. Owns nothing; safe in any thread and process.

    :param directories: Directories of the cluster, including savepoints.
    :param prove: Raises when this process no longer leads the cluster or a job in it.
    """

    coordinator: Coordinator
    cluster: ClusterPaths
    store: ObjectStore
    directories: Directories
    clock: Clock
    prove: Callable[[], None]

    def collect(self) -> int | None:
        """Remove unreferenced blobs, unless a process did so in the last 24 hours; return their number.

        :returns: ``None`` after a recent collection.
        :raises LeadershipError: This process no longer leads.
        :raises HaError: Something could not be read or removed.
        """
        store = self.store
        done = store.info(keys.BLOB_COLLECTION)
        if done is not None and self.clock.now() - done.modified < INTERVAL:
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
        log.info("%d of %d blobs were no longer referenced and are removed", len(removed), found.blobs)
        return len(removed)

    def attempt(self) -> None:
        """Collect as :meth:`collect` does. Errors are logged: the blobs stay until the next collection."""
        try:
            self.collect()
        except (HaError, OSError) as error:
            log.warning("unreferenced blobs stay until the next collection: %s", error)

    def begin(self) -> threading.Thread:
        """Start an attempt in a daemon thread."""
        thread = threading.Thread(target=self._run, name="ha-blobs", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        try:
            self.attempt()
        except Exception:  # top of a thread: no caller would see it
            log.exception("unreferenced blobs could not be collected")
