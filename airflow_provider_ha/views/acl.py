"""Nodes in ZooKeeper whose protection differs from what the credentials give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.coordination.acls import AclReport


class WrongAclView(View):
    """One node whose ACL differs.

    :param path: The node.
    :param acl: Its ACL, without the hash of a password.
    :param refused: Whether the server refuses to read and to set it. The nodes below it are then unknown too.
    """

    path: str
    acl: str
    refused: bool


class AclsView(View):
    """The result of a check or a repair.

    :param nodes: How many nodes were read.
    :param found: Number of wrong nodes, before the repair.
    :param left: How many are still wrong.
    :param wrong: The nodes that are wrong, or were wrong before the repair.
    """

    nodes: int
    found: int
    left: int
    wrong: tuple[WrongAclView, ...]


def acls_view(report: AclReport) -> AclsView:
    """Return the result of a check or a repair."""
    wrong = tuple(WrongAclView.of(each) for each in report.wrong)
    return AclsView(nodes=report.nodes, found=len(wrong), left=report.left, wrong=wrong)
