"""Pages of actions: the effects of an action, its confirmation and its outcome.

Invariants: a GET changes nothing; a POST depends on :func:`acting_job` and :func:`checked_form`. It requests the
operation whose id is in its form, so it can be repeated, and redirects to that operation even when the answer is late.
The form's token holds the shown facts: the run, the way of a cancel, and the quarantine to release. The control plane
executes the action.
"""

from __future__ import annotations

import shlex
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from fastapi.responses import RedirectResponse

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs import quarantine
from airflow_provider_ha.plugins._forms import CheckedForm, Intent, checked_form, token_of
from airflow_provider_ha.plugins._offers import DANGEROUS, Action, Offer, offer, saved_cancel
from airflow_provider_ha.plugins._outcome import Followed, Sent, follow_operation, mark_of, not_known, send
from airflow_provider_ha.plugins._rendering import render
from airflow_provider_ha.plugins._security import SeenJob, SeenJobDep, acting_job
from airflow_provider_ha.views.operation import OperationView


router = APIRouter(prefix="/jobs/{job_id}")
ActingJobDep = Annotated[SeenJob, Depends(acting_job)]
CheckedFormDep = Annotated[CheckedForm, Depends(checked_form)]
OperationId = Annotated[str, Path(max_length=100, pattern=r"^[\w.-]+$")]
SEE_OTHER, NOT_FOUND = 303, 404
_LABEL = 200  # characters
REFRESH_SECONDS = 2
# The end of a lost run waits for the session of its dead driver (10 s), then for its lock (5 s): a long wait is normal.
ACT_SECONDS = 20.0
SAVEPOINT_FIRST = "savepoint first"


@router.get("/actions/{action}")
def confirm(
    request: Request, job: ActingJobDep, action: Action, savepoint: Annotated[bool, Query()] = False
) -> Response:
    """Show the effects of an action, with the button that requests it.

    :param savepoint: For a cancel: show the variant that takes a savepoint first.
    """
    way = SAVEPOINT_FIRST if action is Action.CANCEL and savepoint else ""
    apart = _quarantined(request, job)
    shown = _offer(job, action, quarantine.reason_of(apart) if apart is not None else None, way)
    confirmed = str(apart.modified_zxid) if action is Action.RELEASE and apart is not None else way
    intent = Intent(job.cluster, job.job_id, job.run, action.value, f"page-{action.value}-{new_id()[:16]}", confirmed)
    return render(
        request,
        "action.html",
        job=job,
        offer=shown,
        dangerous=action.value in DANGEROUS,
        command=_quoted(shown.command, job.job_id),
        token=token_of(job.permissions.user, intent),
        wants_label=action is Action.SAVEPOINT,
        ways={"": "At once", SAVEPOINT_FIRST: "Take a savepoint first"} if action is Action.CANCEL else {},
        way=way,
        wants_savepoint=action in (Action.STOP, Action.DRAIN) and job.snapshot.leader is not None,
    )


@router.post("/actions/{action}")
def act(request: Request, job: ActingJobDep, form: CheckedFormDep, action: Action) -> Response:
    """Request the operation of the form, or find it again; then redirect to its outcome, even an unknown one."""
    clusters = request.app.state.clusters
    by = f"Airflow user {job.permissions.user.get_name()}"

    def ask() -> None:
        with clusters.client(job.cluster) as client:
            if action is Action.RELEASE:
                _release(client, job, form)
            else:
                _ask(client, job, _offer(job, action, None, form.intent.shown), form, by)

    sent = send(clusters.zookeeper(job.cluster), ask, seconds=ACT_SECONDS)
    mark = {"asked": mark_of(form.intent)} if sent is Sent.UNKNOWN and action is not Action.RELEASE else {}
    # Relative, like every URL of the pages: from jobs/JOB/actions/ACTION.
    place = f"../../{job.job_id}" if action is Action.RELEASE else f"../operations/{form.intent.operation_id}"
    return RedirectResponse(f"{place}?{urlencode({'cluster': job.cluster, **mark})}", SEE_OTHER)


@router.get("/operations/{operation_id}")
def operation(
    request: Request,
    job: SeenJobDep,
    operation_id: OperationId,
    asked: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """Show the state of an operation and its result; the page reloads until the state is final.

    :param asked: The mark of an unanswered request.
    """
    clusters = request.app.state.clusters

    def read() -> Followed | None:
        with clusters.client(job.cluster) as client:
            return follow_operation(client, job.job_id, operation_id)

    found: Followed | None = clusters.zookeeper(job.cluster).call(read)
    if found is not None:
        shown = OperationView.of(found.operation)
        return _again(render(request, "operation.html", job=job, operation=shown, followed=found), wanted=found.waits)
    pending = not_known(asked, job.cluster, job.job_id, operation_id)
    if pending is None:
        raise HTTPException(NOT_FOUND, f"Job {job.job_id} has no operation {operation_id}, or its record was removed")
    return _again(render(request, "not_known.html", job=job, operation_id=operation_id, pending=pending), wanted=True)


def _again(response: Response, *, wanted: bool) -> Response:
    """Make a page reload, if wanted."""
    if wanted:
        response.headers["Refresh"] = str(REFRESH_SECONDS)
    return response


def _ask(client: HaClient, job: SeenJob, offered: Offer, form: CheckedForm, by: str) -> None:
    target = client.job(job.job_id, acting=job.acting(form.intent.run))
    key, action = form.intent.operation_id, offered.action
    if offered.refused and target.operation(key) is None:  # a repeated request finds its earlier operation
        raise JobStateError(f"{offered.title} is refused for job {job.job_id!r}: {offered.refused.rstrip('.')}")
    savepoint = form.fields.get("savepoint") == "yes"
    if action is Action.SAVEPOINT:
        label = form.fields.get("label", "").strip()[:_LABEL]
        target.request_savepoint(operation_id=key, requested_by=by, label=label)
    elif action is Action.STOP:
        target.request_stop(operation_id=key, requested_by=by, savepoint=savepoint)
    elif action is Action.DRAIN:
        target.request_stop(operation_id=key, requested_by=by, mode="terminate", savepoint=savepoint)
    else:
        first = form.intent.shown == SAVEPOINT_FIRST
        target.request_cancel(operation_id=key, requested_by=by, savepoint=first)


def _release(client: HaClient, job: SeenJob, form: CheckedForm) -> None:
    quarantine.release_shown(
        client.coordinator,
        client.paths,
        job.job_id,
        shown=int(form.intent.shown or 0),  # empty: the job was not in quarantine
        last_run=form.intent.run,  # the newest shown run: it also identifies the owner that was checked
    )


def _offer(job: SeenJob, action: Action, quarantined: str | None, way: str) -> Offer:
    return saved_cancel(job.snapshot) if way == SAVEPOINT_FIRST else offer(job.snapshot, action, quarantined)


def reason_of_quarantine(request: Request, job: SeenJob) -> str | None:
    """Return why a job is in quarantine; ``None`` if it is not."""
    apart = _quarantined(request, job)
    return quarantine.reason_of(apart) if apart is not None else None


def _quarantined(request: Request, job: SeenJob) -> Node | None:
    clusters = request.app.state.clusters

    def read() -> Node | None:
        with clusters.client(job.cluster) as client:
            found: Node | None = client.coordinator.find(client.paths.quarantined(job.job_id))
            return found

    found: Node | None = clusters.zookeeper(job.cluster).call(read)
    return found


def _quoted(command: str, job_id: str) -> str:
    return command.replace(job_id, shlex.quote(job_id))
