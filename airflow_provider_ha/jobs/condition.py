"""Condition of a job: its state, and the action that is due. Pure.

One table decides for every reader: list, page, command, alerts, the cluster's leader, tasks and supervisors. The first
row that applies wins. The restart strategy (:mod:`~airflow_provider_ha.jobs.recovery.restart_policy`) decides about a
lost run whether it is submitted again, waits for its user, or ends.

A status from a list has no submissions. Its rows say that a run is lost, and not what follows from that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.losses import last_failure
from airflow_provider_ha.jobs.recovery.restart_policy import (
    GiveUp,
    NeedsDecision,
    RestartDecision,
    Resubmit,
    decision_of,
    outage_of,
    restart,
)
from airflow_provider_ha.jobs.runs.submissions import LastFailure
from airflow_provider_ha.jobs.status import JobStatus, RunDepth


QUARANTINED = "QUARANTINED"
UNREADABLE = "UNREADABLE"
NO_RUN = "NO_RUN"  # in the place of a state: the job was erased, or its first run is being made
_FOR_A_PERSON = (QUARANTINED, UNREADABLE, JobState.LOST, JobState.FAILED, JobState.STALLED)


class Action(str, Enum):
    """The action that is due for a job."""

    LEAVE = "leave"
    WAIT = "wait"  # for a leader: a submission that takes too long is recovered, which one read cannot show
    RECOVER = "recover"
    GIVE_UP = "give up"
    ASK = "ask"  # the user: only a decision continues the run
    CLEAN_UP = "clean up"
    QUARANTINE = "quarantine"
    RELEASE = "release"
    REPLENISH = "start standby drivers"  # for a person's eyes the job needs nothing: the cluster's leader decides it

    @property
    def follows_a_loss(self) -> bool:
        """Whether the newest run has lost its driver, and is not left as it is."""
        return self in (Action.RECOVER, Action.GIVE_UP, Action.ASK)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCondition:
    """The decision about a job.

    :param state: State of the newest run; ``QUARANTINED``, ``UNREADABLE``, or ``NO_RUN`` without one.
    :param needs_person: Whether a person should look at the job.
    :param problem: What is wrong, in one line; empty when nothing is, and for a status from a list.
    :param reason: Why the action is due.
    :param next_step: What a person can do about the job; empty when nothing.
    :param due: When the next attempt is due; ``None`` when none is, and when the options of the run are not known.
    :param restart: Decision of the restart strategy about a lost run.
    :param last: How the newest lost attempt ended.
    """

    state: str
    needs_person: bool
    problem: str
    action: Action
    reason: str
    next_step: str
    due: datetime | None
    restart: RestartDecision | None
    last: LastFailure | None


@dataclass(frozen=True, slots=True)
class _Row:
    """One row. The texts name facts of the status as ``{job.epoch}``.

    :param when: Whether the row applies to a status, and to the decision of the restart strategy about a lost run.
    :param state: The state in place of that of the run.
    """

    when: Callable[[JobStatus[RunDepth], RestartDecision | None], bool]
    action: Action
    reason: str
    next_step: str = ""
    state: str | None = None


_RELEASE = "Repair the cause, then `spark-ha job release {job.job_id}`"
_INSPECT = "Inspect the job with `spark-ha cluster tree`"
_SUBMIT = (
    "Submit it again (SparkHaSubmitOperator), or restore it: `spark-ha job restore {job.job_id}`, "
    "SparkHaRestoreOperator"
)
_REPAIR = (
    "Read the driver's log with `spark-ha job logs {job.job_id}`, then submit the job again (SparkHaSubmitOperator), "
    "or restore it from its latest checkpoint: `spark-ha job restore {job.job_id}`, SparkHaRestoreOperator"
)
_LED_ON = "{job.state.value}, and its leader is still there"
_STRAY = "{job.state.value}, but it still has a graph pointer: it is never run again"
_DIRTY = "{job.state.value}, and not cleaned up yet"
_NO_POINTER = "run {job.newest.number} has no graph pointer: it needs no recovery"
_OTHER_RUN = "its graph pointer is of run {job.graph.run}, its newest run is {job.newest.number}"
_LOSS = "run {job.newest.number} has lost its driver, epoch {job.epoch}"
_WAIT = "run {job.newest.number} is {job.state.value} and has no leader yet"

_TABLE = (
    _Row(
        lambda job, _: job.quarantined and job.repaired,
        Action.RELEASE,
        "the missing part is available again ({job.trouble})",
        state=QUARANTINED,
    ),
    _Row(lambda job, _: job.quarantined, Action.LEAVE, "in quarantine: {job.trouble}", _RELEASE, QUARANTINED),
    _Row(lambda job, _: job.broken and job.locked, Action.LEAVE, "{job.trouble}", _INSPECT, UNREADABLE),
    _Row(lambda job, _: job.broken, Action.QUARANTINE, "{job.trouble}", _INSPECT, UNREADABLE),
    _Row(
        lambda job, _: job.newest is None and job.graph is not None,
        Action.QUARANTINE,
        "it has a graph, but no run",
        _INSPECT,
        NO_RUN,
    ),
    _Row(lambda job, _: job.newest is None, Action.LEAVE, "no run", state=NO_RUN),
    _Row(lambda job, _: job.is_over and job.leader is not None, Action.LEAVE, _LED_ON, _SUBMIT),
    # guard: stray-pointer-goes
    # guard: dirty-with-pointer
    _Row(lambda job, _: job.is_over and job.graph is not None, Action.CLEAN_UP, _STRAY, _SUBMIT),
    # guard: clean-up-without-pointer
    _Row(lambda job, _: job.is_over and bool(job.dirty), Action.CLEAN_UP, _DIRTY, _SUBMIT),
    _Row(lambda job, _: job.is_over, Action.LEAVE, "{job.state.value}", _SUBMIT),
    _Row(lambda job, _: job.leader is not None and not job.is_lost, Action.LEAVE, "led by epoch {job.leader.epoch}"),
    _Row(lambda job, _: job.graph is None, Action.LEAVE, _NO_POINTER, _INSPECT),
    _Row(lambda job, _: job.has_stray_pointer, Action.QUARANTINE, _OTHER_RUN, _INSPECT),
    _Row(lambda _, loss: isinstance(loss, NeedsDecision), Action.ASK, _LOSS),
    _Row(lambda _, loss: isinstance(loss, GiveUp), Action.GIVE_UP, _LOSS, _REPAIR),
    _Row(lambda job, _: job.is_lost, Action.RECOVER, _LOSS),
    _Row(lambda job, _: bool(job.refused), Action.WAIT, "{job.refusal}"),
    _Row(lambda *_: True, Action.WAIT, _WAIT),
)


def decide(
    status: JobStatus[RunDepth], options: HaOptions | None, now: datetime, *, decided: bool = False
) -> JobCondition:
    """Decide about a job.

    :param options: Of the newest run; ``None`` when they are not known.
    :param now: Wall-clock time.
    :param decided: Whether the user has decided to continue the run.
    """
    last = last_failure(status, options or HaOptions(), now=now) or status.loop
    loss = restart(status, options, now, decided=decided) if options is not None else None
    row = next(row for row in _TABLE if row.when(status, loss))
    state = row.state or status.state.value
    after = loss.after if isinstance(loss, Resubmit) and row.action is Action.RECOVER else None
    return JobCondition(
        state=state,
        needs_person=state in _FOR_A_PERSON or (last is not None and last.loops),
        problem=_problem(status, last, now),
        action=row.action,
        reason=row.reason.format(job=status),
        next_step=row.next_step.format(job=status),
        due=now + timedelta(seconds=after) if after is not None else None,
        restart=loss if row.action.follows_a_loss else None,
        last=last,
    )


def _problem(status: JobStatus[RunDepth], last: LastFailure | None, now: datetime) -> str:
    run = status.run
    if status.quarantined or status.broken or run is None:
        return f"in quarantine: {status.trouble}" if status.quarantined else status.trouble
    if decision := decision_of(run):
        return decision
    if status.state is JobState.FAILED and run.result is not None:
        return run.result.reason
    if status.state is JobState.STALLED and status.status is not None:
        return status.status.stalled
    refusal = status.refusal if status.state is JobState.STARTING else ""
    failed = last is not None and (last.loops or (last.in_a_row and status.state is not JobState.RUNNING))
    parts = (refusal, last.sentence, outage_of(run)) if last is not None and failed else (refusal,)
    leading = status.of_leader
    standbys = leading.standbys.problem(now) if leading is not None and leading.standbys is not None else ""
    return ". ".join(filter(None, (*parts, standbys)))
