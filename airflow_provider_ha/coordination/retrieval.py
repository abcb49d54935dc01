"""Announces the leader of a lock whenever it changes: for clients of a leader, not for candidates.

Invariants:

- Every announcement comes from one thread, in order, and is based on a read, never on a watch event alone.
- Several changes between two reads may appear as one; the last state is always announced.
- A leader that is still the same after an interruption is announced again: a client that has dropped its connection to
  it must learn that it may connect (FLINK-19557).
- Without a session the leader is unknown, so ``None`` is announced when the session is lost; in strict mode already
  when the connection is interrupted. A leader that is only assumed is worse than none (FLINK-6174).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType

from typing_extensions import Self

from airflow_provider_ha.coordination.coordinator import Coordinator, SessionState
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.paths import Lock
from airflow_provider_ha.errors import CoordinationError


_log = logging.getLogger(__name__)

_STOP_SECONDS = 5.0  # a read may wait for an answer; its findings are no longer announced

OnChange = Callable[[Node | None], None]


class LeaderRetrieval:
    """Follows the leader of a lock. Start it with :meth:`start` or a ``with`` statement.

    :param coordinator: The session; its owner closes it.
    :param lock: The lock to follow.
    :param on_change: Called with the leader node (its data is the leader's own record), or with ``None`` without a
        known leader. Called first with the state at the start.
    :param tolerate_suspended: ``False`` is the strict mode.
    :param poll: Seconds between two reads when no watch fires.
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
        """Begin to follow, in its own thread."""
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
        """Read once and announce a change. The thread's work; a caller without threads may call it directly.

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
        """Note on the event thread the work of the next read."""
        if state is not SessionState.CONNECTED:
            self._again = True  # guard: retrieval-again
            self._blind = self._blind or state in self._unknown  # guard: retrieval-looks
        self._changed.set()
