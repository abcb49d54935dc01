"""Blobs that nothing names any more, removed by a leader of the cluster once a day: old graphs and applications.

Each run with other arguments leaves a graph. What goes is what ``spark-ha storage orphans --delete`` would remove
(``pointers.orphans``): nothing younger than 24 hours, and nothing at all while something that may name blobs cannot be
read. When it was last done is the time of an object beside the blobs, so that the next leader need not begin again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.pointers.orphans import delete_orphans, find_orphans
from airflow_provider_ha.storage import keys


log = logging.getLogger(__name__)
INTERVAL = timedelta(hours=24)
LOOK_SECONDS = 3600.0  # between two looks whether it is due; a leader of minutes does nothing


class BlobCollection:
    """The collections of one leader of the cluster. For one thread."""

    def __init__(self, client: HaClient, leadership: Leadership) -> None:
        self._client = client
        self._leadership = leadership
        self._due = client.clock.lease_time() + LOOK_SECONDS
        self._thread: threading.Thread | None = None

    def turn(self) -> None:
        """Begin a collection beside everything else when it is time; it ends with the process."""
        now = self._client.clock.lease_time()
        if now < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = now + LOOK_SECONDS
        self._thread = threading.Thread(target=self._collect, name="ha-blobs", daemon=True)
        self._thread.start()

    def _collect(self) -> None:
        try:
            collect_blobs(self._client, self._leadership.prove)
        except (HaError, OSError) as error:
            log.warning("blobs that nothing names stay until the next collection: %s", error)
        except Exception:  # top of a thread: no caller would see it
            log.exception("blobs that nothing names could not be collected")


def collect_blobs(client: HaClient, prove: Callable[[], None]) -> int | None:
    """Remove the blobs that nothing names, when that was not done in the last 24 hours; return how many.

    :param prove: Raises when this process does not lead the cluster any more.
    :returns: ``None`` when it was done lately.
    :raises LeadershipError: It does not.
    :raises HaError: Something could not be read or removed.
    """
    store = client.store
    done = store.info(keys.BLOB_COLLECTION)
    if done is not None and client.clock.now() - done.modified < INTERVAL:  # guard: blobs-are-collected-all-the-time
        return None
    prove()
    store.write(keys.BLOB_COLLECTION, b"")  # first: what fails is not tried again and again
    found = find_orphans(client.coordinator, client.paths, store, client.area, clock=client.clock)
    for problem in found.problems:
        log.warning("no blob is removed: %s could not be read: %s", problem.where, problem.reason)
    if found.problems:
        return 0
    prove()  # guard: a-former-leader-collects-blobs
    removed = delete_orphans(store, found)
    log.info("%d of %d blobs were not named any more and are removed", len(removed), found.blobs)
    return len(removed)
