"""Interface to ZooKeeper, in terms that a fake can implement too: operations, nodes and batched reads.

Reads return nodes with their versions. Writes are transactions: a list of operations that are all applied or all
rejected. Every write goes through :meth:`Coordinator.commit`.

A session's requests are answered in the order in which they were sent, also when all are sent before the first answer
comes. So reads whose order matters need not wait for each other, only those whose path is in an earlier answer.

A reader is a generator: it yields read requests, receives results, and returns a value. The same reader serves one
object or a thousand, sharing the round trips. The results contain the responses for all readers: each reader
looks up its own paths.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

from airflow_provider_ha.errors import HaError, NodeMissingError


__all__ = ["ANY_VERSION", "Check", "Coordinator", "Create", "Delete", "Op", "PathWatch", "SessionState", "SetData"]


@dataclass(frozen=True, slots=True)
class Node:
    """Znode as it was read.

    :param path: Path of the znode.
    :param data: Content, as bytes.
    :param version: Number of times its data was set since its creation.
    :param modified_zxid: Transaction that last changed it: grows over the whole ensemble.
    :param ephemeral_owner: Session that owns it; 0 for a persistent node.
    """

    path: str
    data: bytes
    version: int
    modified_zxid: int
    ephemeral_owner: int


@dataclass(frozen=True, slots=True)
class Reads:
    """Paths to read: nodes in their order, then lists of children in theirs.

    :param nodes: Paths of nodes, whether they exist or not.
    :param lists: Paths whose children's names are wanted.
    :param absent: Nodes that probably do not exist. Watching a missing node then costs one request instead of two; an
        existing one costs two.
    """

    nodes: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    absent: frozenset[str] = frozenset()

    def __add__(self, other: Reads) -> Reads:
        """Return both in one: the nodes of *other* after these nodes, its lists after these lists."""
        return Reads(self.nodes + other.nodes, self.lists + other.lists, self.absent | other.absent)


@dataclass(frozen=True, slots=True)
class ReadResponse:
    """Result of reads. Access to a path that was not read is an error of the caller (``KeyError``).

    :param nodes: Nodes by path; ``None`` for a missing node.
    :param lists: Names of the children by path, sorted; empty for a missing node.
    """

    nodes: Mapping[str, Node | None]
    lists: Mapping[str, list[str]]

    def there(self, path: str) -> Node:
        """Return a node that must exist.

        :raises NodeMissingError: The node does not exist.
        """
        node = self.nodes[path]
        if node is None:
            raise missing(path)
        return node


def missing(path: str) -> NodeMissingError:
    """Return the error for a missing node that must exist."""
    error = NodeMissingError(f"znode {path} does not exist")
    error.path = path
    return error


ANY_VERSION = -1


@dataclass(frozen=True, slots=True)
class Check:
    """Operation that requires the node to exist with this version (any with ``ANY_VERSION``)."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Create:
    """Operation that creates the node, which must not exist."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Operation that replaces the node's data, if it has this version (any with ``ANY_VERSION``)."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Operation that removes the node, if it has this version (any with ``ANY_VERSION``)."""

    path: str
    version: int = ANY_VERSION


Op = Check | Create | SetData | Delete
# Called with the path of the node that may have changed.
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
    """Session with an ensemble. Safe to call from several threads; not across a fork."""

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

        :raises NodeMissingError: The node does not exist.
        """

    def find(self, path: str, *, watch: Callable[[], None] | None = None) -> Node | None:
        """Read a node, or return ``None`` when it does not exist (a *watch* then waits for its creation)."""

    def children(self, path: str, *, watch: Callable[[], None] | None = None) -> list[str]:
        """Return the names of a node's children, sorted; empty when the node does not exist."""

    def read(self, reads: Reads, *, watch: PathWatch | None = None) -> ReadResponse:
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


T = TypeVar("T")
Steps = Generator[Reads, ReadResponse, T]


def follow(coordinator: Coordinator, steps: Steps[T]) -> T:
    """Return the result of a reader, and raise its errors.

    :raises NotConnectedError: ZooKeeper could not be read.
    """
    return follow_all(coordinator, [steps])[0]


def follow_all(coordinator: Coordinator, many: Sequence[Steps[T]], *, watch: PathWatch | None = None) -> list[T]:
    """Return the results of the readers. Each reader's reads keep their order.

    :param watch: Called with the path of a node that was read, when it may have changed.
    :raises NotConnectedError: ZooKeeper could not be read.
    """
    results: dict[int, T] = {}
    wanted = _advance(enumerate(many), None, results)
    while wanted:
        # Nodes before lists, in the order of each reader's requests.
        seen = coordinator.read(
            Reads(
                tuple(path for *_, reads in wanted for path in reads.nodes),
                tuple(path for *_, reads in wanted for path in reads.lists),
            ),
            watch=watch,
        )
        wanted = _advance([(number, steps) for number, steps, _ in wanted], seen, results)
    return [results[number] for number in range(len(many))]


def or_error(steps: Steps[T]) -> Steps[T | HaError]:
    """Return the error of a reader in place of its result, so that the results of the others are kept."""
    try:
        return (yield from steps)
    except HaError as error:
        return error


def _advance(
    many: Iterable[tuple[int, Steps[T]]], seen: ReadResponse | None, results: dict[int, T]
) -> list[tuple[int, Steps[T], Reads]]:
    """Return the next reads of all readers; finished readers store their result."""
    wanted = []
    for number, steps in many:
        try:
            wanted.append((number, steps, next(steps) if seen is None else steps.send(seen)))
        except StopIteration as done:  # noqa: PERF203  # a generator ends by it
            results[number] = done.value
    return wanted
