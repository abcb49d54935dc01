"""Znodes of a cluster or a job: export, wrong ACLs, and rebuild from storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from airflow_provider_ha.api.documents.view import View
from airflow_provider_ha.jobs.model import JobState


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.rebuild.rebuild import RebuildPlan, RebuildResult


class WrongAclView(View):
    """One node whose ACL differs.

    :param path: The node.
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


class RebuiltJobView(View):
    """The tree of a job after the rebuild.

    :param runs: Run -> its state after the rebuild; ``LOST`` for the run that can be recovered.
    :param recoverable: Whether the newest run has to be recovered.
    :param checkpoints: Numbers of its checkpoints.
    :param savepoints: Ids of its savepoints.
    :param missing: Paths of the nodes that have to be made.
    :param kept: Paths of nodes that exist and differ from what storage says: they stay.
    """

    job_id: str
    runs: dict[int, JobState]
    recoverable: bool
    checkpoints: tuple[int, ...]
    savepoints: tuple[str, ...]
    counter: int
    highest_epoch: int
    missing: tuple[str, ...]
    kept: tuple[str, ...]
    problems: tuple[str, ...]


class RebuildResultView(View):
    """The changes that were made for a job."""

    job_id: str
    created: tuple[str, ...]
    kept: tuple[str, ...]
    epoch: int | None
    refused: str


class RebuildView(View):
    """A plan to make ZooKeeper's tree again, and the changes that were made.

    :param present: Jobs that ZooKeeper knows already.
    :param jobs: Jobs that storage knows.
    :param applied: The changes for each; empty without ``--yes``.
    """

    present: tuple[str, ...]
    jobs: tuple[RebuiltJobView, ...]
    applied: tuple[RebuildResultView, ...]


def rebuild_view(plan: RebuildPlan, applied: Sequence[RebuildResult]) -> RebuildView:
    """Return the plan, and the changes that were made."""
    jobs = [
        RebuiltJobView.of(
            job,
            runs=job.states,
            recoverable=job.pointer is not None,
            missing=plan.missing[job.job_id],
            kept=plan.kept[job.job_id],
        )
        for job in plan.jobs
    ]
    return RebuildView.of(plan, jobs=jobs, applied=applied)


_ONLY_WHERE_THERE = ("kind", "record", "text", "undecodable")


class NodeView(View):
    """One znode.

    :param path: Its path.
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
