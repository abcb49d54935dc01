"""Tabs of a DAG run and of a task instance, which link to the page of their job.

With one job the tab is that job's page, with several their list, and with none the reason. The page of a job checks
itself whether its user may see it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, HTTPException, Path, Request, Response
from fastapi.responses import RedirectResponse

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.control.administration.overview import Detail, read_details
from airflow_provider_ha.errors import HaError, UnknownJobError
from airflow_provider_ha.plugins._clusters import Clusters
from airflow_provider_ha.plugins._rendering import render, root_of
from airflow_provider_ha.plugins._security import Permissions, SeenDag, SeenDagDep, owner_of
from airflow_provider_ha.plugins._told_jobs import ToldJob, read_told
from airflow_provider_ha.views.overview import OverviewRow, overview_row


router = APIRouter(prefix="/dag-runs/{dag_id}/{run_id}")
RunId = Annotated[str, Path(max_length=250)]
TaskId = Annotated[str, Path(max_length=250)]
SEE_OTHER, NOT_FOUND = 303, 404
REFRESH_SECONDS = 5  # while a job may come
_MOST = 100  # jobs of one tab
_INDEX = re.compile(r"\d{1,9}")


@dataclass(frozen=True, slots=True)
class TabRow:
    """A job that the user may see.

    :param row: As in the list; ``None`` if its cluster cannot be read, or no longer has the job.
    :param problem: Why it is missing.
    """

    told: ToldJob
    row: OverviewRow | None = None
    problem: str = ""


@router.get("")
def dag_run(request: Request, dag: SeenDagDep, run_id: RunId) -> Response:
    """Redirect to the job of a DAG run, or list its jobs."""
    return _tab(request, dag, run_id)


@router.get("/tasks/{task_id}/{map_index}")
def task_instance(
    request: Request,
    dag: SeenDagDep,
    run_id: RunId,
    task_id: TaskId,
    map_index: Annotated[str, Path(max_length=20)],
) -> Response:
    """Redirect to the job of a task instance. Without mapping, Airflow leaves its placeholder as the map index."""
    return _tab(request, dag, run_id, task_id, int(map_index) if _INDEX.fullmatch(map_index) else -1)


def _tab(request: Request, dag: SeenDag, run_id: str, task_id: str | None = None, map_index: int = -1) -> Response:
    found = read_told(dag.dag_id, run_id, task_id, map_index)
    if found is None:
        raise HTTPException(NOT_FOUND, f"Airflow has no run {run_id} of DAG {dag.dag_id}, or it was deleted since")
    jobs, more_may_come = found
    if len(jobs) == 1:
        return RedirectResponse(root_of(request) + _address(jobs[0]), SEE_OTHER)
    shown = _rows(request.app.state.clusters, dag.permissions, jobs[:_MOST])
    response = render(
        request,
        "tab.html",
        dag_id=dag.dag_id,
        run_id=run_id,
        task_id=task_id,
        rows=shown,
        hidden=len(jobs) - len(shown),
        waits=not jobs and more_may_come,
        now=SystemClock().now(),
    )
    if not jobs and more_may_come:
        response.headers["Refresh"] = str(REFRESH_SECONDS)
    return response


def _address(job: ToldJob) -> str:
    asked = {"cluster": job.cluster, **({"run": job.run} if job.run is not None else {})}
    return f"jobs/{quote(job.job_id, safe='')}?{urlencode(asked)}"


def _rows(clusters: Clusters, allowed: Permissions, jobs: list[ToldJob]) -> list[TabRow]:
    """Return the jobs that the user may see, in their order."""
    shown: dict[ToldJob, TabRow] = {}
    for cluster in dict.fromkeys(job.cluster for job in jobs):
        here = [job for job in jobs if job.cluster == cluster]
        try:
            details = _details(clusters, cluster, [job.job_id for job in here])
        except HaError as error:
            shown.update({job: TabRow(job, problem=str(error)) for job in here if allowed.may_see(None)})
            continue
        for job, detail in zip(here, details, strict=True):
            owner = owner_of(detail.snapshot) if detail.snapshot is not None else None
            if allowed.may_see(owner) and isinstance(detail.error, UnknownJobError):
                shown[job] = TabRow(job, problem="It was removed from the cluster since")
            elif allowed.may_see(owner):
                shown[job] = TabRow(job, overview_row(detail, now=SystemClock().now()))
    return [shown[job] for job in jobs if job in shown]


def _details(clusters: Clusters, cluster: str, job_ids: list[str]) -> list[Detail]:
    def read() -> list[Detail]:
        with clusters.client(cluster) as client:
            return read_details(client.coordinator, client.paths, job_ids)

    return clusters.zookeeper(cluster).call(read)
