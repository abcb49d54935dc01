"""Application that Airflow mounts, with the read-only pages: the list of jobs, and a single job.

Invariant: every route authenticates the user, even one whose router omits it, because the application itself depends on
authentication. There is no page with an API description.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated
from urllib.parse import urlencode

from airflow.api_fastapi.core_api.security import get_user
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse

from airflow_provider_ha.airflow_side.page import actions, driver_logs, recovery_pages, tabs
from airflow_provider_ha.airflow_side.page.buttons import menu_of, offers
from airflow_provider_ha.airflow_side.page.charts import (
    Axis,
    TimeSpan,
    axis_of,
    charts_of,
    fitting,
    timeline,
    verdicts_of,
)
from airflow_provider_ha.airflow_side.page.clusters import Clusters, MissingConnectionError
from airflow_provider_ha.airflow_side.page.job_data import (
    SHOWN,
    LiveJobData,
    SafetyFacts,
    StoredJobData,
    read_live_data,
    read_stored_data,
    safety_of,
)
from airflow_provider_ha.airflow_side.page.recovery import recovery_buttons
from airflow_provider_ha.airflow_side.page.rendering import SECURITY_HEADERS, add_error_pages, render, static_files
from airflow_provider_ha.airflow_side.page.security import (
    FORBIDDEN,
    PermissionsDep,
    VisibleJobDep,
    check_protection,
    visible_jobs,
)
from airflow_provider_ha.api.documents.job import job_view, standbys_view
from airflow_provider_ha.api.documents.overview import (
    ATTENTION,
    DAY,
    STATES,
    OverviewQuery,
    OverviewView,
    SortKey,
    choose,
    on_page,
    overview,
    overview_row,
    pages_of,
)
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.fleet.fleet_overview import checkpoint_times, read_details, read_states, restarts_since
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID
from airflow_provider_ha.jobs.condition import decide


def read_page(client: HaClient, asked: OverviewQuery, job_ids: Sequence[str]) -> OverviewView:
    """Return a page of the list: the state of all jobs, and complete data for the jobs of the page.

    :param job_ids: Jobs that the user may see.
    :raises NotConnectedError: ZooKeeper could not be read.
    """
    coordinator, paths, now = client.coordinator, client.paths, client.clock.now()
    since = now - DAY
    jobs = read_states(coordinator, paths, job_ids, now=now)
    found = choose(
        jobs,
        asked,
        now=now,
        checkpoints=checkpoint_times(coordinator, paths, job_ids) if asked.sort is SortKey.CHECKPOINT else None,
        restarts=restarts_since(coordinator, paths, job_ids, since) if asked.sort is SortKey.RESTARTS else None,
    )
    page = min(asked.page, pages_of(len(found)))
    details = read_details(coordinator, paths, found[on_page(page)], since=since)
    return overview(jobs, len(found), [overview_row(detail, now=now) for detail in details], page, now=now)


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
    """List the jobs of a cluster that the user may see; with *dag* only the jobs of that DAG.

    Without *cluster*, the list is of the default cluster, or of the first other one if Airflow has no default
    connection. A user without permission for every job sees only clusters with a visible job.
    """
    chosen, sees_all = cluster or DEFAULT_CONN_ID, allowed.may_see(None)
    asked = OverviewQuery(search=q.strip(), state=state if state in {*STATES, ATTENTION} else "", sort=sort, page=page)

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
    seen: VisibleJobDep,
    cluster: Cluster = DEFAULT_CONN_ID,
    span: TimeSpan | None = None,
    run: Annotated[int | None, Query(ge=1, le=2_000_000_000)] = None,
) -> Response:
    """Show a job with its buttons; *run* is the run of the task that linked here."""

    def read() -> LiveJobData:
        with clusters.client(cluster) as client:
            return read_live_data(client, seen.snapshot)

    known = clusters.zookeeper(cluster).call(read)
    span = span or fitting(known.history, now=known.now)
    axis = axis_of(span, known.history, now=known.now)
    stored = _stored(clusters, cluster, known, axis)
    verdicts = verdicts_of(stored.plan.value)
    found = decide(known.snapshot, stored.options.value, known.now)
    standbys = standbys_view(known.snapshot, stored.options.value, known.standbys)
    shown = job_view(known.snapshot, found, known.watching, known.moved, standbys)
    checkpoints = known.checkpoints.checkpoints
    marked = known.checkpoints.checkpoints[:SHOWN], known.savepoints.savepoints[:SHOWN]
    return render(
        request,
        "job.html",
        cluster=cluster,
        job=shown,
        safety=safety_of(
            SafetyFacts(
                job=shown,
                condition=found,
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
        spans=list(TimeSpan),
        timeline=timeline(axis, known.history, *marked, verdicts=verdicts),
        verdicts=verdicts,
        most=SHOWN,
        charts=charts_of(axis, stored.progress.value or ()),
        now=known.now,
        menu=menu_of(
            [
                *offers(known.snapshot, known.quarantine or None),
                *recovery_buttons(known.snapshot, known.quarantine or None),
            ],
            "QUARANTINED" if known.quarantine else shown.state,
        ),
        may_act=seen.permissions.may_act(seen.owner),
        may_read_log=seen.permissions.may_read_log(seen.owner),
    )


def _stored(clusters: Clusters, cluster: str, known: LiveJobData, axis: Axis) -> StoredJobData:
    with clusters.client(cluster) as client:
        return read_stored_data(client, clusters.storage(cluster), known, since=axis.begin)


_KEPT = "private, max-age=31536000, immutable"  # its address has the digest of its content


def create_app(clusters: Clusters | None = None) -> FastAPI:
    """Return the application.

    :param clusters: Clusters to show; by default the connections of this Airflow.
    """
    app = FastAPI(
        title="Spark HA",
        dependencies=[Depends(get_user)],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.clusters = clusters or Clusters()
    app.include_router(router)
    app.include_router(actions.router)
    app.include_router(recovery_pages.router)
    app.include_router(driver_logs.router)
    app.include_router(tabs.router)
    app.add_api_route("/static/{name}", _static, methods=["GET"])
    app.middleware("http")(_with_headers)
    add_error_pages(app)
    check_protection(app)
    return app


def _static(name: str) -> Response:
    found = static_files().get(name)
    if found is None:
        raise HTTPException(404)
    return Response(found.content, media_type=found.media_type, headers={"Cache-Control": _KEPT})


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers.update(SECURITY_HEADERS)
    return response
