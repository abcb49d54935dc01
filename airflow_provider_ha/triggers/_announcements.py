"""The ephemeral nodes by which waits are shown to people (``jobs.presence``), as one session of a triggerer keeps them.

What goes wrong here is no trouble of the wait: it is tried again with the next look of any trigger of the session. When
the session ends, ZooKeeper removes the nodes.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from airflow_provider_ha.coordination.coordinator import Coordinator, Delete
from airflow_provider_ha.errors import HaError, NodeExistsError, NodeMissingError
from airflow_provider_ha.jobs.presence import Announcement


class Announcements:
    """What is announced in one session. Used from threads.

    :param coordinator: The session.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._lock = threading.Lock()
        self._made: set[str] = set()
        self._over: set[str] = set()

    def announce(self, announced: Announcement | None) -> None:
        """Make the node of a wait unless it is there, and remove what could not be removed before. Raises nothing."""
        with self._lock:
            over = list(self._over)
            known = announced is None or announced.path in self._made
        for path in over:
            self._remove(path)
        if announced is None or known:
            return
        with suppress(HaError):
            if announced.parent is not None:  # guard: presence-makes-a-job
                self._coordinator.ensure(announced.parent)
            with suppress(NodeExistsError):  # its own: an answer was lost
                self._coordinator.commit(announced.create())
            with self._lock:
                self._made.add(announced.path)

    def withdraw(self, announced: Announcement) -> None:
        """Remove the node of a wait that is over. Raises nothing."""
        with self._lock:
            self._over.add(announced.path)
        self._remove(announced.path)

    def _remove(self, path: str) -> None:
        try:
            with suppress(NodeMissingError):
                self._coordinator.commit(Delete(path))
        except HaError:
            return
        with self._lock:
            self._over.discard(path)
            self._made.discard(path)
