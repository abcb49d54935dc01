"""ACLs of the nodes of a tree: find and correct ACLs that differ from this session's.

ZooKeeper inherits no ACLs: each node keeps the ACL of its creation. So nodes created before credentials were configured
stay open to all, and nodes of an old password refuse the new one.

Invariant: memory is bounded. A window of nodes is read in one round trip, and only names and findings are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kazoo.client import KazooClient  # noqa: TID253  # part of the facade
from kazoo.exceptions import InvalidACLError, NoAuthError, NoNodeError  # noqa: TID253  # as above
from kazoo.security import OPEN_ACL_UNSAFE  # noqa: TID253  # as above

from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.errors import ConfigurationError, CoordinationError


_AT_ONCE = 500  # nodes per round trip
_PASSES = 20  # of a repair: nodes that others make in the same time are found by the next one

Permission = tuple[str, str, int]  # scheme, id, bits


@dataclass(frozen=True, slots=True)
class NodeAcl:
    """ACL of a node as read.

    :param permissions: Permissions; ``None`` when the server does not let this session read the ACL.
    :param version: Number of times the ACL was set.
    :param children: Names of the children; empty when the server does not let this session list them.
    """

    path: str
    permissions: frozenset[Permission] | None
    version: int = -1
    children: tuple[str, ...] = ()


class AclSession(Protocol):
    """Session that can read and set ACLs, many at a time."""

    @property
    def wanted(self) -> frozenset[Permission]:
        """ACL of the nodes that this session creates."""

    @property
    def has_credentials(self) -> bool:
        """Return whether this session has credentials."""

    def look(self, paths: Sequence[str]) -> list[NodeAcl]:
        """Return the ACLs of the nodes that exist, in one round trip."""

    def put(self, nodes: Sequence[NodeAcl]) -> None:
        """Set the wanted ACL of nodes, where the server permits it and no other client has set it since."""


@dataclass(frozen=True, slots=True)
class WrongAcl:
    """Node whose ACL differs from that of this session's credentials.

    :param acl: Present ACL, for people, without the hash of a password.
    :param refused: The server refuses to read and to set the ACL, so the nodes below are unknown too.
    """

    path: str
    acl: str
    refused: bool = False


@dataclass(slots=True)
class AclReport:
    """Result of a check or a repair.

    :param nodes: Number of nodes read.
    :param wrong: Nodes with a wrong ACL (before the repair).
    :param left: Number of nodes that are still wrong.
    """

    nodes: int = 0
    wrong: list[WrongAcl] = field(default_factory=list)
    left: int = 0


def check(session: AclSession, base: str) -> AclReport:
    """Check *base* and everything below it. Changes nothing.

    :raises NotConnectedError: ZooKeeper could not be read.
    """
    report = AclReport()
    for window in _windows(session, base):
        report.nodes += len(window)
        report.wrong += [_described(session, node) for node in window if node.permissions != session.wanted]
    report.left = len(report.wrong)
    return report


def repair(session: AclSession, base: str, *, done: Callable[[int], None] = lambda _: None) -> AclReport:
    """Give *base* and everything below it the ACL of this session's credentials. Repeatable; continues after a crash.

    Passes are repeated until a whole pass finds no node to correct, because other clients keep creating nodes.

    :param done: Called with the number of nodes read so far.
    :raises NotConnectedError: ZooKeeper does not answer; corrected nodes stay corrected.
    :raises CoordinationError: Nodes with other ACLs are created as fast as they are corrected.
    """
    report, known = AclReport(), dict[str, WrongAcl]()
    for _ in range(_PASSES):
        report.nodes, report.left, changed = 0, 0, False
        for window in _windows(session, base):
            report.nodes += len(window)
            wrong = [node for node in window if node.permissions != session.wanted]
            known |= {node.path: _described(session, node) for node in wrong if node.path not in known}
            settable = [node for node in wrong if node.permissions is not None]
            report.left += len(wrong) - len(settable)
            session.put(settable)
            changed |= bool(settable)
            done(report.nodes)
        if not changed:
            report.wrong = list(known.values())
            return report
    raise CoordinationError(
        f"nodes below {base} are created with other ACLs as fast as they are corrected",
        next_step="Find the process that still uses other credentials, restart it with yours, and repair again",
    )


def _windows(session: AclSession, base: str) -> Iterator[list[NodeAcl]]:
    waiting = [base]
    while waiting:
        window, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
        nodes = session.look(window)
        # Depth first: a wide tree is not held in memory level by level.
        waiting = [f"{node.path}/{name}" for node in nodes for name in node.children] + waiting
        yield nodes


def _described(session: AclSession, node: NodeAcl) -> WrongAcl:
    if node.permissions is None:
        return WrongAcl(node.path, "it refuses these credentials", refused=True)
    own = {(scheme, name.partition(":")[0]) for scheme, name, _ in session.wanted}
    words = []
    for scheme, name, bits in sorted(node.permissions):
        user = name.partition(":")[0]
        other = (scheme, user) in own and not any((scheme, name) == each[:2] for each in session.wanted)
        words.append(f"{scheme}:{user}:{_letters(bits)}" + (" (another password)" if other else ""))
    return WrongAcl(node.path, ", ".join(words) or "no permissions")


def _letters(bits: int) -> str:
    return "".join(letter for position, letter in enumerate("rwcda") if bits & 1 << position)


class KazooAcls:
    """ACLs that a session can see and set; implements :class:`AclSession`.

    :param coordinator: Session; its owner closes it.
    """

    def __init__(self, coordinator: KazooCoordinator) -> None:
        self._coordinator = coordinator
        self._acl = coordinator.default_acl or OPEN_ACL_UNSAFE
        self.has_credentials = coordinator.default_acl is not None
        self.wanted = _permissions(self._acl)

    def look(self, paths: Sequence[str]) -> list[NodeAcl]:
        """Return the ACLs of the nodes that exist; all requests go out before the first answer is awaited."""

        def send(client: KazooClient) -> list[tuple[Any, Any]]:
            return [(client.get_acls_async(path), client.get_children_async(path)) for path in paths]

        found = []
        for path, (acl, children) in zip(paths, self._coordinator.pipelined(send), strict=True):
            if isinstance(acl, NoNodeError):
                continue
            names = () if isinstance(children, Exception) else tuple(sorted(children))
            if isinstance(acl, NoAuthError):
                found.append(NodeAcl(path, None, children=names))
            else:
                found.append(NodeAcl(path, _permissions(acl[0]), acl[1].aversion, names))
        return found

    def put(self, nodes: Sequence[NodeAcl]) -> None:
        """Set the ACLs of nodes; leave a node that another client removed or set to the next pass.

        :raises ConfigurationError: The servers do not know the scheme of the session's credentials.
        """

        def send(client: KazooClient) -> list[tuple[Any]]:
            return [(client.set_acls_async(node.path, self._acl, version=node.version),) for node in nodes]

        for node, (answer,) in zip(nodes, self._coordinator.pipelined(send), strict=True):
            if isinstance(answer, InvalidACLError):
                raise ConfigurationError(
                    f"ZooKeeper accepts no ACL with these credentials for {node.path}",
                    next_step="Check that the servers know this kind of credentials (digest, sasl)",
                )


def _permissions(acl: Sequence[Any]) -> frozenset[Permission]:
    return frozenset((each.id.scheme, each.id.id, each.perms) for each in acl)
