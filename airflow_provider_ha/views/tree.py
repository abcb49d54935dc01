"""The znodes of a cluster or of a job, as an export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.control.administration.tree import TreeNode


_ONLY_WHERE_THERE = ("kind", "record", "text", "undecodable")


class NodeView(View):
    """One znode.

    :param path: Its path.
    :param version: How often it was set; of an ``epoch`` node this is the epoch.
    :param modified_zxid: ZooKeeper transaction that set it last.
    :param ephemeral_owner: Session that it belongs to; 0 for a persistent one.
    :param size: Bytes that it holds.
    :param sha256: Digest of the bytes.
    :param kind: Kind of its record; left out when it holds none.
    :param record: The fields of the record; left out when it holds none.
    :param text: The content of a node without a record: a number, a time; left out otherwise.
    :param undecodable: Why it could not be decoded; left out when it could.
    :param children: The nodes below it.
    """

    path: str
    version: int
    modified_zxid: int
    ephemeral_owner: int
    size: int
    sha256: str
    kind: str
    record: dict[str, Any] | None
    text: str | None
    undecodable: str
    children: tuple[NodeView, ...]

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value or name not in _ONLY_WHERE_THERE}


class TreeView(View):
    """A node and everything below it.

    :param root: Path of the node.
    :param tree: The node; ``null`` when it does not exist.
    """

    root: str
    tree: NodeView | None


def tree_view(root: str, tree: TreeNode | None) -> TreeView:
    """Return the nodes below *root*."""
    return TreeView(root=root, tree=NodeView.of(tree) if tree is not None else None)
