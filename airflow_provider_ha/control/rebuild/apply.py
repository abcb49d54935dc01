"""Makes the nodes of a plan. Never overwrites one, and never touches a job with a leader.

The one exception is an intruder: a run that was made into an empty tree under a number that storage knows another run
of. Its nodes give way to those of the first one.

Order, so that a crash in between leaves nothing that could be taken for a whole job: the epoch first (from then on no
leader of before can write), the records second, the graph pointer last, in one transaction with one more epoch. That
epoch is newer than the submissions, so a run that had not ended reads as LOST at once, and ``recover`` takes it up.

Every transaction checks the version of the epoch node: a leader that comes up first makes it fail, and is left
alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_provider_ha.control.rebuild.plan import JobPlan, PlannedNode
from airflow_provider_ha.coordination.coordinator import Check, Coordinator, Create, Delete, SetData
from airflow_provider_ha.coordination.counter import counter_op, read_counter
from airflow_provider_ha.coordination.epochs import raise_epoch
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.node_names import node_numbers
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import (
    JobStateError,
    NodeExistsError,
    NodeMissingError,
    VersionConflictError,
)


REBUILT = b"rebuilt"  # in place of the attempt id that an acquisition writes: it belongs to no process
_OPS_PER_TRANSACTION = 4000  # far below what one transaction may hold, 1 MB
_BYTES_PER_TRANSACTION = 500_000


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done for a job.

    :param created: Paths of the nodes that were made.
    :param kept: Paths of nodes that exist and differ from what storage says: left as they are.
    :param epoch: Epoch of the job now; ``None`` if the rebuild changed nothing.
    :param refused: Why nothing, or not everything, was done; empty when it was.
    """

    job_id: str
    created: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    epoch: int | None = None
    refused: str = ""


def compare(coordinator: Coordinator, plan: JobPlan) -> tuple[list[PlannedNode], list[str]]:
    """Return the nodes of *plan* that are missing, and the paths of those that hold something else."""
    missing, other = [], []
    for node in plan.nodes:
        found = coordinator.find(node.path)
        if found is None:
            missing.append(node)
        elif node.data and found.data != node.data:
            other.append(node.path)
    return missing, other


def apply_job(coordinator: Coordinator, paths: JobPaths, plan: JobPlan) -> Applied:
    """Make what is missing of a job's tree. Can be repeated: what is there is left alone.

    :raises JobStateError: The job has a leader, or another process has changed it.
    :raises OutcomeUnknownError: ZooKeeper did not answer: do it again.
    """
    try:
        return _apply(coordinator, paths, plan)
    except (NodeExistsError, NodeMissingError, VersionConflictError) as error:
        raise JobStateError(
            f"job {plan.job_id!r} was changed while it was rebuilt ({error.message})",
            next_step="Check what uses the job; then rebuild what is still missing",
        ) from error


def _apply(coordinator: Coordinator, paths: JobPaths, plan: JobPlan) -> Applied:
    if coordinator.find(paths.leader) is not None:
        raise JobStateError(
            f"job {plan.job_id!r} has a leader: nothing of it is touched",
            next_step="Stop or cancel the job first, then rebuild what is missing",
        )
    epoch, made = raise_epoch(coordinator, paths, lowest=plan.highest_epoch, to=plan.epoch, by=REBUILT)
    created = list(made)
    _remove_intruders(coordinator, paths, plan, epoch)
    missing, other = compare(coordinator, plan)
    for part in _parts(missing):
        coordinator.commit(Check(paths.epoch, epoch), *(Create(node.path, node.data) for node in part))
        created += [node.path for node in part]
    created += _raise_counter(coordinator, paths, plan, epoch)
    if _pointer_is_missing(coordinator, paths, plan) and plan.pointer is not None:
        (_, epoch) = coordinator.commit(
            Create(plan.pointer.path, plan.pointer.data), SetData(paths.epoch, REBUILT, epoch)
        )
        created.append(plan.pointer.path)
    return Applied(plan.job_id, tuple(created), tuple(other), epoch)


def _remove_intruders(coordinator: Coordinator, paths: JobPaths, plan: JobPlan, epoch: int) -> None:
    """Remove the runs of a later life, and what the job's own nodes say about them, in one transaction."""
    numbers = node_numbers(coordinator.children(paths.runs), parent=paths.runs)
    runs = [coordinator.find(paths.run(number)) for number in numbers]
    theirs = [node.path for node in runs if node is not None and node.data in plan.intruders]
    if not theirs:
        return
    doomed = [path for run in theirs for path in _below(coordinator, run)]
    doomed += [path for path in (paths.generation, paths.status, paths.job_graph) if coordinator.find(path) is not None]
    coordinator.commit(Check(paths.epoch, epoch), *map(Delete, doomed))


def _below(coordinator: Coordinator, path: str) -> Iterator[str]:
    """Yield what lies below a node, and the node itself, children first."""
    for name in coordinator.children(path):
        yield from _below(coordinator, f"{path}/{name}")
    yield path


def _raise_counter(coordinator: Coordinator, paths: JobPaths, plan: JobPlan, epoch: int) -> list[str]:
    if plan.counter <= read_counter(coordinator, paths.checkpoint_id_counter):
        return []
    node: Node | None = coordinator.find(paths.checkpoint_id_counter)
    coordinator.commit(Check(paths.epoch, epoch), counter_op(paths.checkpoint_id_counter, node, plan.counter))
    return [paths.checkpoint_id_counter]


def _pointer_is_missing(coordinator: Coordinator, paths: JobPaths, plan: JobPlan) -> bool:
    """Whether the newest run has no result and no pointer: only a loss leaves such a run behind."""
    if plan.pointer is None or coordinator.find(plan.pointer.path) is not None:
        return False
    newest = max(node_numbers(coordinator.children(paths.runs), parent=paths.runs), default=0)
    return newest == max(plan.states) and coordinator.find(paths.run_result(newest)) is None


def _parts(nodes: Sequence[PlannedNode]) -> Iterator[list[PlannedNode]]:
    """Yield *nodes* in portions that a transaction can hold."""
    part: list[PlannedNode] = []
    size = 0
    for node in nodes:
        weight = len(node.path) + len(node.data)
        if part and (size + weight > _BYTES_PER_TRANSACTION or len(part) >= _OPS_PER_TRANSACTION):
            yield part
            part, size = [], 0
        part.append(node)
        size += weight
    if part:
        yield part
