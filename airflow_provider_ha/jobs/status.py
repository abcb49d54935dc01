"""Status of a job, and the state that follows from the reads. Pure.

:mod:`~airflow_provider_ha.jobs.observe` reads a job at one of three depths. The depth is part of the type: a function
    that needs a whole job accepts no other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

from typing_extensions import TypeVar

from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import Generation, JobState, LeaderInfo, Recovery, RunResult, Status
from airflow_provider_ha.jobs.runs.run_store import RunView
from airflow_provider_ha.jobs.runs.submissions import LastFailure


class StandingDepth:
    """First depth: whether a leader of the cluster may have to recover the job."""


class RunDepth(StandingDepth):
    """Second depth: also the state of the newest run, as a list shows it."""


class WholeDepth(RunDepth):
    """Third depth: every record of the job and of its newest run."""


DepthT_co = TypeVar("DepthT_co", bound=StandingDepth, covariant=True, default=WholeDepth)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestRun:
    """Facts about the newest run that determine its state.

    :param attempt: Its newest submission; 0 without one.
    :param created_zxid: ZooKeeper transaction that created this submission, and wrote the graph pointer.
    :param started: Whether the driver or supervisor of this submission has reported its start; not read for a standing.
    :param ended: Whether all processes of this submission are proven dead.
    :param result: ``None`` while the run is live.
    """

    number: int
    attempt: int = 0
    created_zxid: int = 0
    started: bool = False
    ended: bool = False
    result: RunResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus(Generic[DepthT_co]):
    """A job as read. Without a parameter, the type means a whole job.

    :param leader: The leader, for any run; ``None`` without a leader.
    :param epoch: Epoch of the latest leadership, past or present; 0 if the job was never led.
    :param epoch_zxid: ZooKeeper transaction of that leadership: orders it against submissions.
    :param graph: Exists if and only if a new leader has to recover the job.
    :param facts: The newest run, at a depth that does not read *run*.
    :param quarantined: Whether the job is in quarantine; not read for a whole job.
    :param repaired: Whether the cause of the quarantine is gone.
    :param broken: Whether a record cannot be read. A whole job raises an error instead.
    :param trouble: Why the job is in quarantine or broken, for people; only readers of one job know it.
    :param locked: Whether a broken job has a leader node.
    :param gone: Whether the engine has proven the death of the newest submission, which no exit shows yet.
    :param dirty: Runs that are over and whose clean-up has not ended; only the cluster's leader reads it.
    :param mark: Changes with each change of the nodes that were read; for a standing only.
    :param status: The status that the leader last wrote, maybe in an earlier epoch. From the second depth on.
    :param loop: The last failure, if the newest attempts have all failed; only a list reads it.
    :param run: The newest run. This and the following fields are for a whole job only.
    :param generation: The current working directory.
    :param checkpoint_numbers: Retained checkpoints, ascending.
    :param checkpoint_counter: Highest checkpoint number ever assigned; 0 for none.
    :param recovery: The recovery of the loss of *epoch*; ``None`` until it is claimed.
    """

    job_id: str
    leader: LeaderInfo | None = None
    epoch: int = 0
    epoch_zxid: int = 0
    graph: GraphPointer | None = None
    facts: NewestRun | None = None
    quarantined: bool = False
    repaired: bool = False
    broken: bool = False
    trouble: str = ""
    locked: bool = False
    gone: bool = False
    dirty: tuple[int, ...] = ()
    mark: tuple[int | None, ...] = field(default=(), compare=False)
    status: Status | None = None
    loop: LastFailure | None = None
    run: RunView | None = None
    generation: Generation | None = None
    checkpoint_numbers: tuple[int, ...] = ()
    checkpoint_counter: int = 0
    recovery: Recovery | None = None

    @property
    def newest(self) -> NewestRun | None:
        """The newest run; ``None`` without one. A standing knows only the run that the graph pointer names."""
        view = self.run
        if view is None:
            return self.facts
        last = view.newest
        if last is None:
            return NewestRun(number=view.run.number, result=view.result)
        return NewestRun(
            number=view.run.number,
            attempt=last.submission.attempt,
            created_zxid=last.created_zxid,
            started=last.started is not None,
            ended=last.exit is not None,
            result=view.result,
        )

    @property
    def state(self: JobStatus[RunDepth]) -> JobState:
        """State of the newest run."""
        return self._state

    @property
    def _state(self) -> JobState:
        """State of the newest run, as far as this depth shows it.

        A result decides. Otherwise the run is lost when the processes of its newest submission are proven dead: its
        leader node may outlive them by a session timeout. Otherwise the leader of this run decides. Without a leader,
        the run is lost when its newest submission has led, and otherwise on its way. Epochs alone do not show which
        submission has led, because earlier runs use the same counter; the order of transactions does. A single
        transaction creates the submission of a promoted standby driver and grants it the lock.
        """
        newest, leader = self.newest, self.leader
        if newest is None:
            return JobState.SUBMITTED
        if newest.result is not None:  # guard: ended-run-is-run-again
            return newest.result.state
        has_led = newest.attempt > 0 and self.epoch > 0 and self.epoch_zxid >= newest.created_zxid
        if newest.ended or (leader is None and (has_led or self.gone)):
            return JobState.LOST
        if leader is not None and leader.run == newest.number:
            return led_state(leader, self.status)
        return JobState.STARTING if newest.started else JobState.SUBMITTED

    @property
    def is_lost(self) -> bool:
        """``True`` if the newest run has no result and its newest driver is gone."""
        return self._state is JobState.LOST

    @property
    def is_proven_dead(self) -> bool:
        """Whether all processes of the newest submission are proven dead."""
        return self.newest is not None and self.newest.ended

    @property
    def is_over(self) -> bool:
        """``True`` if the newest run has a result."""
        return self.newest is not None and self.newest.result is not None  # guard: result-is-final

    @property
    def has_stray_pointer(self) -> bool:
        """``True`` if the graph pointer names another run than the newest."""
        newest, pointer = self.newest, self.graph
        return newest is not None and pointer is not None and pointer.run != newest.number  # guard: pointer-of-this-run

    @property
    def is_led(self) -> bool:
        """``True`` if the newest submission leads. The leader node of an earlier one may outlive it."""
        newest, leader = self.newest, self.leader
        if newest is None or not newest.attempt or leader is None or self.broken:
            return False
        is_its = (leader.run, leader.attempt) == (newest.number, newest.attempt)
        return is_its and newest.result is None and not newest.ended

    @property
    def is_idle(self) -> bool:
        """``True`` if the job has no graph pointer, so that no new leader has to recover it."""
        return self.graph is None and not self.broken

    @property
    def needs_a_look(self) -> bool:
        """``True`` if the job may need an action; a led or idle job needs none."""
        return self.quarantined or not (self.is_led or self.is_idle)

    @property
    def is_unclear(self) -> bool:
        """``True`` if only the whole job shows the necessary action.

        Another release wrote its pointer, the leader belongs to another attempt, or a record cannot be read.
        """
        if self.quarantined or self.is_idle:
            return False
        if self.broken or self.newest is None or not self.newest.attempt:
            return True
        return self.leader is not None and not (self.is_led or self.is_lost or self.is_over)

    @property
    def refused(self) -> str:
        """Reason why the supervisor of the newest submission refused a driver; empty otherwise, and if not read."""
        return self.run.refused if self.run is not None and self.leader is None else ""

    @property
    def refusal(self) -> str:
        """The sentence that reports *refused*; empty without a refusal."""
        newest = self.run.newest if self.run is not None and self.refused else None
        if newest is None or newest.started is None or self.run is None:
            return ""
        return newest.started.refusal(self.run.run.number, newest.submission.attempt)

    @property
    def host(self) -> str:
        """Host of the leader; empty without one."""
        return self.leader.host if self.leader is not None else ""

    @property
    def of_leader(self: JobStatus[RunDepth]) -> Status | None:
        """Status that the present leader has written; ``None`` without one."""
        if self.leader is None or self.status is None or self.status.epoch != self.leader.epoch:
            return None
        return self.status

    @property
    def lag(self: JobStatus[RunDepth]) -> int | None:
        """Unread rows in the sources of a led job; at most a minute old.

        ``None`` without a leader's status, or without a query that reports its lag.
        """
        if (status := self.of_leader) is None:
            return None
        reported = [query.lag for query in status.queries.values() if query.lag is not None]
        return sum(reported) if reported else None

    @property
    def latest_checkpoint(self: JobStatus[WholeDepth]) -> int | None:
        """Number of the newest retained checkpoint."""
        return self.checkpoint_numbers[-1] if self.checkpoint_numbers else None


def led_state(leader: LeaderInfo, status: Status | None) -> JobState:
    """Return the state in the leader's status; a status of another epoch is ignored."""
    if status is None or status.epoch != leader.epoch:
        return JobState.STARTING
    if status.is_stalled:
        return JobState.STALLED
    # Only a run with a result is terminal. Without one, the leader is still about to write it.
    return JobState.STOPPING if status.state.terminal else status.state  # guard: status-is-taken-for-a-result
