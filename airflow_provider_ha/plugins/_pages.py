"""Read-only pages: the list of jobs, and one job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID
from airflow_provider_ha.plugins._bring_back import returns
from airflow_provider_ha.plugins._charts import charts_of
from airflow_provider_ha.plugins._clusters import Clusters, MissingConnectionError
from airflow_provider_ha.plugins._job_page import SHOWN, Known, Stored, read_known, read_stored, shown_job
from airflow_provider_ha.plugins._listing import read_page
from airflow_provider_ha.plugins._offers import menu_of, offers
from airflow_provider_ha.plugins._rendering import render
from airflow_provider_ha.plugins._safety import Seen, safety_of
from airflow_provider_ha.plugins._security import FORBIDDEN, PermissionsDep, SeenJobDep, visible_jobs
from airflow_provider_ha.plugins._timeline import Axis, Span, axis_of, fitting, timeline, verdicts_of
from airflow_provider_ha.views.overview import ATTENTION, STATES, Asked, OverviewView, SortKey


router = APIRouter()
SEE_OTHER = 303
_ALL_JOBS_SECONDS = 20.0  # for thousands of jobs, on a busy machine
Cluster = Annotated[str, Query(max_length=250)]


def _clusters(request: Request) -> Clusters:
    found: Clusters = request.app.state.clusters
    return found


ClustersDep = Annotated[Clusters, Depends(_clusters)]


@router.get("/")
def jobs(  # noqa: PLR0917  # the parts of the address
    request: Request,
    clusters: ClustersDep,
    allowed: PermissionsDep,
    cluster: Cluster = "",
    q: Annotated[str, Query(max_length=128)] = "",
    state: Annotated[str, Query(max_length=32)] = "",
    sort: SortKey = SortKey.URGENCY,
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
    dag: Annotated[str, Query(max_length=250)] = "",
) -> Response:
    """List the jobs of a cluster that the user may see; with *dag* those that belong to it.

    Without *cluster* it is the default one, or the first of the others if Airflow has no default connection. A user
    without
    permission for every job sees only clusters with a visible job.
    """
    chosen, sees_all = cluster or DEFAULT_CONN_ID, allowed.may_see(None)
    asked = Asked(search=q.strip(), state=state if state in {*STATES, ATTENTION} else "", sort=sort, page=page)

    def seen(name: str) -> list[str]:
        def read() -> list[str]:
            with clusters.client(name) as client:
                return visible_jobs(client, allowed, dag)

        found: list[str] = clusters.zookeeper(name).call(read)  # short: shows whether it answers
        return found

    try:
        job_ids = seen(chosen)
    except ConfigurationError as error:
        if isinstance(error, MissingConnectionError) and not cluster:
            others = [name for name in clusters.names() if name != DEFAULT_CONN_ID]
            if other := next((name for name in others if sees_all or _has_any(seen, name)), None):
                wanted = {"cluster": other, **({"dag": dag} if dag else {})}
                return RedirectResponse(f"?{urlencode(wanted)}", SEE_OTHER)
        if not sees_all:
            raise HTTPException(FORBIDDEN) from None
        raise
    if not (job_ids or sees_all or chosen == DEFAULT_CONN_ID):
        raise HTTPException(FORBIDDEN)

    def read() -> OverviewView:
        with clusters.client(chosen) as client:
            return read_page(client, asked, job_ids)

    return render(
        request,
        "jobs.html",
        cluster=chosen,
        clusters=clusters.names() if sees_all else [chosen],
        shown=clusters.zookeeper(chosen).call(read, seconds=_ALL_JOBS_SECONDS),
        asked=asked,
        dag=dag,
        states=STATES,
        now=SystemClock().now(),
    )


def _has_any(seen: Callable[[str], list[str]], name: str) -> bool:
    try:
        return bool(seen(name))
    except HaError:
        return False


@router.get("/jobs/{job_id}")  # noqa: FAST003  # seen_job takes it
def job(  # noqa: PLR0917  # the parts of the address
    request: Request,
    clusters: ClustersDep,
    seen: SeenJobDep,
    cluster: Cluster = DEFAULT_CONN_ID,
    span: Span | None = None,
    run: Annotated[int | None, Query(ge=1, le=2_000_000_000)] = None,
) -> Response:
    """Show a job, with its buttons; *run* is that of the task that linked here."""

    def read() -> Known:
        with clusters.client(cluster) as client:
            return read_known(client, seen.snapshot)

    known = clusters.zookeeper(cluster).call(read)
    span = span or fitting(known.history, now=known.now)
    axis = axis_of(span, known.history, now=known.now)
    stored = _stored(clusters, cluster, known, axis)
    verdicts = verdicts_of(stored.plan.value)
    shown, checkpoints = shown_job(known, stored.options.value), known.checkpoints.checkpoints
    marked = known.checkpoints.checkpoints[:SHOWN], known.savepoints.savepoints[:SHOWN]
    return render(
        request,
        "job.html",
        cluster=cluster,
        job=shown,
        safety=safety_of(
            Seen(
                job=shown,
                quarantine=known.quarantine,
                newest=checkpoints[0] if checkpoints else None,
                verification=stored.verification,
                drills=stored.drills,
            )
        ),
        known=known,
        stored=stored,
        span=span,
        run=run,
        spans=list(Span),
        timeline=timeline(axis, known.history, *marked, verdicts=verdicts),
        verdicts=verdicts,
        most=SHOWN,
        charts=charts_of(axis, stored.progress.value or ()),
        now=known.now,
        menu=menu_of(
            [
                *offers(known.snapshot, known.quarantine or None),
                *returns(known.snapshot, known.quarantine or None),
            ],
            "QUARANTINED" if known.quarantine else shown.state,
        ),
        may_act=seen.permissions.may_act(seen.owner),
        may_read_log=seen.permissions.may_read_log(seen.owner),
    )


def _stored(clusters: Clusters, cluster: str, known: Known, axis: Axis) -> Stored:
    with clusters.client(cluster) as client:
        return read_stored(client, clusters.storage(cluster), known, since=axis.begin)
