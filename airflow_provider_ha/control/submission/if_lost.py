"""What a new request does about a live run of another request that has lost its driver.

A request with the same application and the same start recovers the lost run and follows it. A request that differs is
refused with both choices, because either could be meant: to go on with the lost run, or to replace it by the new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.requests import FRESH, LATEST, IfLost, named_directories
from airflow_provider_ha.control.job.spec import JobSpec, RestoreRequest
from airflow_provider_ha.control.submission.lost_run import LostRun
from airflow_provider_ha.control.submission.prepare import describe
from airflow_provider_ha.errors import JobStateError, ObjectMissingError, RecordCorruptError
from airflow_provider_ha.jobs.graph_store import differences
from airflow_provider_ha.jobs.model import StartKind, StartPoint
from airflow_provider_ha.uris import split


def choose_for_submit(job: JobContext, request: JobSpec, lost: LostRun) -> IfLost:
    """Return what a submission does about a lost run. Writes nothing.

    :raises JobStateError: It is another graph, or another start, and the request does not say what is meant.
    :raises ConfigurationError: A file of the application is not there.
    :raises StorageUnavailableError: The graph of the lost run could not be read.
    """
    other = _differences(job, request, lost)
    if not other:
        return IfLost.RECOVER
    if request.start.if_lost is None:
        raise JobStateError(
            f"{_lost(job, lost)}, and what is submitted now differs from it in {', '.join(other)}",
            next_step='if_lost="recover" goes on with what was running, if_lost="restart" ends it and makes a new run '
            f"of this {_from(request.start_from, lost)}. {_commands(job)}, then submit again",
        )
    if request.start.if_lost is IfLost.RESTART and request.start_from == LATEST and lost.forgetful:
        raise JobStateError(
            f"{_lost(job, lost)}, and that run has no checkpoint yet: a new one would repeat what it has committed",
            next_step='if_lost="recover" goes on with it; start_from="fresh" starts from nothing',
        )
    return request.start.if_lost


def choose_for_restore(job: JobContext, request: RestoreRequest, lost: LostRun) -> IfLost:
    """Return what a restore does about a lost run of the job that it restores into. Pure.

    :raises JobStateError: The request does not say what is meant.
    """
    if request.if_lost is None:
        raise JobStateError(
            f"{_lost(job, lost)}, which a restore would leave behind",
            next_step='if_lost="restart" ends it and restores, if_lost="recover" '
            f"goes on with it instead. {_commands(job)}, then restore again",
        )
    return request.if_lost


def refuse_lost(job: JobContext, lost: LostRun) -> IfLost:
    """Refuse a run when its request does not choose what becomes of a lost one.

    :raises JobStateError: Always.
    """
    raise JobStateError(f"{_lost(job, lost)}, which is of another request", next_step=_commands(job))


def same_start(start_from: str | Mapping[str, str], start: StartPoint, job_id: str) -> bool:
    """Whether a run that began at *start* began where *start_from* says. ``"latest"`` is where any run stands. Pure."""
    if start_from == LATEST:
        return True
    if start_from == FRESH:
        return start.kind is StartKind.FRESH
    if directories := named_directories(start_from):
        places = {f"{query}={_resolved(text)}" for query, text in directories.items()}
        return start.kind is StartKind.PATH and set((start.source_id or "").split(", ")) == places
    return start.source_job == job_id and f"{start.kind.value}-{start.source_id}" == start_from


def _differences(job: JobContext, request: JobSpec, lost: LostRun) -> Sequence[str]:
    now = describe(job, request)
    try:
        other = list(differences(job.graph(lost.run.graph), now))
    except (ObjectMissingError, RecordCorruptError) as error:
        other = [f"all that is known of it, for its graph cannot be read ({error.message})"]
    return other if same_start(request.start_from, lost.run.start, job.job_id) else [*other, "start_from"]


def _resolved(text: str) -> Path:
    return Path(split(text).path).resolve()


def _lost(job: JobContext, lost: LostRun) -> str:
    return f"job {job.job_id!r} has lost the driver of run {lost.number}"


def _from(start_from: str | Mapping[str, str], lost: LostRun) -> str:
    if start_from != LATEST:
        return f"from {start_from!r}"
    return f"from checkpoint {lost.checkpoint}" if lost.checkpoint is not None else "from its start"


def _commands(job: JobContext) -> str:
    return (
        "Without a new request: `spark-ha recover` (SparkHaRecoverJobsOperator) or SparkHaFollowOperator recovers it, "
        f"`spark-ha job stop {job.job_id}` (SparkHaStopOperator) ends it at once with its newest checkpoint"
    )
