"""A job with a run, as the tests of its page need it."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.clusters.jobs_helpers import a_run, a_status, a_submission, lead


def job_maker(coordinator: Coordinator, cluster_paths: ClusterPaths, config: HaConfig) -> Callable[..., JobPaths]:
    """Return what makes a job with a live run, and if wanted a leader, and the run's graph in storage."""

    def make(job_id: str = "flights", *, owner: str | None = None, led: bool = True, stored: bool = False) -> JobPaths:
        paths = cluster_paths.job(job_id)
        create_job(coordinator, paths)
        runs = RunStore(coordinator, paths)
        run = a_run(1).model_copy(update={"owner": owner})
        if stored:
            graph = JobGraph(job_id=job_id, name="job", application=Artifact(name="app.py", blob=run.graph))
            sha256, size = put_blob(open_store(config), graph.to_bytes())
            run = run.model_copy(update={"graph": Blob(sha256=sha256, size=size)})
        coordinator.commit(runs.create_op(run), *runs.submission_ops(1, a_submission(1)))
        if led:
            leadership = lead(coordinator, paths, config)
            leadership.commit(Create(paths.status, a_status(epoch=leadership.epoch).to_bytes()))
        return paths

    return make
