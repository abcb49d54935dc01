"""Which jobs a cluster has, and how a job begins to exist."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.node_names import is_job, ours
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths


def list_jobs(
    coordinator: Coordinator, cluster_paths: ClusterPaths, *, watch: Callable[[], None] | None = None
) -> list[str]:
    """Return the ids of the cluster's jobs, sorted; empty when the cluster does not exist yet.

    :param watch: Called once or twice when there may be more or fewer.
    """
    known = ours(coordinator.children(cluster_paths.base, watch=watch), is_job, parent=cluster_paths.base)
    # After the jobs: one that is deleted between the two reads is gone in this answer.
    gone = set(coordinator.children(cluster_paths.deleted_jobs, watch=watch))
    return [job_id for job_id in known if job_id not in gone]


def list_deleted_jobs(coordinator: Coordinator, cluster_paths: ClusterPaths) -> list[str]:
    """Return the ids of the jobs that were deleted, or are being deleted, sorted."""
    return ours(coordinator.children(cluster_paths.deleted_jobs), is_job, parent=cluster_paths.deleted_jobs)


def create_job(coordinator: Coordinator, paths: JobPaths) -> None:
    """Make the parents of everything that the job will ever hold. Idempotent.

    A job without a run is harmless: nothing recovers it, and the next submission uses it.
    """
    coordinator.ensure(*paths.skeleton)
