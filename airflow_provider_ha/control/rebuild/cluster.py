"""All jobs of a cluster at once: what would be made, and making it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.rebuild.apply import Applied, apply_job, compare
from airflow_provider_ha.control.rebuild.evidence import find_jobs, gather
from airflow_provider_ha.control.rebuild.plan import JobPlan, plan_job
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.cluster_roots import RootsOfCluster
from airflow_provider_ha.jobs.deleted import read_life
from airflow_provider_ha.jobs.jobs import list_jobs
from airflow_provider_ha.storage.store import ObjectStore


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """What a rebuild would do.

    :param jobs: Every job that storage knows.
    :param present: Jobs that ZooKeeper has already.
    :param missing: Job -> paths that would be made.
    :param kept: Job -> paths that are there with other content, and would be left as they are.
    """

    jobs: tuple[JobPlan, ...]
    present: tuple[str, ...]
    missing: dict[str, tuple[str, ...]]
    kept: dict[str, tuple[str, ...]]


def plan_rebuild(config: HaConfig, store: ObjectStore, coordinator: Coordinator) -> RebuildPlan:
    """Read storage and ZooKeeper, and change nothing.

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
) -> tuple[Applied, ...]:
    """Make the tree of *plan*.

    :param missing_only: Whether to go on when ZooKeeper knows jobs already, and make only what they lack.
    :raises JobStateError: ZooKeeper knows jobs already and *missing_only* is not set.
    :raises ConfigurationError, StorageUnavailableError: The roots are those of another cluster, or not mounted.
    """
    if plan.present and not missing_only:
        raise JobStateError(
            f"cluster {config.cluster_id!r} is not empty: ZooKeeper knows {', '.join(plan.present)}",
            next_step="Check whether this is the ensemble that lost its data; to make only what is missing, "
            "add --missing",
        )
    if (roots := RootsOfCluster(config, coordinator)).marked():
        roots.settle()
    paths = ClusterPaths(config.root, config.cluster_id)
    return tuple(_rebuilt(coordinator, paths, job) for job in plan.jobs)


def _rebuilt(coordinator: Coordinator, paths: ClusterPaths, job: JobPlan) -> Applied:
    """One job that is in use does not keep the others from being rebuilt."""
    if read_life(coordinator, paths.job(job.job_id)).deleted is not None:
        return Applied(job.job_id, refused=f"job {job.job_id!r} was deleted: what storage has of it is what stays")
    try:
        done = apply_job(coordinator, paths.job(job.job_id), job)
    except JobStateError as error:
        log.warning("job %s is not rebuilt: %s", job.job_id, error)
        return Applied(job.job_id, refused=str(error))
    log.info("job %s is rebuilt: %d nodes, epoch %d", job.job_id, len(done.created), done.epoch)
    return done
