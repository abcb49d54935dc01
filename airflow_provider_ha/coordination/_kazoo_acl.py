"""Reading and setting ACLs by kazoo. Part of the facade ``_kazoo.py``: no kazoo type leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kazoo.client import KazooClient  # noqa: TID253  # part of the facade
from kazoo.exceptions import InvalidACLError, NoAuthError, NoNodeError  # noqa: TID253  # as above
from kazoo.security import OPEN_ACL_UNSAFE  # noqa: TID253  # as above

from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.acls import NodeAcl, Permission
from airflow_provider_ha.errors import ConfigurationError


class KazooAcls:
    """The ACLs that one session can see and set; see :class:`~airflow_provider_ha.coordination.acls.AclSession`.

    :param coordinator: The session; stays its owner's.
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
        """Set the ACLs of nodes; leave a node that was removed or set by another client to the next pass.

        :raises ConfigurationError: The servers do not know the scheme of these credentials.
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
