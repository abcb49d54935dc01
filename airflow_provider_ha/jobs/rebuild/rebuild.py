"""Rebuild of the znodes of a job or a cluster from storage.

Invariant: existing nodes are never overwritten. The exception is an intruder: a run created in an empty tree under a
number that another run has in storage. The earlier run's nodes replace its own.

A crash must not leave a partial job that looks complete. So the epoch comes first (from then on earlier leaders cannot
write), the records second, and the graph pointer last, in one transaction with one more epoch. That epoch is newer than
the submissions, so a run that had not ended reads as LOST immediately, and ``recover`` restarts it. Every transaction
checks the version of the epoch node: if a leader starts first, the transaction fails and the leader is left alone.

A submission of a job known to storage only is refused: it would write the sources' rows to the sinks again, under
epochs and run numbers already used. If the user accepts a fresh start, the job's tree is rebuilt from storage first:
the new run continues its numbers, and the remains of the earlier life stay intact.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Check, Coordinator, Create, Delete, Node, SetData
from airflow_provider_ha.coordination.node_names import node_numbers
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.coordination.znode_records import counter_op, raise_epoch, read_counter
from airflow_provider_ha.errors import (
    JobStateError,
    NodeExistsError,
    NodeMissingError,
    VersionConflictError,
)
from airflow_provider_ha.jobs.cluster_roots import RootsOfCluster
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.observe import list_jobs
from airflow_provider_ha.jobs.rebuild.rebuild_plan import JobPlan, PlannedNode, plan_job
from airflow_provider_ha.jobs.rebuild.storage_evidence import find_jobs, gather
from airflow_provider_ha.jobs.removal.removal_records import read_life
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.open_storage import open_root, storage_uri


REBUILT = b"rebuilt"  # instead of an acquisition's attempt id: belongs to no process
_OPS_PER_TRANSACTION = 4000  # far below a transaction's limit of 1 MB
_BYTES_PER_TRANSACTION = 500_000


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """Result of the rebuild of a job.

    :param created: Paths of the created nodes.
    :param kept: Paths of existing nodes that differ from storage and were left unchanged.
    :param epoch: Current epoch of the job; ``None`` if the rebuild changed nothing.
    :param refused: Reason why the rebuild was refused or incomplete; empty after a complete one.
    """

    job_id: str
    created: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    epoch: int | None = None
    refused: str = ""


def compare(coordinator: Coordinator, plan: JobPlan) -> tuple[list[PlannedNode], list[str]]:
    """Return the missing nodes of *plan*, and the paths of nodes with other content."""
    missing, other = [], []
    for node in plan.nodes:
        found = coordinator.find(node.path)
        if found is None:
            missing.append(node)
        elif node.data and found.data != node.data:
            other.append(node.path)
    return missing, other


def apply_job(coordinator: Coordinator, paths: JobPaths, plan: JobPlan) -> RebuildResult:
    """Create the missing nodes of a job's tree. Repeatable: existing nodes are left unchanged.

    :raises JobStateError: The job has a leader, or another process has changed it.
    :raises OutcomeUnknownError: ZooKeeper did not answer; call again.
    """
    try:
        return _apply(coordinator, paths, plan)
    except (NodeExistsError, NodeMissingError, VersionConflictError) as error:
        raise JobStateError(
            f"job {plan.job_id!r} was changed while it was rebuilt ({error.message})",
            next_step="Find the process that uses the job, then rebuild the missing records",
        ) from error


def _apply(coordinator: Coordinator, paths: JobPaths, plan: JobPlan) -> RebuildResult:
    if coordinator.find(paths.leader) is not None:
        raise JobStateError(
            f"job {plan.job_id!r} has a leader, so it is not rebuilt",
            next_step="Stop or cancel the job first, then rebuild the missing records",
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
    return RebuildResult(plan.job_id, tuple(created), tuple(other), epoch)


def _remove_intruders(coordinator: Coordinator, paths: JobPaths, plan: JobPlan, epoch: int) -> None:
    """Remove the runs of a later life and the job's own nodes that refer to them, in one transaction."""
    numbers = node_numbers(coordinator.children(paths.runs), parent=paths.runs)
    runs = [coordinator.find(paths.run(number)) for number in numbers]
    theirs = [node.path for node in runs if node is not None and node.data in plan.intruders]
    if not theirs:
        return
    doomed = [path for run in theirs for path in _below(coordinator, run)]
    doomed += [path for path in (paths.generation, paths.status, paths.job_graph) if coordinator.find(path) is not None]
    coordinator.commit(Check(paths.epoch, epoch), *map(Delete, doomed))


def _below(coordinator: Coordinator, path: str) -> Iterator[str]:
    """Yield the paths of a node and its descendants, children first."""
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
    """Return whether the newest run has no result and no pointer: only a loss leaves such a run."""
    if plan.pointer is None or coordinator.find(plan.pointer.path) is not None:
        return False
    newest = max(node_numbers(coordinator.children(paths.runs), parent=paths.runs), default=0)
    return newest == max(plan.states) and coordinator.find(paths.run_result(newest)) is None


def _parts(nodes: Sequence[PlannedNode]) -> Iterator[list[PlannedNode]]:
    """Yield *nodes* in portions that fit into a transaction."""
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


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """Plan of a rebuild.

    :param jobs: Every job that storage knows.
    :param present: Jobs that ZooKeeper knows already.
    :param missing: Job -> paths to create.
    :param kept: Job -> existing paths with other content, which would be left unchanged.
    """

    jobs: tuple[JobPlan, ...]
    present: tuple[str, ...]
    missing: dict[str, tuple[str, ...]]
    kept: dict[str, tuple[str, ...]]


def plan_rebuild(config: HaConfig, store: ObjectStore, coordinator: Coordinator) -> RebuildPlan:
    """Read storage and ZooKeeper. Changes nothing.

    :raises StorageUnavailableError: Storage could not be read.
    """
    paths = ClusterPaths(config.root, config.cluster_id)
    plans = tuple(plan_job(gather(config, store, job), paths.job(job)) for job in find_jobs(config, store))
    missing, kept = {}, {}
    for plan in plans:
        job = paths.job(plan.job_id)
        absent, other = compare(coordinator, plan)
        names = [node.path for node in absent]
        names += [path for path in (job.lock, job.heartbeat, job.epoch) if coordinator.find(path) is None]
        if plan.counter and coordinator.find(job.checkpoint_id_counter) is None:
            names.append(job.checkpoint_id_counter)
        if plan.pointer is not None and coordinator.find(plan.pointer.path) is None:
            names.append(plan.pointer.path)
        missing[plan.job_id], kept[plan.job_id] = tuple(sorted(names)), tuple(other)
    return RebuildPlan(plans, tuple(list_jobs(coordinator, paths)), missing, kept)


def rebuild(
    config: HaConfig, coordinator: Coordinator, plan: RebuildPlan, *, missing_only: bool = False
) -> tuple[RebuildResult, ...]:
    """Create the tree of *plan*.

    :param missing_only: Whether to continue if ZooKeeper knows jobs already, and create only their missing nodes.
    :raises JobStateError: ZooKeeper knows jobs already and *missing_only* is not set.
    :raises ConfigurationError, StorageUnavailableError: The roots belong to another cluster, or are not mounted.
    """
    if plan.present and not missing_only:
        raise JobStateError(
            f"cluster {config.cluster_id!r} is not empty: ZooKeeper knows {', '.join(plan.present)}",
            next_step="Check whether this is the ensemble that lost its data; to create only missing nodes, "
            "add --missing",
        )
    if (roots := RootsOfCluster(config, coordinator)).marked():
        roots.settle()
    paths = ClusterPaths(config.root, config.cluster_id)
    return tuple(_rebuilt(coordinator, paths, job) for job in plan.jobs)


def _rebuilt(coordinator: Coordinator, paths: ClusterPaths, job: JobPlan) -> RebuildResult:
    """Rebuild a job; a job in use is only reported, and does not prevent the rebuild of others."""
    if read_life(coordinator, paths.job(job.job_id)).deleted is not None:
        return RebuildResult(job.job_id, refused=f"job {job.job_id!r} was deleted: its kept savepoints stay in storage")
    try:
        done = apply_job(coordinator, paths.job(job.job_id), job)
    except JobStateError as error:
        log.warning("job %s is not rebuilt: %s", job.job_id, error)
        return RebuildResult(job.job_id, refused=str(error))
    log.info("job %s is rebuilt: %d nodes, epoch %d", job.job_id, len(done.created), done.epoch)
    return done


def is_known_to_storage_only(job: JobContext) -> bool:
    """Return whether storage has a journal or working directories of a job, and ZooKeeper has no run.

    :raises StorageUnavailableError: Storage could not be read.
    """
    if job.runs.numbers() or read_life(job.coordinator, job.paths).deleted is not None:
        return False
    # The job's store would fail without a root, as before the first submission of a cluster, so open the root directly.
    storage = open_root(job.config, storage_uri(job.config))
    return next(iter(storage.list(job.keys.journals)), None) is not None or bool(job.area.list(job.keys.live))


def refuse_unknown(job: JobContext) -> None:
    """Refuse to act on a job known to storage only.

    :raises JobStateError: Only storage knows the job; the message has both remedies.
    """
    if is_known_to_storage_only(job):
        raise JobStateError(
            f"ZooKeeper knows no job {job.job_id!r} in cluster {job.config.cluster_id!r}, but storage has its files in "
            f"{storage_uri(job.config)}: a new run would repeat its work",
            next_step="Check the addresses and the root of ZooKeeper. If it has lost its data, `spark-ha cluster "
            'rebuild` recreates the job. To start without a checkpoint anyway: start_from="fresh", if_lost="restart", '
            "accept_verdicts=LOSS_POSSIBLE",
            options=("start_from", "if_lost", "accept_verdicts"),
        )


def rebuild_unknown(job: JobContext) -> None:
    """Rebuild the tree of a job known to storage only, so that a new run follows its earlier runs.

    :raises JobStateError: Another process changes the job.
    """
    plan = plan_job(gather(job.config, job.store, job.job_id), job.paths)
    for problem in plan.problems:
        log.warning("job %s: %s", job.job_id, problem)
    done = apply_job(job.coordinator, job.paths, plan)
    log.warning("job %s was known to storage only: %d nodes are recreated", job.job_id, len(done.created))
