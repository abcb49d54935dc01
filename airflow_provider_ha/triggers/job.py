"""Follow a run of a job until it is RUNNING, until it ends, or until its driver is lost.

Invariant: killing the watcher leaves the stream alone unless ``when_killed`` says otherwise, and then only the holder
of the watcher's claim may act (``triggers/_kill.py``).

A sensor often starts at the same time as the task that submits the job. So an unknown job, or a run that was already
over when the sensor first executed, is no reason to fail. The end of a run during the wait is, because the awaited fact
can no longer occur.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.api.documents import events
from airflow_provider_ha.coordination.coordinator import Node
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.fleet.notify.session import Nodes
from airflow_provider_ha.jobs.drivers.driver_log import log_place
from airflow_provider_ha.jobs.model import JobState, LeaderInfo
from airflow_provider_ha.jobs.runs.run_store import RunStore, RunView, SubmissionView, decode
from airflow_provider_ha.jobs.runs.submissions import how_it_ended
from airflow_provider_ha.jobs.runs.watchers import Announcement, KillPolicy
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.triggers._base import Event, ReadNeed, SparkHaTrigger
from airflow_provider_ha.triggers._kill import kill


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient


RUNNING = "running"
FINISHED = "finished"

# The supervisor writes its proof of death about 10 ms after the leader's znode is gone, and that proof has no watch: a
# few more looks are cheaper than a watch for every healthy job.
_PROOF_POLL = 0.1
_PROOF_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class DriverLoss:
    """Loss of a driver.

    :param attempt: Attempt of its submission.
    :param due: Time of the next submission, in seconds of the monotonic clock.
    :param seen: Time of the first look that showed the loss, on the same clock.
    :param proven: All processes of the driver are proven dead.
    """

    attempt: int
    due: float
    seen: float
    proven: bool


class SparkHaJobTrigger(SparkHaTrigger):
    """Wait for a run of a job.

    Events: ``running`` (leader present, epoch known, status RUNNING; only with ``wait_for="running"``), ``ended`` (the
    run has a result), ``recover`` (its driver is lost and the delay of the restart strategy is over, or the job has had
    no leader for *start_timeout*, which requires a query of the engine).

    The trigger waits out the delay in the same deferral. Another deferral would cost seconds, and Airflow can lose a
    task that defers and resumes within them.

    :param run: Number of the run.
    :param wait_for: ``"running"`` or ``"finished"``.
    :param recover_after: Seconds from now until the recovery of *lost_attempt*. Relative, so that the clocks of two
        hosts are never compared; it restarts when the trigger moves to another triggerer.
    :param lost_attempt: Attempt of the submission whose loss is already known.
    :param attempt: Newest attempt in the task's log: the trigger logs the loss of this and later attempts.
    :param when_killed: ``"detach"``, ``"stop_with_checkpoint"`` or ``"cancel"``.
    :param watcher_id: Name of the task's znode in ``watchers/``.
    :param claim: Version of the task's claim on that znode; ``None`` without a claim.
    :param start_timeout: Seconds from a submission to its leader.
    """

    def __init__(
        self,
        *,
        run: int = 0,
        wait_for: str = RUNNING,
        recover_after: float | None = None,
        lost_attempt: int | None = None,
        attempt: int | None = None,
        when_killed: str = KillPolicy.DETACH.value,
        watcher_id: str = "",
        claim: int | None = None,
        start_timeout: float = 120.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.number = run
        self.wait_for = wait_for
        self.recover_after = recover_after
        self.lost_attempt = lost_attempt
        self.attempt = attempt
        self.when_killed = when_killed
        self.watcher_id = watcher_id
        self.claim = claim
        self.start_timeout = start_timeout
        self._created = time.monotonic()
        self._unled: float | None = self._created
        self._loss: DriverLoss | None = None
        self._refused = 0  # newest attempt whose refusal is in the task's log

    def kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments, as plain JSON."""
        return super().kwargs() | {
            "run": self.number,
            "wait_for": self.wait_for,
            "recover_after": self.recover_after,
            "lost_attempt": self.lost_attempt,
            "attempt": self.attempt,
            "when_killed": self.when_killed,
            "watcher_id": self.watcher_id,
            "claim": self.claim,
            "start_timeout": self.start_timeout,
        }

    def nodes(self, paths: JobPaths) -> Sequence[str]:
        """Return the leader and the run's result, and for ``wait_for="running"`` the status."""
        always = (paths.leader, paths.run_result(self.number))
        return (*always, paths.status) if self.wait_for == RUNNING else always

    def absent(self, paths: JobPaths) -> Sequence[str]:
        """Return the run's result."""
        return (paths.run_result(self.number),)

    def need(self, found: Nodes, paths: JobPaths) -> ReadNeed:
        """Require no look while the attempt in the task's log is the leader."""
        leader = leader_of(found[paths.leader])
        if leader is None or leader.run != self.number or found[paths.run_result(self.number)] is not None:
            self._unled = self._unled or time.monotonic()
            return ReadNeed.ALWAYS
        self._unled = None
        if self.wait_for == RUNNING or leader.attempt != self.attempt:
            return ReadNeed.ON_CHANGE
        self._loss = None
        return ReadNeed.NONE

    def announcement(self, paths: JobPaths) -> Announcement | None:
        """Return the announcement of the task: ``spark-ha job show`` lists the followers of a job."""
        return Announcement.of_task(paths, self.watcher_id or "without a name")

    def pause(self) -> float:
        """Return the seconds until the next look: at most until a due recovery, or the expected proof of death."""
        loss, now = self._loss, time.monotonic()
        if loss is None or loss.due <= now:
            return self.poll_interval
        proof = _PROOF_POLL if not loss.proven and now - loss.seen < _PROOF_SECONDS else self.poll_interval
        return min(self.poll_interval, proof, loss.due - now)

    def look(self, client: HaClient) -> Event | None:
        """Read the job, and also the run itself once a newer run exists."""
        snapshot = client.job(self.job_id).snapshot()
        view = snapshot.run
        if view is not None and view.run.number > self.number:
            return superseded_event(self.job_id, self._own_run(client))
        self._tell_restarts(view)
        event = run_event(snapshot, run=self.number, wait_for=self.wait_for)
        if event is None:
            self._loss = None
            return self._stalled(snapshot)
        if event["status"] != "lost":
            return event
        due = self._due(client, snapshot, event)
        return event | {"status": "recover"} if due <= time.monotonic() else None

    async def on_kill(self) -> None:
        """Stop the job if a user ended the task and requested that; ``triggers/_kill.py`` describes every guard."""
        if self.when_killed != KillPolicy.DETACH.value:
            await kill(self)

    def _stalled(self, snapshot: JobStatus) -> Event | None:
        """Report a submission without a leader or a result: its submitter may have died before it called the engine."""
        if snapshot.leader is not None:
            self._unled = None
        if snapshot.run is None or self._unled is None or time.monotonic() - self._unled < self.start_timeout:
            return None
        reason = f"the job has had no leader for {self.start_timeout:.0f} s"
        return events.loss_event(snapshot, snapshot.run, reason, status="recover").to_json()

    def _tell_restarts(self, view: RunView | None) -> None:
        """Log lost and replaced attempts and refusals since the last look, for readers of the task log."""
        newest = view.newest if view is not None else None
        if view is None or newest is None or view.run.number != self.number:
            return
        if self.attempt is not None:
            for sentence in restarts_since(self.job_id, view, self.attempt):
                self.log.warning("%s", sentence)
        self.attempt = newest.submission.attempt
        if view.refused and self._refused != self.attempt:
            self._refused = self.attempt
            self.log.warning("Attempt %d has started no driver: %s", self.attempt, view.refused)

    def _own_run(self, client: HaClient) -> RunView:
        paths = ClusterPaths(client.config.root, client.config.cluster_id).job(self.job_id)
        return RunStore(client.coordinator, paths).get(self.number)

    def _due(self, client: HaClient, snapshot: JobStatus, event: Event) -> float:
        """Return the time of the recovery; computed once, and again when the death is proven.

        :raises HaError: The options of the run could not be read.
        """
        attempt, known = event["attempt"], self._loss
        if attempt == self.lost_attempt:
            return self._remember(attempt, self._created + (self.recover_after or 0.0), proven=True).due
        proven = snapshot.is_proven_dead
        if known is not None and known.attempt == attempt and known.proven == proven:
            return known.due
        left = client.job(self.job_id).delay_left(snapshot)
        loss = self._remember(attempt, time.monotonic() + left, proven=proven)
        if known is None and left > 0:
            self.log.warning("The driver is gone: %s; the job is submitted again in %.1f s", event["reason"], left)
        return loss.due

    def _remember(self, attempt: int, due: float, *, proven: bool) -> DriverLoss:
        known = self._loss
        seen = known.seen if known is not None and known.attempt == attempt else time.monotonic()
        self._loss = DriverLoss(attempt, due, seen, proven)
        return self._loss


def run_event(snapshot: JobStatus, *, run: int, wait_for: str) -> Event | None:
    """Return the event that a snapshot shows for the newest run *run*; ``None`` for no event yet."""
    view = snapshot.run
    if view is None or view.run.number != run:
        return None
    if view.result is not None:
        return events.ended_event(snapshot.job_id, view.run.number, view.result).to_json()
    if snapshot.state is JobState.LOST:
        return events.loss_event(snapshot, view, _how_it_ended(view.newest)).to_json()
    if wait_for == RUNNING and snapshot.state is JobState.RUNNING:
        return events.running_event(snapshot, view).to_json()
    return None


def restarts_since(job_id: str, view: RunView, attempt: int) -> list[str]:
    """Return sentences about the losses, from *attempt* on, that another attempt has followed. Pure."""
    sentences = []
    for lost, following in pairwise(view.submissions):
        if lost.submission.attempt < attempt:
            continue
        reason = _how_it_ended(lost)
        made = f"attempt {following.submission.attempt} was submitted by {following.submission.requested_by}"
        sentences.append(f"The driver of run {view.run.number} of job {job_id} was lost: {reason}; {made}")
        if lost.exit is not None and lost.exit.last_lines and (place := log_place(job_id, view.run.number, lost)):
            sentences.append(f"The log of attempt {place.attempt}: {place}. Its last lines:\n{lost.exit.last_lines}")
    return sentences


def _how_it_ended(lost: SubmissionView | None) -> str:
    if lost is None or lost.exit is None:
        return "its leader is gone"
    return f"attempt {lost.submission.attempt}: {how_it_ended(lost.exit)}"


def superseded_event(job_id: str, view: RunView) -> Event:
    """Return the event of a run that a newer run has replaced: it has a result, or a broken history."""
    if view.result is not None:
        return events.ended_event(job_id, view.run.number, view.result).to_json()
    reason = f"run {view.run.number} of job {job_id!r} has no result, but a newer run exists"
    return events.ErrorEvent(reason=reason).to_json()


def leader_of(node: Node | None) -> LeaderInfo | None:
    """Return the record of a leader; ``None`` without a leader, an epoch, or a readable record.

    An unreadable node is no error here: its owner leads anyway, and reading the whole job reports it.
    """
    try:
        leader = decode(node, LeaderInfo)
    except RecordCorruptError:
        return None
    return leader if leader is not None and leader.epoch > 0 else None
