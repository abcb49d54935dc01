"""Pages of actions: the effects of an action, its confirmation, and the state of its request.

Invariants:

* A GET changes nothing; a POST depends on :func:`acting_job` and :func:`checked_form`.
* A POST requests the operation whose id is in its form, so it can be repeated, and redirects to that operation even
  when the answer is late.
* The form's token holds the shown facts: the run, the kind of a cancel, and the quarantine to release. The control
  plane executes the action.
* An operation ends with its own run, and later runs of the job do not change it.
* A request that was sent but not answered is reported as such, never as failed, because it may still be executed.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated
from urllib.parse import urlencode

from airflow.configuration import conf
from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from fastapi.responses import RedirectResponse
from itsdangerous import BadData, URLSafeTimedSerializer

from airflow_provider_ha.airflow_side.page.buttons import DANGEROUS, ActionButton, JobAction, offer, saved_cancel
from airflow_provider_ha.airflow_side.page.clusters import BoundedCalls, OverTimeError
from airflow_provider_ha.airflow_side.page.rendering import render
from airflow_provider_ha.airflow_side.page.security import (
    LIFETIME,
    CheckedForm,
    Intent,
    VisibleJob,
    VisibleJobDep,
    acting_job,
    checked_form,
    token_of,
)
from airflow_provider_ha.api.documents.operation import OperationView
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.coordination.coordinator import Node, Reads
from airflow_provider_ha.errors import JobStateError, NotConnectedError, OutcomeUnknownError
from airflow_provider_ha.fleet import observations
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState, RunResult
from airflow_provider_ha.jobs.runs.run_store import decode


_ENDS = {OperationKind.STOP, OperationKind.CANCEL, OperationKind.CANCEL_WITH_SAVEPOINT}
_SALT = "spark-ha-asked"


class RequestState(Enum):
    """State of a request when its form is answered."""

    ANSWERED = "answered"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """Request without an answer and without an operation yet.

    :param action: The requested action.
    """

    action: str


@dataclass(frozen=True, slots=True)
class OperationProgress:
    """Operation with the state of its run.

    :param result: Result of the run; ``None`` before its end, and after the removal of its record.
    :param removed: The run ended and its record was removed, so its result stays unknown.
    """

    operation: Operation
    result: RunResult | None
    removed: bool

    @property
    def waits(self) -> bool:
        """Return whether an answer, or the end of a stopped or cancelled run, is still pending."""
        if self.removed:
            return False
        state, kind = self.operation.state, self.operation.operation
        ends = kind in _ENDS and state is OperationState.COMPLETED
        return not state.final or (ends and self.result is None)


def follow_operation(client: HaClient, job_id: str, operation_id: str) -> OperationProgress | None:
    """Return an operation with its run; ``None`` if it was never requested, or its record was removed.

    :raises NotConnectedError: ZooKeeper could not be read.
    """
    found = client.job(job_id).operation(operation_id)
    if found is None:
        return None
    number = found.run
    paths = client.paths.job(job_id)
    run, result = paths.run(number), paths.run_result(number)
    # The run is read last: it is removed together with its result, so without both it had ended.
    seen = client.coordinator.read(Reads((result, run))).nodes
    return OperationProgress(found, decode(seen[result], RunResult), removed=seen[run] is None and seen[result] is None)


def send(zookeeper: BoundedCalls, ask: Callable[[], None], *, seconds: float) -> RequestState:
    """Execute a request and wait for it. An overdue request continues, because it cannot be cancelled.

    :raises OverTimeError: The request was not sent, because earlier calls hang.
    :raises HaError: Errors of *ask*.
    """
    begun = threading.Event()

    def run() -> None:
        begun.set()
        ask()

    try:
        zookeeper.call(run, seconds=seconds)
    except (NotConnectedError, OutcomeUnknownError, OverTimeError):
        if not begun.is_set():
            raise
        return RequestState.UNKNOWN
    return RequestState.ANSWERED


def mark_of(intent: Intent) -> str:
    """Return the mark that identifies an unanswered request in the URL of its outcome.

    It needs no state and authorizes nothing: the tokens of forms are signed with another key of the same secret.
    """
    return _serializer().dumps([intent.cluster, intent.job_id, intent.operation_id, intent.action])


def pending_request(mark: str, cluster: str, job_id: str, operation_id: str) -> PendingRequest | None:
    """Return the request of a mark; ``None`` without a mark, or for a forged, old or unrelated mark."""
    try:
        *asked, action = _serializer().loads(mark, max_age=LIFETIME)
    except (BadData, TypeError, ValueError):
        return None
    if asked != [cluster, job_id, operation_id]:
        return None
    return PendingRequest(str(action))


def _serializer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(conf.get_mandatory_value("api", "secret_key"), salt=_SALT)


router = APIRouter(prefix="/jobs/{job_id}")
ActingJobDep = Annotated[VisibleJob, Depends(acting_job)]
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
    request: Request, job: ActingJobDep, action: JobAction, savepoint: Annotated[bool, Query()] = False
) -> Response:
    """Show the effects of an action, with the button that requests it.

    :param savepoint: For a cancel: show the variant that takes a savepoint first.
    """
    way = SAVEPOINT_FIRST if action is JobAction.CANCEL and savepoint else ""
    apart = _quarantined(request, job)
    shown = _offer(job, action, observations.reason_of_quarantine(apart) if apart is not None else None, way)
    confirmed = str(apart.modified_zxid) if action is JobAction.RELEASE and apart is not None else way
    intent = Intent(job.cluster, job.job_id, job.run, action.value, f"page-{action.value}-{new_id()[:16]}", confirmed)
    return render(
        request,
        "action.html",
        job=job,
        offer=shown,
        dangerous=action.value in DANGEROUS,
        command=_quoted(shown.command, job.job_id),
        token=token_of(job.permissions.user, intent),
        wants_label=action is JobAction.SAVEPOINT,
        ways={"": "At once", SAVEPOINT_FIRST: "Take a savepoint first"} if action is JobAction.CANCEL else {},
        way=way,
        wants_savepoint=action in (JobAction.STOP, JobAction.DRAIN) and job.snapshot.leader is not None,
    )


@router.post("/actions/{action}")
def act(request: Request, job: ActingJobDep, form: CheckedFormDep, action: JobAction) -> Response:
    """Request the operation of the form, or find it again; then redirect to its outcome, even an unknown one."""
    clusters = request.app.state.clusters
    by = f"Airflow user {job.permissions.user.get_name()}"

    def ask() -> None:
        with clusters.client(job.cluster) as client:
            if action is JobAction.RELEASE:
                _release(client, job, form)
            else:
                _ask(client, job, _offer(job, action, None, form.intent.shown), form, by)

    sent = send(clusters.zookeeper(job.cluster), ask, seconds=ACT_SECONDS)
    mark = {"asked": mark_of(form.intent)} if sent is RequestState.UNKNOWN and action is not JobAction.RELEASE else {}
    # Relative, like every URL of the pages: from jobs/JOB/actions/ACTION.
    place = f"../../{job.job_id}" if action is JobAction.RELEASE else f"../operations/{form.intent.operation_id}"
    return RedirectResponse(f"{place}?{urlencode({'cluster': job.cluster, **mark})}", SEE_OTHER)


@router.get("/operations/{operation_id}")
def operation(
    request: Request,
    job: VisibleJobDep,
    operation_id: OperationId,
    asked: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """Show the state of an operation and its result; the page reloads until the state is final.

    :param asked: Mark of an unanswered request.
    """
    clusters = request.app.state.clusters

    def read() -> OperationProgress | None:
        with clusters.client(job.cluster) as client:
            return follow_operation(client, job.job_id, operation_id)

    found: OperationProgress | None = clusters.zookeeper(job.cluster).call(read)
    if found is not None:
        shown = OperationView.of(found.operation)
        return _again(render(request, "operation.html", job=job, operation=shown, followed=found), wanted=found.waits)
    pending = pending_request(asked, job.cluster, job.job_id, operation_id)
    if pending is None:
        raise HTTPException(NOT_FOUND, f"Job {job.job_id} has no operation {operation_id}, or its record was removed")
    return _again(render(request, "not_known.html", job=job, operation_id=operation_id, pending=pending), wanted=True)


def _again(response: Response, *, wanted: bool) -> Response:
    """Make a page reload, if wanted."""
    if wanted:
        response.headers["Refresh"] = str(REFRESH_SECONDS)
    return response


def _ask(client: HaClient, job: VisibleJob, offered: ActionButton, form: CheckedForm, by: str) -> None:
    target = client.job(job.job_id, acting=job.acting(form.intent.run))
    key, action = form.intent.operation_id, offered.action
    if offered.refused and target.operation(key) is None:  # a repeated request finds its earlier operation
        raise JobStateError(f"{offered.title} is refused for job {job.job_id!r}: {offered.refused.rstrip('.')}")
    savepoint = form.fields.get("savepoint") == "yes"
    if action is JobAction.SAVEPOINT:
        label = form.fields.get("label", "").strip()[:_LABEL]
        target.request_savepoint(operation_id=key, requested_by=by, label=label)
    elif action is JobAction.STOP:
        target.request_stop(operation_id=key, requested_by=by, savepoint=savepoint)
    elif action is JobAction.DRAIN:
        target.request_stop(operation_id=key, requested_by=by, mode="terminate", savepoint=savepoint)
    else:
        first = form.intent.shown == SAVEPOINT_FIRST
        target.request_cancel(operation_id=key, requested_by=by, savepoint=first)


def _release(client: HaClient, job: VisibleJob, form: CheckedForm) -> None:
    observations.release_shown_quarantine(
        client.coordinator,
        client.paths,
        job.job_id,
        shown=int(form.intent.shown or 0),  # empty: the job was not in quarantine
        last_run=form.intent.run,  # the newest shown run: it also identifies the owner that was checked
    )


def _offer(job: VisibleJob, action: JobAction, quarantined: str | None, way: str) -> ActionButton:
    return saved_cancel(job.snapshot) if way == SAVEPOINT_FIRST else offer(job.snapshot, action, quarantined)


def reason_of_quarantine(request: Request, job: VisibleJob) -> str | None:
    """Return why a job is in quarantine; ``None`` if it is not."""
    apart = _quarantined(request, job)
    return observations.reason_of_quarantine(apart) if apart is not None else None


def _quarantined(request: Request, job: VisibleJob) -> Node | None:
    clusters = request.app.state.clusters

    def read() -> Node | None:
        with clusters.client(job.cluster) as client:
            found: Node | None = client.coordinator.find(client.paths.quarantined(job.job_id))
            return found

    found: Node | None = clusters.zookeeper(job.cluster).call(read)
    return found


def _quoted(command: str, job_id: str) -> str:
    return command.replace(job_id, shlex.quote(job_id))
