"""A restore that is not carried out: its plan, and what it would be refused for. Nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from airflow_provider_ha.checkpoints.model import RestorePlan
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.job_owner import Acting, refuse_others
from airflow_provider_ha.control.job.spec import RestoreRequest
from airflow_provider_ha.control.restore.restore import accepted_graph, plan_for
from airflow_provider_ha.control.submission.if_lost import choose_for_restore
from airflow_provider_ha.control.submission.submission import check_submission
from airflow_provider_ha.errors import HaError


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a restore would do.

    :param plan: From where, and what that does to the outputs.
    :param refusal: What the restore would be refused for at this moment; ``None`` when it would be carried out.
    """

    plan: RestorePlan
    refusal: HaError | None


def dry_run(job: JobContext, request: RestoreRequest, acting: Acting) -> DryRun:
    """Plan a restore, and ask everything that the restore itself asks before it changes anything.

    :raises HaError: There is no plan; then it is what the restore would be refused for first.
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
