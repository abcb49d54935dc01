"""The tree of znodes, and transactions on it: all operations happen or none does.

Nodes are immutable values, so a copy of a tree costs as much as its two dictionaries: that is how a member that lags
behind keeps the state it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from typing_extensions import assert_never

from airflow_provider_ha.coordination.coordinator import ANY_VERSION, Check, Create, Delete, Node, Op, SetData
from airflow_provider_ha.errors import CoordinationError, NodeExistsError, NodeMissingError, VersionConflictError


@dataclass(frozen=True, slots=True)
class Event:
    """What watches hear of."""

    kind: Literal["created", "changed", "deleted"]
    path: str


class Tree:
    """All znodes as one member has them."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {"/": Node("/", b"", 0, 0, 0)}
        self._children: dict[str, frozenset[str]] = {}

    def copy(self) -> Tree:
        """Return a tree that does not change when this one does."""
        other = Tree()
        other._nodes = dict(self._nodes)
        other._children = dict(self._children)
        return other

    def get(self, path: str) -> Node | None:
        """Return a node; ``None`` when it does not exist."""
        return self._nodes.get(path)

    def children(self, path: str) -> list[str] | None:
        """Return the names of a node's children, sorted; ``None`` when the node does not exist."""
        return sorted(self._children.get(path, ())) if path in self._nodes else None

    def owned_by(self, session_id: int) -> list[str]:
        """Return the paths of a session's ephemeral nodes, sorted."""
        return sorted(path for path, node in self._nodes.items() if node.ephemeral_owner == session_id)

    def paths(self) -> list[str]:
        """Return the paths of all nodes, sorted."""
        return sorted(self._nodes)

    def apply(self, ops: Sequence[Op], *, zxid: int, session_id: int) -> tuple[list[int], list[Event]]:
        """Apply a transaction.

        :param zxid: Its number.
        :param session_id: Owner of the ephemeral nodes that it creates.
        :returns: As :meth:`Coordinator.commit` does, and what watches hear of.
        :raises CoordinationError: One operation was rejected, and nothing was changed; ``path`` is that of the
            operation, as with the real one.
        """
        undo: list[Callable[[], None]] = []
        versions: list[int] = []
        events: list[Event] = []
        try:
            for op in ops:
                versions.append(self._apply(op, zxid, session_id, undo, events))  # noqa: PERF401  # undone when one fails
        except CoordinationError:
            for step in reversed(undo):
                step()
            raise
        return versions, events

    def _apply(self, op: Op, zxid: int, session_id: int, undo: list[Callable[[], None]], events: list[Event]) -> int:
        match op:
            case Check():
                self._expect(op.path, op.version)
                return -1
            case Create():
                self._require_place(op.path)
                self._put(Node(op.path, op.data, 0, zxid, session_id if op.ephemeral else 0), undo)
                events.append(Event("created", op.path))
                return 0
            case SetData():
                node = self._expect(op.path, op.version)
                self._put(Node(op.path, op.data, node.version + 1, zxid, node.ephemeral_owner), undo)
                events.append(Event("changed", op.path))
                return node.version + 1
            case Delete():
                self._remove(self._expect(op.path, op.version), undo)
                events.append(Event("deleted", op.path))
                return -1
            case _:
                assert_never(op)

    def _expect(self, path: str, version: int) -> Node:
        node = self._nodes.get(path)
        if node is None:
            raise _rejected(NodeMissingError, path, "or its parent does not exist")
        if version not in {ANY_VERSION, node.version}:
            raise _rejected(VersionConflictError, path, "changed since it was read")
        return node

    def _require_place(self, path: str) -> None:
        parent = self._nodes.get(parent_of(path))
        if parent is None:
            raise _rejected(NodeMissingError, path, "or its parent does not exist")
        if path in self._nodes:
            raise _rejected(NodeExistsError, path, "exists")
        if parent.ephemeral_owner:
            raise _rejected(CoordinationError, path, "cannot be created: an ephemeral node has no children")

    def _put(self, node: Node, undo: list[Callable[[], None]]) -> None:
        nodes, path = self._nodes, node.path
        before = nodes.get(path)
        nodes[path] = node
        if before is not None:
            undo.append(lambda: nodes.__setitem__(path, before))
            return
        undo.append(lambda: nodes.__delitem__(path))
        parent, name = parent_of(path), path.rpartition("/")[2]
        siblings = self._children.get(parent, frozenset())
        self._children[parent] = siblings | {name}
        undo.append(lambda: self._children.__setitem__(parent, siblings))

    def _remove(self, node: Node, undo: list[Callable[[], None]]) -> None:
        path = node.path
        if self._children.get(path):
            raise _rejected(VersionConflictError, path, "has children")
        parent, name = parent_of(path), path.rpartition("/")[2]
        siblings = self._children[parent]
        del self._nodes[path]
        self._children[parent] = siblings - {name}
        undo.append(lambda: self._nodes.__setitem__(path, node))
        undo.append(lambda: self._children.__setitem__(parent, siblings))


def parent_of(path: str) -> str:
    """Return the path of a node's parent."""
    return path.rpartition("/")[0] or "/"


def lineage(path: str) -> list[str]:
    """Return *path* and its parents, the highest first."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


def _rejected(kind: type[CoordinationError], path: str, what: str) -> CoordinationError:
    error = kind(f"znode {path} {what}")
    error.path = path
    return error
