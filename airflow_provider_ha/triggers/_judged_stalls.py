"""Whether a job is stalled, as its leader or its drivers that ended say. Pure.

A driver may end itself when its job is stalled (``restart_stalled``): then its leader does not say so for long enough
to be reported, and neither do the next ones. So a job is stalled also when two drivers in a row ended themselves for it
at the same batch, until a later one commits: a restart has not helped, and a person has to look.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.jobs.failures import STALLED as STALLED_CLASS
from airflow_provider_ha.jobs.model import Status
from airflow_provider_ha.jobs.submissions import SubmissionExit
from airflow_provider_ha.triggers._notices import STALLED, Condition, Event


def ended_by_a_stall(end: SubmissionExit | None) -> bool:
    """Whether a driver has ended itself because its job was stalled."""
    return end is not None and end.failure is not None and end.failure.error_class == STALLED_CLASS


def stalls_again(newest: SubmissionExit | None, before: SubmissionExit | None) -> SubmissionExit | None:
    """Return the end of the newer of two drivers, when both were stalled at the same batch.

    :param newest: The end of the newest driver of a run that has ended.
    :param before: That of the driver just before it.
    """
    if not (ended_by_a_stall(newest) and ended_by_a_stall(before)):
        return None
    (query, batches), earlier = _where(newest), _where(before)
    return newest if batches is not None and (query, batches) == earlier else None


def judge_stall(
    run: int, status: Status | None, checkpoint: CheckpointPointer | None, again: SubmissionExit | None, grace: float
) -> Condition:
    """Return a condition; one without a kind when the job is not stalled.

    :param run: Its live run.
    :param status: What a leader of that run wrote last.
    :param again: What :func:`stalls_again` says of its drivers that ended.
    :param grace: Seconds that the leader has to say so.
    """
    facts: Event = {
        "run": run,
        "epoch": status.epoch if status is not None else 0,
        "checkpoint": checkpoint.number if checkpoint is not None else None,
    }
    if again is not None and again.failure is not None and not _commits(status, again):
        why = f"two drivers in a row ended themselves at the same batch; the last time: {again.failure.message}"
        return Condition(kind=STALLED, key=(run, "again"), facts={**facts, "reason": why}, recorded=True)
    if status is None or not status.is_stalled:
        return Condition()
    # The driver writes the sentence once for each stall, so another sentence is another stall.
    key = (run, status.epoch, status.stalled)
    return Condition(kind=STALLED, key=key, lasting=grace, facts={**facts, "reason": status.stalled})


def _where(end: SubmissionExit | None) -> tuple[str | None, dict[str, int] | None]:
    failure = end.failure if end is not None else None
    return (None, None) if failure is None else (failure.query, failure.batches)


def _commits(status: Status | None, stall: SubmissionExit) -> bool:
    """Whether a query that was stalled has committed a batch since its driver ended."""
    query, _ = _where(stall)
    committed = [
        each.committed_at
        for name, each in (status.queries if status is not None else {}).items()
        if query in (None, name)
    ]
    return any(at is not None and at > stall.at for at in committed)
