"""When a leader of the cluster that stays looks whether blobs that nothing names have to be removed."""

from __future__ import annotations

import threading

from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.pointers.orphan_collection import OrphanCollection


LOOK_SECONDS = 3600.0  # between two looks whether it is due; a leader of minutes looks once, at its end


class BlobCollection:
    """The collections of one leader of the cluster. For one thread."""

    def __init__(self, client: HaClient, leadership: Leadership) -> None:
        self._clock = client.clock
        self._collection = cluster_collection(client, leadership)
        self._due = client.clock.lease_time() + LOOK_SECONDS
        self._thread: threading.Thread | None = None

    def turn(self) -> None:
        """Begin a collection beside everything else when it is time; it ends with the process."""
        now = self._clock.lease_time()
        if now < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = now + LOOK_SECONDS
        self._thread = self._collection.begin()


def cluster_collection(client: HaClient, leadership: Leadership) -> OrphanCollection:
    """Return the collections of a cluster, for its leader."""
    return OrphanCollection(client.coordinator, client.paths, client.store, client.area, client.clock, leadership.prove)
