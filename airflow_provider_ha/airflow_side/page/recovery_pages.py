"""Pages of recovery and restore: the plan, the confirmation, and the DAG run that carries it out.

Invariants:

* The DAG receives exactly the shown parameters, which the form's token holds.
* A DAG run is shown only with the job that it was requested for.
* The id of a run comes from its form, so a form that is sent again finds its earlier run.
* A run is requested only for a user who may trigger that DAG, as Airflow's own button requires.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from airflow.api.common.trigger_dag import trigger_dag
from airflow.configuration import conf
from airflow.exceptions import DagNotFound, DagRunAlreadyExists
from airflow.models.dag import DagModel
from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType
from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from airflow_provider_ha.airflow_side.page.actions import ActingJobDep, CheckedFormDep, reason_of_quarantine
from airflow_provider_ha.airflow_side.page.job_data import SHOWN
from airflow_provider_ha.airflow_side.page.recovery import (
    ACCEPTABLE,
    TITLES,
    WHEN_LOST,
    RecoveryMethod,
    RecoveryOutcome,
    RestoreChoice,
    effects_on_sinks,
    if_lost_at_first,
    recover_conf,
    recovery_outcome,
    recovery_refused,
    restore_command,
    restore_conf,
    same_job,
    sources,
)
from airflow_provider_ha.airflow_side.page.rendering import render
from airflow_provider_ha.airflow_side.page.security import (
    CheckedForm,
    Intent,
    Permissions,
    VisibleJob,
    VisibleJobDep,
    token_of,
)
from airflow_provider_ha.airflow_side.page_urls import base_url
from airflow_provider_ha.api.documents.checkpoints import (
    CheckpointListView,
    SavepointListView,
    checkpoint_list,
    savepoint_list,
)
from airflow_provider_ha.api.documents.history import history_view
from airflow_provider_ha.api.documents.restore_plan import PlanView, plan_view
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ConfigurationError, HaError, JobStateError
from airflow_provider_ha.jobs.run_history import read_history
from airflow_provider_ha.jobs.runs.run_store import refuse_other_run
from airflow_provider_ha.jobs.submit.requests import LATEST
from airflow_provider_ha.names import task_request


SECTION = "spark_ha"
_OPTIONS = {
    RecoveryMethod.RESTORE: ("restore_dag", "disaster_recovery"),
    RecoveryMethod.RECOVER: ("recover_dag", "recover_jobs"),
}


@dataclass(frozen=True, slots=True)
class DagRunStatus:
    """Run of a DAG.

    :param state: ``queued``, ``running``, ``success`` or ``failed``.
    :param conf: Parameters of the run.
    :param tasks: Task id -> state in start order; ``None`` before the scheduler has processed it.
    :param asked_at: Time of the request; a cleared run keeps it.
    :param waits: Cause of a delay, if Airflow has not begun the run or its next task; empty otherwise.
    :param waits_since: Begin of the delay, if known.
    """

    dag_id: str
    run_id: str
    state: str
    conf: Mapping[str, Any]
    tasks: Mapping[str, str | None]
    asked_at: datetime
    waits: str = ""
    waits_since: datetime | None = None

    @property
    def url(self) -> str:
        """Page of the DAG run in Airflow."""
        return f"{base_url()}/dags/{quote(self.dag_id, safe='')}/runs/{quote(self.run_id, safe='')}"

    @property
    def failed_tasks(self) -> list[str]:
        """Ids of the tasks that failed themselves, without those whose upstream failed."""
        return [task_id for task_id, state in self.tasks.items() if state == "failed"]

    @property
    def requests(self) -> list[str]:
        """Ids of the requests of its tasks."""
        return [task_request(self.dag_id, self.run_id, task_id) for task_id in self.tasks]


@dataclass(frozen=True, slots=True)
class DagRefusal:
    """Reason not to trigger a DAG.

    :param next_step: Remedy, with the exact command or setting.
    :param url: Page of the DAG in Airflow, if useful; empty otherwise.
    """

    reason: str
    next_step: str
    url: str = ""


def dag_of(way: RecoveryMethod) -> str:
    """Return the DAG that the configuration names for a recovery or a restore."""
    option, default = _OPTIONS[way]
    return str(conf.get(SECTION, option, fallback=default) or default).strip()


def refusal_of_dag(way: RecoveryMethod, wanted: Mapping[str, Any], allowed: Permissions) -> DagRefusal | None:
    """Return why this user cannot trigger the DAG with these parameters; ``None`` if they can."""
    dag_id, option = dag_of(way), _OPTIONS[way][0]
    if not allowed.may_trigger(dag_id):
        return DagRefusal(
            f"You may not trigger the DAG {dag_id} (POST on its runs)",
            f"Ask an administrator of Airflow for the permission to trigger {dag_id}, or for a run of this DAG",
        )
    with create_session() as session:
        model = session.scalar(select(DagModel).where(DagModel.dag_id == dag_id))
        known = DBDagBag().get_latest_version_of_dag(dag_id, session=session) if model is not None else None
        stale, paused, broken = (
            (model.is_stale, model.is_paused, model.has_import_errors) if model is not None else (True, False, False)
        )
        lacking = sorted(set(wanted) - set(known.params)) if known is not None else []
    if stale or known is None:
        return DagRefusal(
            f"Airflow has no DAG {dag_id}, which starts the driver on a host that is meant for it",
            f"Copy it to the DAGs folder (spark-ha examples DIR), or name yours: [{SECTION}] {option} "
            f"(AIRFLOW__{SECTION.upper()}__{option.upper()})",
        )
    if broken:
        return DagRefusal(f"The file of DAG {dag_id} has import errors", "airflow dags list-import-errors shows them")
    if lacking:
        return DagRefusal(
            f"DAG {dag_id} has no parameter {', '.join(lacking)}: it is a copy from another release, or another DAG",
            f"Copy the DAG of this release (spark-ha examples DIR --force), or name yours: [{SECTION}] {option}",
        )
    if paused:
        return DagRefusal(
            f"DAG {dag_id} is paused, so nothing would happen",
            f"Unpause it on its page in Airflow, then load this page again (in a shell: airflow dags unpause {dag_id})",
            f"{base_url()}/dags/{quote(dag_id, safe='')}",
        )
    return None


def trigger(dag_id: str, run_id: str, wanted: Mapping[str, Any], *, by: str) -> None:
    """Create a DAG run, or find it.

    :param by: Name of Airflow's user, stored in the run.
    :raises JobStateError: The DAG does not exist.
    :raises ConfigurationError: The DAG does not accept the parameters.
    """
    try:
        trigger_dag(
            dag_id,
            triggered_by=DagRunTriggeredByType.UI,
            triggering_user_name=by,
            run_id=run_id,
            conf=dict(wanted),
        )
    except DagRunAlreadyExists:
        return
    except IntegrityError:
        # A concurrent request has created it.
        if read_dag_run(dag_id, run_id) is None:
            raise
    except DagNotFound as error:
        raise JobStateError(f"Airflow no longer has the DAG {dag_id!r}", next_step="Load the page again") from error
    except ValueError as error:
        raise ConfigurationError(
            f"DAG {dag_id!r} does not take these parameters: {error}", next_step="Correct the parameters of the DAG"
        ) from error


def read_dag_run(dag_id: str, run_id: str) -> DagRunStatus | None:
    """Return a DAG run; ``None`` if it does not exist."""
    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        if run is None:
            return None
        tasks = session.execute(
            select(TaskInstance.task_id, TaskInstance.state)
            .where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
            .order_by(TaskInstance.start_date.is_(None), TaskInstance.start_date, TaskInstance.task_id)
        )
        shown = {task_id: str(getattr(state, "value", state)) if state else None for task_id, state in tasks}
        state = str(getattr(run.state, "value", run.state))
        waits, since = _waits(session, run, state)
        return DagRunStatus(dag_id, run_id, state, dict(run.conf or {}), shown, run.run_after, waits, since)


def _waits(session: Session, run: DagRun, state: str) -> tuple[str, datetime | None]:
    """Return the cause and the begin of a delay before the run or its next task."""
    if state == "queued":
        most = session.scalar(select(DagModel.max_active_runs).where(DagModel.dag_id == run.dag_id))
        running = select(func.count()).where(DagRun.dag_id == run.dag_id, DagRun.state == "running")
        count = session.scalar(running) or 0
        full = f": {count} of its runs {'is' if count == 1 else 'are'} running, and {most} may" if count else ""
        return f"The scheduler has not started this run of {run.dag_id} yet{full}", run.queued_at
    task = session.scalar(
        select(TaskInstance)
        .where(
            TaskInstance.dag_id == run.dag_id,
            TaskInstance.run_id == run.run_id,
            TaskInstance.state.in_(("scheduled", "queued")),
        )
        .order_by(TaskInstance.scheduled_dttm)
        .limit(1)
    )
    if task is None:
        return "", None
    pool = session.scalar(select(Pool).where(Pool.pool == task.pool))
    free = max(0, pool.open_slots(session=session)) if pool is not None else 0
    slots = f"{free:g} of {pool.slots} slots are free" if pool is not None else "there is no such pool"
    what = "a free slot of" if task.state == "scheduled" else "a worker, with a slot of"
    return f"Task {task.task_id} waits for {what} pool {task.pool} ({slots})", task.queued_dttm or task.scheduled_dttm


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
    choice = RestoreChoice(start_from.strip() or LATEST, tuple(accept or ()), lost)
    made, problem = _planned(request, job, choice)
    conf = restore_conf(job.cluster, job.job_id, job.run, choice, _source(made, choice), job.owner)
    of_dag = refusal_of_dag(RecoveryMethod.RESTORE, conf, job.permissions)
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
        dag_id=dag_of(RecoveryMethod.RESTORE),
        command=restore_command(job.job_id, choice, _source(made, choice), job.owner),
        token=_token(job, RecoveryMethod.RESTORE, conf) if carried_out else None,
    )


@router.get("/recover")
def confirm_recovery(request: Request, job: ActingJobDep) -> Response:
    """Show the effects of a recovery, with the button that requests it."""
    refused = recovery_refused(job.snapshot, reason_of_quarantine(request, job))
    conf = recover_conf(job.cluster, job.job_id, job.run)
    of_dag = refusal_of_dag(RecoveryMethod.RECOVER, conf, job.permissions)
    return render(
        request,
        "recover.html",
        job=job,
        refused=refused,
        outputs=effects_on_sinks(job.snapshot),
        of_dag=of_dag,
        dag_id=dag_of(RecoveryMethod.RECOVER),
        token=_token(job, RecoveryMethod.RECOVER, conf) if not refused and of_dag is None else None,
    )


@router.post("/restore")
def restore(job: ActingJobDep, form: CheckedFormDep) -> Response:
    """Create the DAG run that restores the shown plan, or find it again; then redirect to its outcome."""
    return _triggered(job, form, RecoveryMethod.RESTORE, refused="")


@router.post("/recover")
def recover(request: Request, job: ActingJobDep, form: CheckedFormDep) -> Response:
    """Create the DAG run that recovers the job, or find it again; then redirect to its outcome."""
    return _triggered(
        job, form, RecoveryMethod.RECOVER, recovery_refused(job.snapshot, reason_of_quarantine(request, job))
    )


@router.get("/{way}-runs/{operation_id}")
def outcome(request: Request, job: VisibleJobDep, way: RecoveryMethod, operation_id: OperationId) -> Response:
    """Show the DAG run, then the run of the job; the page reloads until the outcome is final."""
    dag_id = dag_of(way)
    if not job.permissions.may_read_runs(dag_id):
        raise HTTPException(FORBIDDEN, f"This requires the permission to read the runs of DAG {dag_id}")
    found = read_dag_run(dag_id, operation_id)
    if found is None or not same_job(found.conf, job.cluster, job.job_id):
        raise HTTPException(NOT_FOUND, f"DAG {dag_id} has no run {operation_id} for job {job.job_id}")
    clusters = request.app.state.clusters

    def read() -> RecoveryOutcome:
        with clusters.client(job.cluster) as client:
            history = history_view(read_history(client.coordinator, client.paths.job(job.job_id)))
            checkpoints = checkpoint_list(job.job_id, client.job(job.job_id).checkpoints.list())
            leader, status = job.snapshot.leader, job.snapshot.status
            told = leader is not None and status is not None and status.epoch == leader.epoch
            return recovery_outcome(
                found.state,
                found.failed_tasks,
                found.requests,
                history,
                checkpoints,
                way=way,
                asked_at=found.asked_at,
                replayed=sum(each.replayed for each in status.queries.values()) if told and status else None,
            )

    made: RecoveryOutcome = clusters.zookeeper(job.cluster).call(read)
    response = render(request, "brought_back.html", job=job, title=TITLES[way], dag_run=found, made=made)
    if not made.final:
        response.headers["Refresh"] = str(REFRESH_SECONDS)
    return response


def _triggered(job: VisibleJob, form: CheckedForm, way: RecoveryMethod, refused: str) -> Response:
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


def _token(job: VisibleJob, way: RecoveryMethod, conf: Mapping[str, Any]) -> str:
    intent = Intent(job.cluster, job.job_id, job.run, way.value, f"page-{way.value}-{new_id()[:16]}", json.dumps(conf))
    return token_of(job.permissions.user, intent)


def _planned(request: Request, job: VisibleJob, choice: RestoreChoice) -> tuple[PlanView | None, HaError | None]:
    """Return the plan, or the error that prevented it."""
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


def _source(made: PlanView | None, choice: RestoreChoice) -> str:
    return f"{made.source}-{made.source_id}" if made is not None else choice.start_from


def _kept(request: Request, job: VisibleJob) -> tuple[CheckpointListView, SavepointListView]:
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
