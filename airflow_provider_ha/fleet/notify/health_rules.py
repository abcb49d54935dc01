"""Conditions of a job, from its records and the time. Pure.

A driver may end itself when its job is stalled (``restart_stalled``): then neither this leader nor the next leaders
report the stall long enough for an event. So a job is also stalled when two drivers in a row ended themselves at the
same batch, until a later driver commits: a restart did not help, and a person has to act.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.fleet.notify.notices import (
    BUDGET_EXHAUSTED,
    CHECKPOINT_FAILING,
    CHECKPOINT_OLD,
    DRILL_FAILED,
    DRILL_KINDS,
    FAILING,
    GRANTED,
    HEALTH_KINDS,
    INPUT_LOST,
    LEADER,
    RECOVERY_POINT,
    RECOVERY_TIME,
    RUN_FAILED,
    STALLED,
    STANDBY_MISSING,
    STANDBY_READY,
    Condition,
    Event,
    Watched,
)
from airflow_provider_ha.jobs.condition import JobCondition, decide
from airflow_provider_ha.jobs.model import JobState, RunResult, StartKind, StartPoint, Status
from airflow_provider_ha.jobs.runs.submissions import STALLED as STALLED_CLASS
from airflow_provider_ha.jobs.runs.submissions import SubmissionExit
from airflow_provider_ha.jobs.status import JobStatus, RunDepth
from airflow_provider_ha.jobs.verification.verification_records import Drill, DrillVerdict


def ended_by_a_stall(end: SubmissionExit | None) -> bool:
    """Whether a driver has ended itself because its job was stalled."""
    return end is not None and end.failure is not None and end.failure.error_class == STALLED_CLASS


def stalls_again(newest: SubmissionExit | None, before: SubmissionExit | None) -> SubmissionExit | None:
    """Return the end of the newer of two drivers, when both were stalled at the same batch.

    :param newest: The end of the newest driver of a run that has ended.
    :param before: The end of the driver before it.
    """
    if not (ended_by_a_stall(newest) and ended_by_a_stall(before)):
        return None
    (query, batches), earlier = _where(newest), _where(before)
    return newest if batches is not None and (query, batches) == earlier else None


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


NO_CHECKPOINT = "no checkpoint: "  # how a driver begins the message of its status
# Read from the status that a leader writes.
_OF_LEADERS = frozenset({STALLED, CHECKPOINT_FAILING, CHECKPOINT_OLD, STANDBY_MISSING, STANDBY_READY})
NEWS_SECONDS = 86_400.0  # a run that failed longer ago is history


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """Limits of a healthy job.

    :param checkpoint_grace: Seconds for which checkpoints may fail.
    :param checkpoint_age: Maximum age in seconds of the newest checkpoint while there are later batches. A leader has
        *checkpoint_grace* to take a new checkpoint: after a long outage the newest checkpoint is old.
    :param stall_grace: Seconds that a job has to be STALLED: a driver may end itself, and be recovered, within these.
    :param recovery_point: Maximum age in seconds of the state that a drill restored; ``None`` for any age.
    :param recovery_time: Maximum duration in seconds of a drill; ``None`` for any duration.
    """

    checkpoint_grace: float
    checkpoint_age: float
    stall_grace: float = 0.0
    recovery_point: float | None = None
    recovery_time: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHealth:
    """A job as a list reads it, with the facts about its checkpoints and drivers that a status does not have.

    :param made_at: Time of the newest run's creation.
    :param start: Start of the newest run.
    :param previous: Result of the run before, if the newest run was created since the last read.
    :param checkpoint: The job's newest checkpoint, of any run.
    :param stalls_again: End of the newest ended driver, if it and the driver before were stalled at the same batch.
    :param drill: Its newest drill.
    """

    job: JobStatus[RunDepth]
    made_at: datetime | None = None
    start: StartPoint = field(default_factory=StartPoint)
    previous: RunResult | None = None
    checkpoint: CheckpointPointer | None = None
    stalls_again: SubmissionExit | None = None
    drill: Drill | None = None

    @property
    def run(self) -> int:
        """Number of the newest run; 0 without a run."""
        return self.job.newest.number if self.job.newest is not None else 0

    @property
    def is_live(self) -> bool:
        """Whether the newest run has no result."""
        return self.run > 0 and not self.job.is_over

    @property
    def status(self) -> Status | None:
        """Last status that a leader of the newest run has written."""
        return self.job.status if self.job.status is not None and self.job.status.run == self.run else None

    @property
    def own(self) -> CheckpointPointer | None:
        """The newest checkpoint, when it is of the newest run."""
        return self.checkpoint if self.checkpoint is not None and self.checkpoint.run == self.run else None

    @property
    def starts_from_newest(self) -> bool:
        """Whether the newest run continues from the newest checkpoint, with the same batch numbers."""
        start, newest = self.start, self.checkpoint
        named = (start.kind, start.source_job, start.source_id)
        return newest is not None and named == (StartKind.CHECKPOINT, self.job.job_id, str(newest.number))


def judge_health(health: JobHealth, bounds: HealthLimits, now: datetime) -> dict[str, Condition]:
    """Return the conditions by kind of event about health and drills; without a kind for a healthy job."""
    found, decision = {kind: Condition() for kind in (*HEALTH_KINDS, *DRILL_KINDS)}, decide(health.job, None, now)
    if health.is_live:
        recorded = (*_loop(health, decision), *_loss(health, now))
        stall = _stall(health, decision, bounds.stall_grace)
        led = (*_checkpoints(health, bounds, now), *_standbys(health, now))
        wrong = (*stall, *recorded, *led, *_drill(health, bounds))
    else:
        wrong = tuple(_failed(health.run, health.job.newest.result if health.job.newest else None, now))
    # Before the newest run, whose own failure counts more.
    before = tuple(_failed(health.run - 1, health.previous, now, f"run {health.run} was submitted after it"))
    return found | {each.kind: each for each in (*before, *wrong) if each.kind}


def of_leaders(seen: Mapping[Watched, Condition]) -> dict[Watched, Condition]:
    """Return *seen* without facts of a leader that no longer leads the job.

    The status of a former leader remains, and is not valid for the next leader: the status of another epoch does not
    count, until the new leader has written its own status and it was read.
    """
    return {
        (job_id, what): Condition() if _has_gone(condition, seen.get((job_id, LEADER))) else condition
        for (job_id, what), condition in seen.items()
    }


def _has_gone(condition: Condition, leader: Condition | None) -> bool:
    if condition.kind not in _OF_LEADERS or condition.recorded:
        return False
    if leader is None or leader.kind != GRANTED:
        return True
    return (leader.facts or {}).get("epoch") != (condition.facts or {}).get("epoch")


def _failed(run: int, result: RunResult | None, now: datetime, since: str = "") -> Iterator[Condition]:
    if result is None or result.state is not JobState.FAILED:
        return
    if (now - result.at).total_seconds() > NEWS_SECONDS:
        return
    reason = "; ".join(part for part in (result.reason, since) if part)
    facts: Event = {"run": run, "reason": reason, "ended_at": result.at, "checkpoint": result.checkpoint}
    kind = BUDGET_EXHAUSTED if result.budget_exhausted else RUN_FAILED
    yield Condition(kind=kind, key=(run,), facts=facts)


def _stall(health: JobHealth, decision: JobCondition, grace: float) -> Iterator[Condition]:
    """Yield the condition of a stalled job; its leader has *grace* seconds to end itself."""
    status, again = health.status, health.stalls_again
    facts: Event = {
        "run": health.run,
        "epoch": status.epoch if status is not None else 0,
        "checkpoint": health.own.number if health.own is not None else None,
    }
    if again is not None and again.failure is not None and not _commits(status, again):
        why = f"two drivers in a row ended themselves at the same batch; the last time: {again.failure.message}"
        yield Condition(kind=STALLED, key=(health.run, "again"), facts={**facts, "reason": why}, recorded=True)
    elif status is not None and decision.state == JobState.STALLED:
        # The driver writes the sentence once for each stall, so another sentence is another stall.
        key = (health.run, status.epoch, status.stalled)
        yield Condition(kind=STALLED, key=key, lasting=grace, facts={**facts, "reason": status.stalled})


def _loop(health: JobHealth, decision: JobCondition) -> Iterator[Condition]:
    last = decision.last
    if last is not None and last.loops:
        # One condition for the whole loop: it is reported once, also when attempts fail differently.
        run = last.run if last.run is not None else health.run
        facts: Event = {"run": run, "attempt": last.attempt, "reason": last.sentence}
        yield Condition(kind=FAILING, key=(health.run,), facts=facts, recorded=True)


def _loss(health: JobHealth, now: datetime) -> Iterator[Condition]:
    loss = health.status.loss if health.status is not None else None
    if loss is not None and (now - loss.at).total_seconds() <= NEWS_SECONDS:
        facts: Event = {"run": health.run, "epoch": loss.epoch, "reason": loss.reason, "queries": loss.queries}
        yield Condition(kind=INPUT_LOST, key=(health.run, loss.count), facts=facts, recorded=True)


def _standbys(health: JobHealth, now: datetime) -> Iterator[Condition]:
    status = health.status
    if status is None or status.standbys is None:
        return
    found, key = status.standbys, (health.run, status.epoch)
    facts: Event = {"run": health.run, "epoch": status.epoch, "ready": found.ready}
    if found.ready >= found.requested:
        yield Condition(kind=STANDBY_READY, key=key, facts=facts)
    elif reason := found.problem(now):
        facts |= {"reason": reason, "requested": found.requested}
        yield Condition(kind=STANDBY_MISSING, key=key, facts=facts)


def _checkpoints(health: JobHealth, bounds: HealthLimits, now: datetime) -> Iterator[Condition]:
    status, checkpoint = health.status, health.checkpoint
    if status is None:
        return
    facts: Event = {
        "run": health.run,
        "epoch": status.epoch,
        "checkpoint": checkpoint.number if checkpoint is not None else None,
    }
    key = (health.run, status.epoch)
    if status.message.startswith(NO_CHECKPOINT):
        failing: Event = {"reason": status.message.removeprefix(NO_CHECKPOINT)}
        yield Condition(kind=CHECKPOINT_FAILING, key=key, lasting=bounds.checkpoint_grace, facts={**facts, **failing})
    # A checkpoint of an earlier run is as old as the pause before this run: later batches are of this run.
    own = health.own
    taken = own.created_at if own is not None else health.made_at
    if taken is None:
        return
    age = (now - taken).total_seconds()
    if age > bounds.checkpoint_age and _is_behind(health, status):
        what = f"checkpoint {own.number}" if own is not None else "the run, which has no checkpoint,"
        old: Event = {
            "reason": f"{what} is {age:.0f} s old, and batches were committed after it",
            "checkpoint": own.number if own is not None else None,
            "age": round(age, 3),
        }
        yield Condition(kind=CHECKPOINT_OLD, key=key, lasting=bounds.checkpoint_grace, facts={**facts, **old})


def _is_behind(health: JobHealth, status: Status) -> bool:
    """Whether there are committed batches after the checkpoint: without input, an old checkpoint has all.

    A run that starts fresh numbers its batches anew, any other run continues the numbers of its source: the cut of a
    checkpoint applies to this run only if the run took it, or continues from it.
    """
    known = health.checkpoint if health.starts_from_newest else health.own
    if known is None and health.start.kind is not StartKind.FRESH:
        return any(query.committed_at is not None for query in status.queries.values())  # in this epoch
    cut = known.cut if known is not None else {}
    return any(query.committed > cut.get(name, -1) for name, query in status.queries.items())


def _drill(health: JobHealth, bounds: HealthLimits) -> Iterator[Condition]:
    drill = health.drill
    if drill is None:
        return
    facts: Event = {
        "run": health.run,
        "drill_id": drill.drill_id,
        "source": drill.source,
        "age_seconds": drill.age_seconds,
        "total_seconds": drill.total_seconds,
        "started_at": drill.started_at,
    }
    if drill.verdict is DrillVerdict.FAILED:
        yield _of_drill(DRILL_FAILED, drill, facts, "; ".join(drill.reasons) or "the drill has failed")
    if bounds.recovery_point is not None and drill.age_seconds > bounds.recovery_point:
        reason = (
            f"{drill.source} was {drill.age_seconds:.0f} s old, and at most {bounds.recovery_point:g} s are allowed"
        )
        yield _of_drill(RECOVERY_POINT, drill, facts, reason)
    if bounds.recovery_time is not None and drill.total_seconds > bounds.recovery_time:
        reason = f"the drill took {drill.total_seconds:.1f} s, and at most {bounds.recovery_time:g} s are allowed"
        yield _of_drill(RECOVERY_TIME, drill, facts, reason)


def _of_drill(kind: str, drill: Drill, facts: Event, reason: str) -> Condition:
    return Condition(kind=kind, key=(drill.drill_id,), facts={**facts, "reason": reason})
