"""Tabs of a DAG run and of a task instance, with the jobs that their tasks have reported.

With one job the tab is that job's page, with several their list, and with none the reason. The page of a job itself
checks whether its user may see it.

Invariant: an XCom is a text of the DAG's author. It determines which job to read, but only the job itself determines
whether the user may see it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from fastapi import APIRouter, HTTPException, Path, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import select

from airflow_provider_ha.airflow_side.links import XCOM_KEY, SparkHaJobLink
from airflow_provider_ha.airflow_side.page.clusters import Clusters
from airflow_provider_ha.airflow_side.page.rendering import render, root_of
from airflow_provider_ha.airflow_side.page.security import Permissions, VisibleDag, VisibleDagDep, owner_of
from airflow_provider_ha.airflow_side.page_urls import job_of
from airflow_provider_ha.api.documents.overview import OverviewRow, overview_row
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.errors import ConfigurationError, HaError, UnknownJobError
from airflow_provider_ha.fleet.fleet_overview import JobDetail, read_details
from airflow_provider_ha.names import check_job_id


_MOST_XCOMS = 1000  # XComs: a mapped task has two per instance
_LONGEST = 250  # characters of a connection's id
_OVER = {"success", "failed"}


@dataclass(frozen=True, slots=True)
class ReportedValue:
    """Content of an XCom.

    :param cluster: Connection of the job's cluster.
    :param run: Run of the task; ``None`` if missing.
    """

    task: str
    cluster: str
    job_id: str
    run: int | None = None


@dataclass(frozen=True, slots=True)
class ReportedJob:
    """Job of a DAG run, or of a task instance.

    :param tasks: Tasks that reported it, in order.
    :param run: Newest reported run; ``None`` without one.
    """

    cluster: str
    job_id: str
    tasks: tuple[str, ...]
    run: int | None = None


def read_reported_jobs(
    dag_id: str, run_id: str, task_id: str | None = None, map_index: int | None = None
) -> tuple[list[ReportedJob], bool] | None:
    """Return the jobs, and whether more may follow; ``None`` if the DAG run does not exist.

    :param task_id: Only jobs of this task; of all tasks by default.
    :param map_index: Only jobs of this instance of the task.
    """
    link = SparkHaJobLink().xcom_key
    query = (
        select(XComModel.task_id, XComModel.map_index, XComModel.key, XComModel.value)
        .where(XComModel.dag_id == dag_id, XComModel.run_id == run_id, XComModel.key.in_((XCOM_KEY, link)))
        .order_by(XComModel.timestamp)
        .limit(_MOST_XCOMS)
    )
    if task_id is not None:
        query = query.where(XComModel.task_id == task_id, XComModel.map_index == map_index)
    with create_session() as session:
        state = session.scalars(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)).first()
        rows = session.execute(query).all()
    if state is None:
        return None
    found = [
        told
        for row in rows
        if (told := reported_value(_name(row.task_id, row.map_index), plain_value(row.value))) is not None
    ]
    return reported_jobs(found), str(getattr(state, "value", state)) not in _OVER


def plain_value(stored: Any) -> Any:
    """Return the content of an XCom, as plain JSON.

    Airflow's own deserialization creates objects of classes that the text names; its pages avoid that too.

    :param stored: The column: the value itself, or its JSON text, as some writers store it.
    """
    if not isinstance(stored, str):
        return stored
    try:
        return json.loads(stored)
    except (ValueError, RecursionError):
        return stored


def reported_value(task: str, value: Any) -> ReportedValue | None:
    """Return the content of a task's XCom: a link, or the run; ``None`` for other values."""
    cluster: Any
    job_id: Any
    run: Any = None
    if isinstance(value, str):
        cluster, job_id = job_of(value) or ("", "")
    elif isinstance(value, dict):
        cluster, job_id, run = value.get("conn_id"), value.get("job_id"), value.get("run")
    else:
        return None
    if not isinstance(job_id, str) or not isinstance(cluster, str) or not 0 < len(cluster) <= _LONGEST:
        return None
    try:
        check_job_id(job_id)
    except ConfigurationError:
        return None
    return ReportedValue(task, cluster, job_id, run if type(run) is int and run > 0 else None)


def reported_jobs(told: Sequence[ReportedValue]) -> list[ReportedJob]:
    """Return each job once, in the order of the first report."""
    jobs: dict[tuple[str, str], list[ReportedValue]] = {}
    for each in told:
        jobs.setdefault((each.cluster, each.job_id), []).append(each)
    return [
        ReportedJob(
            cluster,
            job_id,
            tuple(dict.fromkeys(each.task for each in of_job)),
            max(_runs(of_job), default=None),
        )
        for (cluster, job_id), of_job in jobs.items()
    ]


def _runs(told: Iterable[ReportedValue]) -> list[int]:
    return [each.run for each in told if each.run is not None]


def _name(task_id: str, map_index: int) -> str:
    return task_id if map_index < 0 else f"{task_id} [{map_index}]"


router = APIRouter(prefix="/dag-runs/{dag_id}/{run_id}")
RunId = Annotated[str, Path(max_length=250)]
TaskId = Annotated[str, Path(max_length=250)]
SEE_OTHER, NOT_FOUND = 303, 404
REFRESH_SECONDS = 5  # while more jobs may be reported
_MOST = 100  # jobs in a tab
_INDEX = re.compile(r"\d{1,9}")


@dataclass(frozen=True, slots=True)
class TabRow:
    """Job that the user may see.

    :param row: Row as in the list; ``None`` if the cluster is unreadable, or has removed the job.
    :param problem: Reason why the row is missing.
    """

    told: ReportedJob
    row: OverviewRow | None = None
    problem: str = ""


@router.get("")
def dag_run(request: Request, dag: VisibleDagDep, run_id: RunId) -> Response:
    """Redirect to the job of a DAG run, or list its jobs."""
    return _tab(request, dag, run_id)


@router.get("/tasks/{task_id}/{map_index}")
def task_instance(
    request: Request,
    dag: VisibleDagDep,
    run_id: RunId,
    task_id: TaskId,
    map_index: Annotated[str, Path(max_length=20)],
) -> Response:
    """Redirect to the job of a task instance. Without mapping, Airflow leaves its placeholder as the map index."""
    return _tab(request, dag, run_id, task_id, int(map_index) if _INDEX.fullmatch(map_index) else -1)


def _tab(request: Request, dag: VisibleDag, run_id: str, task_id: str | None = None, map_index: int = -1) -> Response:
    found = read_reported_jobs(dag.dag_id, run_id, task_id, map_index)
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


def _address(job: ReportedJob) -> str:
    asked = {"cluster": job.cluster, **({"run": job.run} if job.run is not None else {})}
    return f"jobs/{quote(job.job_id, safe='')}?{urlencode(asked)}"


def _rows(clusters: Clusters, allowed: Permissions, jobs: list[ReportedJob]) -> list[TabRow]:
    """Return the jobs that the user may see, in their order."""
    shown: dict[ReportedJob, TabRow] = {}
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


def _details(clusters: Clusters, cluster: str, job_ids: list[str]) -> list[JobDetail]:
    def read() -> list[JobDetail]:
        with clusters.client(cluster) as client:
            return read_details(client.coordinator, client.paths, job_ids)

    return clusters.zookeeper(cluster).call(read)
