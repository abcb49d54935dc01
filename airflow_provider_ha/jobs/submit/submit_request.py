"""Submission of a job from a request, and the dry run of a restore."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.job_context import CallerIdentity, JobContext, refuse_others
from airflow_provider_ha.jobs.model import StartPoint
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest
from airflow_provider_ha.jobs.restore.job_restore import accepted_graph, plan_for, require_accepted, restored_start
from airflow_provider_ha.jobs.submit.preconditions import choose_for_restore, choose_for_submit, require_nothing_given
from airflow_provider_ha.jobs.submit.preparation import upload
from airflow_provider_ha.jobs.submit.requests import FRESH, LATEST, LostRunPolicy, SubmittedRun, named_directories
from airflow_provider_ha.jobs.submit.run_submission import PreparedSubmission, check_submission, submit_run


@dataclass(frozen=True, slots=True)
class DryRun:
    """Expected outcome of a restore.

    :param plan: The restore plan: start and effects on the outputs.
    :param refusal: The error that the restore would raise now; ``None`` if it would be carried out.
    """

    plan: RestorePlan
    refusal: HaError | None


def dry_run(job: JobContext, request: RestoreRequest, acting: CallerIdentity) -> DryRun:
    """Plan a restore, with all checks that the restore makes before its first change.

    :raises HaError: The restore cannot be planned; it is the first error that the restore would raise.
    """
    makes_run, refusal = True, None
    try:
        refuse_others(job, acting, "a restore")
        makes_run = check_submission(
            job, request.request_id, on_lost=partial(choose_for_restore, job, request), seen=acting.run
        )
    except HaError as error:
        refusal = error
    try:
        chosen, plan = plan_for(job, request)
    except HaError as error:
        raise (refusal or error) from error
    if refusal is None and makes_run:
        try:
            accepted_graph(job, request, chosen, plan)
        except HaError as error:
            refusal = error
    return DryRun(plan, refusal)


def submit_job(job: JobContext, request: JobSpec) -> SubmittedRun:
    """Run a script as a new run of the job, or find the request's existing run.

    A live run of another request that has lost its driver is recovered and followed if its graph is the same.

    :raises JobStateError: The job has a live run of another request; the job is unchanged.
    :raises CheckpointMissingError: The start of the run is missing, or known to be damaged.
    :raises RestoreRefusedError: The run cannot continue safely from its start.
    :raises StorageUnavailableError: Storage is not writable, or does not refuse to create an existing object.
    """

    def prepare() -> PreparedSubmission:
        start = _start_point(job, request)
        graph = upload(job, request)
        return PreparedSubmission(graph=job.graphs.write_graph(graph), start=start, owner=request.job_owner)

    return submit_run(
        job,
        request.request_id,
        prepare,
        on_lost=partial(choose_for_submit, job, request),
        engine=request.engine,
        anew=request.start_from == FRESH
        and request.start.if_lost is LostRunPolicy.RESTART
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
        fallback=False,  # never silently an older one: the submitter does not know that the newest is damaged
        claim_mode=request.start.claim_mode,
        adopt=directories,
        sinks=request.start.sinks,
        options=request.ha,
    )
    _, plan = plan_for(job, wanted)
    require_accepted(plan, request.start.accept_verdicts)
    return restored_start(job, plan, wanted.output_mode)
