"""Keeps the data of the leader node as the leader wrote it.

People, sensors and refused submitters find the leader by that node. A change from outside is reverted, once: the keeper
reads only after the node's watch has fired, and writes only what differs, at the version that it read. Its own write
makes it read once more and write nothing. Flink's leader answered its own writes without end (FLINK-27848).

A node that is gone is not created again: its removal is the end of the leadership (contract 1).

The keeper has its own thread, because a read may wait for an answer longer than a heartbeat may.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from airflow_provider_ha.coordination.coordinator import Check, Coordinator, SetData
from airflow_provider_ha.coordination.paths import Lock
from airflow_provider_ha.errors import CoordinationError, NodeMissingError, VersionConflictError


_log = logging.getLogger(__name__)
_RETRY_SECONDS = 1.0


class PublishedInformation:
    """Keeps the data of a leader node for as long as its leadership lasts.

    :param coordinator: The session that owns the node.
    :param lock: The lock that is held.
    :param epoch: Epoch of the leadership; the nodes of other epochs are not touched.
    :param session_id: The session that the node belongs to.
    :param data: Content of the node.
    :param on_foreign: Called with the reason when the node belongs to another session.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        lock: Lock,
        *,
        epoch: int,
        session_id: int,
        data: bytes,
        on_foreign: Callable[[str], None],
    ) -> None:
        self._coordinator = coordinator
        self._lock = lock
        self._epoch = epoch
        self._session_id = session_id
        self._data = data
        self._before: bytes | None = None
        self._on_foreign = on_foreign
        self._touched = threading.Event()
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin to watch, in a thread that ends with :meth:`stop`, at the latest with the process."""
        self._touched.set()
        threading.Thread(target=self._keep, name=f"ha-published-{self._lock.label}", daemon=True).start()

    def replace(self, data: bytes) -> None:
        """Have the node hold *data* from now on; written soon, by the keeper's thread."""
        self._before, self._data = self._data, data
        self._touched.set()

    def stop(self) -> None:
        """Leave the node alone from now on. Does not wait. Idempotent."""
        self._stopping.set()
        self._touched.set()

    def check(self) -> bool:
        """Read the node once, and correct it; returns whether that was necessary.

        :raises CoordinationError: It could not be read or written.
        """
        node = self._coordinator.find(self._lock.leader, watch=self._touched.set)
        if node is None or self._stopping.is_set():  # guard: published-stopped
            return False  # the next guarded write of the leader is refused
        if node.ephemeral_owner != self._session_id:  # guard: published-owner
            self._on_foreign(f"the leader node of {self._lock.label} belongs to session 0x{node.ephemeral_owner:x} now")
            return False
        if node.data == self._data:  # guard: published-once
            return False
        if node.data != self._before:
            _log.warning("the leader node of %s was changed from outside; it is written again", self._lock.label)
        self._coordinator.commit(  # guard: published-epoch
            Check(self._lock.epoch, self._epoch), SetData(self._lock.leader, self._data, node.version)
        )
        return True

    def _keep(self) -> None:
        while not self._stopping.is_set():
            self._touched.wait()
            self._touched.clear()
            if self._stopping.is_set():
                return
            try:
                self.check()
            except (NodeMissingError, VersionConflictError):
                _log.debug("it has changed since its read, whose watch has fired")
            except CoordinationError as error:
                _log.info("the leader node of %s cannot be read: %s", self._lock.label, error)
                self._touched.set()
                self._stopping.wait(_RETRY_SECONDS)
