"""Interface to ZooKeeper, in terms that a fake can implement too.

Reads return nodes with their versions. Writes are transactions: a list of operations that are all applied or all
rejected. Every write goes through :meth:`Coordinator.commit`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.reads import Reads, Seen


__all__ = ["ANY_VERSION", "Check", "Coordinator", "Create", "Delete", "Op", "PathWatch", "SessionState", "SetData"]


ANY_VERSION = -1


@dataclass(frozen=True, slots=True)
class Check:
    """The node exists and has this version (any when ``ANY_VERSION``)."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Create:
    """The node is created; it must not exist."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """The node's data is replaced when it has this version (any when ``ANY_VERSION``)."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """The node is removed when it has this version (any when ``ANY_VERSION``)."""

    path: str
    version: int = ANY_VERSION


Op = Check | Create | SetData | Delete
# Gets the path of the node that may have changed.
PathWatch = Callable[[str], None]


class SessionState(Enum):
    """State of the session (design, contract 3: SUSPENDED is not LOST)."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class SessionCredentials:
    """Credentials that close a session from outside once its owner is proven dead. Logs never contain the password."""

    session_id: int
    password: bytes

    def __repr__(self) -> str:
        return f"SessionCredentials(session_id=0x{self.session_id:x})"


class Coordinator(Protocol):
    """One session with an ensemble. Safe to call from several threads; not across a fork."""

    @property
    def state(self) -> SessionState:
        """Current state of the session."""

    @property
    def session(self) -> SessionCredentials | None:
        """Current session; ``None`` without a session."""

    @property
    def negotiated_timeout(self) -> float:
        """T in seconds, as the server granted it."""

    def get(self, path: str, *, watch: Callable[[], None] | None = None) -> Node:
        """Read a node; *watch* is called once, from the event thread, when it may have changed.

        :raises NodeMissingError: It does not exist.
        """

    def find(self, path: str, *, watch: Callable[[], None] | None = None) -> Node | None:
        """Read a node, or return ``None`` when it does not exist (a *watch* then waits for its creation)."""

    def children(self, path: str, *, watch: Callable[[], None] | None = None) -> list[str]:
        """Return the names of a node's children, sorted; empty when the node does not exist."""

    def read(self, reads: Reads, *, watch: PathWatch | None = None) -> Seen:
        """Read nodes and lists of children in the order of *reads*, and in one round trip.

        :param watch: Called once for each node of *reads*, from the event thread, when it may have changed or been
            created. Nodes that do not exist cost a second round trip, all together.
        """

    def ensure(self, *paths: str) -> None:
        """Create the persistent nodes that do not exist yet, parents included."""

    def commit(self, *ops: Op, timeout: float | None = None) -> list[int]:
        """Apply all *ops* in one transaction, or none.

        :param ops: Operations, applied in this order.
        :param timeout: Seconds to wait for a connection, and again for the response; by default the session timeout.

        Returns the new version of each node that was set, 0 for a created one, -1 for checks and deletes.

        :raises NodeMissingError: A checked, set or deleted node does not exist (or a created one's parent).
        :raises NodeExistsError: A created node exists.
        :raises VersionConflictError: A node has another version.
        :raises NotConnectedError: Nothing was sent.
        :raises OutcomeUnknownError: Sent, but not answered: read back.
        """

    def add_state_listener(self, listener: Callable[[SessionState], None]) -> None:
        """Call *listener* on each change of state, from the event thread: it must not block."""

    def drop_connection(self) -> None:
        """Drop the connection and try the next server; the session lives on."""

    def close(self) -> None:
        """End the session. Idempotent."""
