"""Leader information: published by the leader in its node, and announced to clients at each change.

People, sensors and refused submitters find the leader through that node.

Publishing: the keeper reverts a change from outside, once. It reads only after the node's watch has fired, and writes
only a difference, at the version that it read. Its own write causes one more read and no write. Flink's leader answered
its own writes without end (FLINK-27848). A removed node is not created again, because its removal is the end of the
leadership (contract 1). The keeper has its own thread, because a read may wait for an answer longer than a heartbeat
may.

Invariants of the announcements:

- Every announcement comes from one thread, in order, and is based on a read, never on a watch event alone.
- Several changes between two reads may appear as one; the last state is always announced.
- A leader that is unchanged after an interruption is announced again: a client that has dropped its connection to it
  must learn that it may connect (FLINK-19557).
- Without a session the leader is unknown, so ``None`` is announced when the session is lost; in strict mode already
  when the connection is interrupted. A leader that is only assumed is worse than none (FLINK-6174).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType

from typing_extensions import Self

from airflow_provider_ha.coordination.coordinator import Check, Coordinator, Node, SessionState, SetData
from airflow_provider_ha.coordination.paths import Lock
from airflow_provider_ha.errors import CoordinationError, NodeMissingError, VersionConflictError


_log = logging.getLogger(__name__)

_STOP_SECONDS = 5.0  # a read may wait for an answer; its findings are no longer announced

OnChange = Callable[[Node | None], None]


class LeaderRetrieval:
    """Follower of a lock's leader. Start it with :meth:`start` or a ``with`` statement.

    :param coordinator: Session; its owner closes it.
    :param lock: Lock to follow.
    :param on_change: Called with the leader node (its data is the leader's own record), or with ``None`` without a
        known leader. The first call reports the state at the start.
    :param tolerate_suspended: ``False`` is the strict mode.
    :param poll: Seconds between two reads if no watch fires.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        lock: Lock,
        on_change: OnChange,
        *,
        tolerate_suspended: bool = True,
        poll: float = 5.0,
    ) -> None:
        self._coordinator = coordinator
        self._lock = lock
        self._on_change = on_change
        self._unknown = {SessionState.LOST} if tolerate_suspended else {SessionState.LOST, SessionState.SUSPENDED}
        self._poll = poll
        self._armed = False
        self._announced: tuple[int, bytes] | None = None
        self._first = True
        self._again = False
        self._blind = False
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to follow, in a separate thread."""
        self._coordinator.add_state_listener(self._on_state)
        self._thread = threading.Thread(target=self._follow, name=f"ha-retrieval-{self._lock.label}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the announcements. Idempotent; may be called from ``on_change`` itself."""
        self._stopping.set()
        self._changed.set()
        # guard: retrieval-stop-in-callback
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def look(self) -> None:
        """Read once and announce a change. The thread calls it; a caller without threads may call it directly.

        :raises CoordinationError: The read failed; there was no announcement.
        """
        if self._blind:
            self._blind = False
            self._announce(None)
        if self._coordinator.state is not SessionState.CONNECTED:
            return
        again, self._again = self._again, False
        watch = None if self._armed else self._fired
        self._armed = True
        try:
            node = self._coordinator.find(self._lock.leader, watch=watch)
        except CoordinationError:
            self._armed, self._again = False, self._again or again
            raise
        self._announce(node, again=again)

    def _follow(self) -> None:
        while not self._stopping.is_set():
            self._changed.clear()
            try:
                self.look()
            except CoordinationError as error:
                _log.info("the leader of %s cannot be determined: %s", self._lock.label, error)
            self._changed.wait(self._poll)

    def _announce(self, node: Node | None, *, again: bool = False) -> None:
        found = None if node is None else (node.ephemeral_owner, node.data)
        if self._stopping.is_set() or (found == self._announced and not self._first and not (again and found)):
            return
        self._announced, self._first = found, False
        try:
            self._on_change(node)
        except Exception:  # noqa: BLE001  # an error of a listener must not end the announcements
            _log.exception("the listener for the leader of %s failed", self._lock.label)

    def _fired(self) -> None:
        self._armed = False
        self._changed.set()

    def _on_state(self, state: SessionState) -> None:
        """Record, on the event thread, the work of the next read."""
        if state is not SessionState.CONNECTED:
            self._again = True  # guard: retrieval-again
            self._blind = self._blind or state in self._unknown  # guard: retrieval-looks
        self._changed.set()


_RETRY_SECONDS = 1.0


class PublishedInformation:
    """Keeper of the data of a leader node for the duration of its leadership.

    :param coordinator: Session that owns the node.
    :param lock: Lock that is held.
    :param epoch: Epoch of the leadership; the nodes of other epochs are not touched.
    :param session_id: Session that the node belongs to.
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
        """Set the node's data to *data* from now on; the keeper's thread writes it soon."""
        self._before, self._data = self._data, data
        self._touched.set()

    def stop(self) -> None:
        """Stop changing the node. Does not wait. Idempotent."""
        self._stopping.set()
        self._touched.set()

    def check(self) -> bool:
        """Read the node once, and correct it; return whether that was necessary.

        :raises CoordinationError: The node could not be read or written.
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
