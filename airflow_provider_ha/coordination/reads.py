"""Several reads in one round trip.

A session's requests are answered in the order in which they were sent, also when all are sent before the first answer
comes. So reads whose order matters need not wait for each other, only those whose path is in an earlier answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.errors import NodeMissingError


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
        """Return both in one: the nodes of *other* after our nodes, its lists after our lists."""
        return Reads(self.nodes + other.nodes, self.lists + other.lists, self.absent | other.absent)


@dataclass(frozen=True, slots=True)
class Seen:
    """Result of reads. Access to a path that was not read is an error of the caller (``KeyError``).

    :param nodes: By path; ``None`` for a missing node.
    :param lists: Names of the children by path, sorted; empty for a node that does not exist.
    """

    nodes: Mapping[str, Node | None]
    lists: Mapping[str, list[str]]

    def there(self, path: str) -> Node:
        """Return a node that has to be there.

        :raises NodeMissingError: It is not.
        """
        node = self.nodes[path]
        if node is None:
            raise missing(path)
        return node


def missing(path: str) -> NodeMissingError:
    """Return the error of a node that has to be there and is not."""
    error = NodeMissingError(f"znode {path} does not exist")
    error.path = path
    return error
