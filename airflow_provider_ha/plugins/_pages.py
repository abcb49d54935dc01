"""The pages that show: the list of jobs. Nothing here changes anything."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID
from airflow_provider_ha.plugins._clusters import Clusters
from airflow_provider_ha.plugins._rendering import render
from airflow_provider_ha.views.job import JobListView, JobRow, job_list, job_row, unreadable_row


router = APIRouter()
Cluster = Annotated[str, Query(max_length=250)]


def _clusters(request: Request) -> Clusters:
    found: Clusters = request.app.state.clusters
    return found


ClustersDep = Annotated[Clusters, Depends(_clusters)]


@router.get("/")
def jobs(request: Request, clusters: ClustersDep, cluster: Cluster = DEFAULT_CONN_ID) -> Response:
    """List the jobs of a cluster."""

    def read() -> JobListView:
        with clusters.client(cluster) as client:
            return job_list([_row(client, job_id) for job_id in client.list_jobs()])

    shown = clusters.zookeeper.call(read)
    return render(request, "jobs.html", cluster=cluster, clusters=clusters.names(), shown=shown)


def _row(client: HaClient, job_id: str) -> JobRow:
    try:
        return job_row(client.job(job_id).snapshot())
    except HaError as error:
        return unreadable_row(job_id, error)
