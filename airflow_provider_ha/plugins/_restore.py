"""Pages of recovery and restore: the plan to decide from, the confirmation, and the resulting DAG run.

Invariants: the DAG receives exactly the shown parameters, which the form's token holds; a DAG run is shown only with
the job that it was requested for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from fastapi.responses import RedirectResponse

from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.control.administration.history import read_history
from airflow_provider_ha.control.job.requests import LATEST
from airflow_provider_ha.errors import HaError, JobStateError
from airflow_provider_ha.jobs.runs import refuse_other_run
from airflow_provider_ha.plugins._actions import ActingJobDep, CheckedFormDep, reason_of_quarantine
from airflow_provider_ha.plugins._bring_back import (
    ACCEPTABLE,
    TITLES,
    WHEN_LOST,
    Choice,
    Way,
    effects_on_sinks,
    if_lost_at_first,
    recover_conf,
    recovery_refused,
    restore_command,
    restore_conf,
    same_job,
    sources,
)
from airflow_provider_ha.plugins._brought_back import BroughtBack, brought_back
from airflow_provider_ha.plugins._dag_runs import dag_of, read_dag_run, refusal_of_dag, trigger
from airflow_provider_ha.plugins._forms import CheckedForm, Intent, token_of
from airflow_provider_ha.plugins._job_page import SHOWN
from airflow_provider_ha.plugins._rendering import render
from airflow_provider_ha.plugins._security import SeenJob, SeenJobDep
from airflow_provider_ha.views.checkpoints import CheckpointListView, checkpoint_list
from airflow_provider_ha.views.history import history_view
from airflow_provider_ha.views.plan import PlanView, plan_view
from airflow_provider_ha.views.savepoints import SavepointListView, savepoint_list


router = APIRouter(prefix="/jobs/{job_id}")
OperationId = Annotated[str, Path(max_length=100, pattern=r"^[\w-]+$")]
SEE_OTHER, NOT_FOUND, FORBIDDEN = 303, 404, 403
REFRESH_SECONDS = 2
PLAN_SECONDS = 60.0  # every state file of the chosen cut is read


@router.get("/restore")
def plan(
    request: Request,
    job: ActingJobDep,
    start_from: Annotated[str, Query(max_length=250)] = LATEST,
    accept: Annotated[list[Verdict] | None, Query(max_length=4)] = None,
    if_lost: Annotated[str | None, Query(pattern="^(restart|recover)?$")] = None,
) -> Response:
    """Show the effects of a restore, reasons to refuse it, and the button that requests it."""
    lost = if_lost_at_first(job.snapshot) if if_lost is None else if_lost
    choice = Choice(start_from.strip() or LATEST, tuple(accept or ()), lost)
    made, problem = _planned(request, job, choice)
    conf = restore_conf(job.cluster, job.job_id, job.run, choice, _source(made, choice), job.owner)
    of_dag = refusal_of_dag(Way.RESTORE, conf, job.permissions)
    carried_out = made is not None and made.refusal is None and of_dag is None
    checkpoints, savepoints = _kept(request, job)
    return render(
        request,
        "restore.html",
        job=job,
        choice=choice,
        sources=sources(checkpoints, savepoints),
        most=SHOWN,
        acceptable={verdict.value: meaning for verdict, meaning in ACCEPTABLE.items()},
        when_lost=WHEN_LOST,
        plan=made,
        problem=problem,
        of_dag=of_dag,
        dag_id=dag_of(Way.RESTORE),
        command=restore_command(job.job_id, choice, _source(made, choice), job.owner),
        token=_token(job, Way.RESTORE, conf) if carried_out else None,
    )


@router.get("/recover")
def confirm_recovery(request: Request, job: ActingJobDep) -> Response:
    """Show the effects of a recovery, with the button that requests it."""
    refused = recovery_refused(job.snapshot, reason_of_quarantine(request, job))
    conf = recover_conf(job.cluster, job.job_id, job.run)
    of_dag = refusal_of_dag(Way.RECOVER, conf, job.permissions)
    return render(
        request,
        "recover.html",
        job=job,
        refused=refused,
        outputs=effects_on_sinks(job.snapshot),
        of_dag=of_dag,
        dag_id=dag_of(Way.RECOVER),
        token=_token(job, Way.RECOVER, conf) if not refused and of_dag is None else None,
    )


@router.post("/restore")
def restore(job: ActingJobDep, form: CheckedFormDep) -> Response:
    """Create the DAG run that restores the shown plan, or find it again; then redirect to its outcome."""
    return _triggered(job, form, Way.RESTORE, refused="")


@router.post("/recover")
def recover(request: Request, job: ActingJobDep, form: CheckedFormDep) -> Response:
    """Create the DAG run that recovers the job, or find it again; then redirect to its outcome."""
    return _triggered(job, form, Way.RECOVER, recovery_refused(job.snapshot, reason_of_quarantine(request, job)))


@router.get("/{way}-runs/{operation_id}")
def outcome(request: Request, job: SeenJobDep, way: Way, operation_id: OperationId) -> Response:
    """Show the DAG run, then the run of the job; the page reloads until the outcome is final."""
    dag_id = dag_of(way)
    if not job.permissions.may_read_runs(dag_id):
        raise HTTPException(FORBIDDEN, f"This requires the permission to read the runs of DAG {dag_id}")
    found = read_dag_run(dag_id, operation_id)
    if found is None or not same_job(found.conf, job.cluster, job.job_id):
        raise HTTPException(NOT_FOUND, f"DAG {dag_id} has no run {operation_id} for job {job.job_id}")
    clusters = request.app.state.clusters

    def read() -> BroughtBack:
        with clusters.client(job.cluster) as client:
            history = history_view(read_history(client.coordinator, client.paths.job(job.job_id)))
            checkpoints = checkpoint_list(job.job_id, client.job(job.job_id).checkpoints.list())
            leader, status = job.snapshot.leader, job.snapshot.status
            told = leader is not None and status is not None and status.epoch == leader.epoch
            return brought_back(
                found.state,
                found.failed_tasks,
                found.requests,
                history,
                checkpoints,
                way=way,
                asked_at=found.asked_at,
                replayed=sum(each.replayed for each in status.queries.values()) if told and status else None,
            )

    made: BroughtBack = clusters.zookeeper(job.cluster).call(read)
    response = render(request, "brought_back.html", job=job, title=TITLES[way], dag_run=found, made=made)
    if not made.final:
        response.headers["Refresh"] = str(REFRESH_SECONDS)
    return response


def _triggered(job: SeenJob, form: CheckedForm, way: Way, refused: str) -> Response:
    dag_id, run_id, conf = dag_of(way), form.intent.operation_id, json.loads(form.intent.shown)
    if read_dag_run(dag_id, run_id) is None:  # a repeated request finds its earlier DAG run
        refuse_other_run("form", job.job_id, seen=form.intent.run, newest=job.run)
        if refused:
            raise JobStateError(f"{TITLES[way]} is refused for job {job.job_id!r}: {refused.rstrip('.')}")
        of_dag = refusal_of_dag(way, conf, job.permissions)
        if of_dag is not None:
            raise JobStateError(of_dag.reason, next_step=of_dag.next_step)
        trigger(dag_id, run_id, conf, by=job.permissions.user.get_name())
    # Relative, like every URL of the pages: from jobs/JOB/WAY.
    return RedirectResponse(f"{way.value}-runs/{run_id}?{urlencode({'cluster': job.cluster})}", SEE_OTHER)


def _token(job: SeenJob, way: Way, conf: Mapping[str, Any]) -> str:
    intent = Intent(job.cluster, job.job_id, job.run, way.value, f"page-{way.value}-{new_id()[:16]}", json.dumps(conf))
    return token_of(job.permissions.user, intent)


def _planned(request: Request, job: SeenJob, choice: Choice) -> tuple[PlanView | None, HaError | None]:
    """Return the plan, or the reason without one."""
    clusters = request.app.state.clusters

    def read() -> PlanView:
        with clusters.client(job.cluster) as client:
            wanted = choice.request(job.job_id, f"page-{new_id()[:16]}")
            found = client.job(job.job_id, acting=job.acting()).dry_run(wanted)
            return plan_view(found.plan, found.refusal)

    try:
        return clusters.storage(job.cluster).call(read, seconds=PLAN_SECONDS), None
    except HaError as error:
        return None, error


def _source(made: PlanView | None, choice: Choice) -> str:
    return f"{made.source}-{made.source_id}" if made is not None else choice.start_from


def _kept(request: Request, job: SeenJob) -> tuple[CheckpointListView, SavepointListView]:
    clusters = request.app.state.clusters

    def read() -> tuple[CheckpointListView, SavepointListView]:
        with clusters.client(job.cluster) as client:
            asked = client.job(job.job_id)
            return (
                checkpoint_list(job.job_id, asked.checkpoints.list()),
                savepoint_list(job.job_id, asked.savepoints.list()),
            )

    found: tuple[CheckpointListView, SavepointListView] = clusters.zookeeper(job.cluster).call(read)
    return found
