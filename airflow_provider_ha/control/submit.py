"""Submitting a script as a run of a job, from nothing, from its latest checkpoint or from a directory."""

from __future__ import annotations

from functools import partial

from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.requests import FRESH, LATEST, IfLost, SubmittedRun, named_directories
from airflow_provider_ha.control.job.spec import JobSpec, RestoreRequest
from airflow_provider_ha.control.restore.restore import plan_for, require_accepted, restored_start
from airflow_provider_ha.control.submission.from_nothing import require_nothing_given
from airflow_provider_ha.control.submission.if_lost import choose_for_submit
from airflow_provider_ha.control.submission.prepare import upload
from airflow_provider_ha.control.submission.submission import Prepared, submit_run
from airflow_provider_ha.jobs.model import StartPoint


def submit_job(job: JobContext, request: JobSpec) -> SubmittedRun:
    """Run a script as a new run of the job, or find the request's run again.

    A live run of another request that has lost its driver is recovered and followed when it is of the same graph.

    :raises JobStateError: The job has a live run of another request; nothing was changed.
    :raises CheckpointMissingError: What the run is to start from is not there, or known to be bad.
    :raises RestoreRefusedError: It cannot be continued safely from there.
    :raises StorageUnavailableError: The storage cannot be written, or lets two create one object.
    """

    def prepare() -> Prepared:
        start = _start_point(job, request)
        graph = upload(job, request)
        return Prepared(graph=job.graphs.write_graph(graph), start=start, owner=request.job_owner)

    return submit_run(
        job,
        request.request_id,
        prepare,
        on_lost=partial(choose_for_submit, job, request),
        engine=request.engine,
        anew=request.start_from == FRESH
        and request.start.if_lost is IfLost.RESTART
        and Verdict.LOSS_POSSIBLE in request.start.accept_verdicts,
    )


def _start_point(job: JobContext, request: JobSpec) -> StartPoint:
    if request.start_from == FRESH or (request.start_from == LATEST and not job.has_state):
        require_nothing_given(job, request.start.accept_verdicts)
        return StartPoint(asked=request.start_from == FRESH)
    directories = named_directories(request.start_from)
    wanted = RestoreRequest(
        job_id=job.job_id,
        request_id=request.request_id,
        start_from=LATEST if directories else str(request.start_from),
        fallback=False,  # never an older one silently: the submitter has not seen that the newest is bad
        claim_mode=request.start.claim_mode,
        adopt=directories,
        sinks=request.start.sinks,
        options=request.ha,
    )
    _, plan = plan_for(job, wanted)
    require_accepted(plan, request.start.accept_verdicts)
    return restored_start(job, plan, wanted.output_mode)
