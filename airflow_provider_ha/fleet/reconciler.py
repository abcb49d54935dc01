"""Reconciliation of a job by the leader of the cluster: observe, decide, wait, act.

Invariants:

- Only lasting conditions cause an act. A loss without a proof of death is debounced, and the delay of the job's restart
  strategy counts from its first observation. A change in that time (another attempt, another epoch, the proof) begins a
  new wait. A proof of death is final, so a proven loss is not debounced.
- A process that no longer leads the cluster does nothing. It checks its leadership before every act, and each act that
  creates nodes is fenced by the cluster's epoch or by the job's own lock.
- An error about a job becomes the job's outcome. Only the loss of the leadership itself is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.coordination.coordinator import Delete, Node
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import (
    DecisionNeededError,
    HaError,
    JobStateError,
    LeadershipError,
    LeadershipLostError,
    NodeExistsError,
    NodeMissingError,
    UnknownJobError,
)
from airflow_provider_ha.fleet.observations import JobObservation, Quarantine, look, quarantine_op, quarantine_reason
from airflow_provider_ha.jobs.condition import Action, JobCondition, decide
from airflow_provider_ha.jobs.drivers.driver_log import log_place
from airflow_provider_ha.jobs.job_context import CallerIdentity, JobContext
from airflow_provider_ha.jobs.job_records import who
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.rebuild.rebuild import refuse_unknown
from airflow_provider_ha.jobs.recovery.lost_runs import recover
from airflow_provider_ha.jobs.recovery.restart_policy import Resubmit
from airflow_provider_ha.jobs.removal.cleanup import clean_up, has_past_runs
from airflow_provider_ha.jobs.runs.run_store import refuse_other_run
from airflow_provider_ha.jobs.runs.standbys import StandbyStore
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.jobs.submit.requests import SubmittedRun
from airflow_provider_ha.jobs.submit.standby_launch import launch_standbys


log = logging.getLogger(__name__)


class ReconcileOutcome(str, Enum):
    """Outcome of reconciling a job."""

    LEFT_ALONE = "left alone"
    PENDING = "pending"
    RECOVERED = "recovered"
    ON_ITS_WAY = "on its way"
    GIVEN_UP = "given up"
    DECISION_NEEDED = "decision needed"
    CLEANED_UP = "cleaned up"
    REPLENISHED = "replenished"
    QUARANTINED = "put into quarantine"
    IN_QUARANTINE = "in quarantine"
    NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileTimings:
    """Time limits before an act, in seconds.

    :param debounce: Minimum duration of a loss without a proof that all processes are dead.
    :param proof: Longest pause between two reads of a loss while it is debounced; the proof follows after some 10 ms.
    :param launch_timeout: Limit for a submission until the engine has it, because its submitter may have died.
    :param start_timeout: Limit for a launched submission until it leads; by default the job's option.
    :param poll: Longest pause between two reads of a waiting job, and after a failure.
    :param replenish: Minimum time for which a job lacks a standby driver: its supervisors start another one earlier.
    :param backstop: Pause between two reads of a job without open actions; its watches trigger earlier reads.
    :param inspection: Limit for reading a job: a hanging file system returns neither a result nor an error.
    :param act: Limit for an act: a launch, or a cleanup of many files; the next leader continues a cleanup.
    """

    debounce: float = 1.0
    proof: float = 0.1
    launch_timeout: float = 15.0
    start_timeout: float | None = None
    poll: float = 5.0
    replenish: float = 60.0
    backstop: float = 60.0
    inspection: float = 60.0
    act: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileResult:
    """A job, and the act on it.

    :param detail: Description for users.
    :param again: Seconds until the next read is useful; ``None`` if the job waits for nothing.
    """

    job_id: str
    outcome: ReconcileOutcome
    detail: str
    again: float | None = None


@dataclass(frozen=True, slots=True)
class JobWait:
    """The wait of a job, as plain values that a later reconciler in another process can continue.

    :param what: Action, run, attempt, epoch and state, as text. A different text begins a new wait.
    :param left: Seconds until the act.
    """

    what: str
    left: float


@dataclass(frozen=True, slots=True)
class _OpenWait:
    """An open wait: its subject, its due time and its start."""

    what: str
    due: float
    since: float


class Reconciler:
    """Reconciles the jobs of a cluster under one leadership. Safe in several threads, with one thread per job.

    :param client: The cluster; its session is the leadership's.
    :param patience: Time limits.
    :param waiting: Open waits of an earlier reconciler, by job; see :attr:`waiting`.
    :ivar inspected_at: Time of the last successful read of a job.
    """

    def __init__(
        self,
        client: HaClient,
        leadership: Leadership,
        *,
        by: str,
        patience: ReconcileTimings,
        waiting: Mapping[str, JobWait] | None = None,
    ) -> None:
        self._client = client
        self._leadership = leadership
        self._by = by
        self._patience = patience
        self._begun: dict[str, tuple[float, float]] = {}
        self.inspected_at: datetime | None = None
        now = client.clock.lease_time()
        self._sightings = {name: _OpenWait(each.what, now + each.left, now) for name, each in (waiting or {}).items()}

    @property
    def waiting(self) -> dict[str, JobWait]:
        """Open waits of the jobs."""
        now = self._client.clock.lease_time()
        return {name: JobWait(each.what, max(0.0, each.due - now)) for name, each in self._sightings.items()}

    def overdue(self) -> tuple[str, float] | None:
        """Return an overdue read or act and its duration in seconds; ``None`` if all are within their limits."""
        now = self._client.clock.lease_time()
        lasting = ((what, now - begun, limit) for what, (begun, limit) in list(self._begun.items()))
        return next(((what, lasts) for what, lasts, limit in lasting if lasts > limit), None)

    @contextmanager
    def inspecting(self, what: str) -> Iterator[None]:
        """Count a read in the block as hanging if it exceeds the limit for reads."""
        with self._limited(f"inspecting {what}", self._patience.inspection):
            yield
        self.inspected_at = self._client.clock.now()

    @contextmanager
    def acting(self, what: str) -> Iterator[None]:
        """Count an act in the block as hanging if it exceeds the limit for acts."""
        with self._limited(what, self._patience.act):
            yield

    @contextmanager
    def _limited(self, what: str, limit: float) -> Iterator[None]:
        self._begun[what] = (self._client.clock.lease_time(), limit)
        try:
            yield
        finally:
            self._begun.pop(what, None)

    def attend(self, job_id: str) -> ReconcileResult:
        """Read a job and carry out the due act.

        :raises LeadershipLostError: This process no longer leads the cluster; the job is unchanged.
        :raises FencedError: As above, and another process may lead the cluster already.
        """
        self._require_leadership()
        try:
            return self._attend(job_id)
        except LeadershipError:
            self._require_leadership()  # the job's own lock is not the cluster's
            return self._later(job_id, "another process leads the job now")
        except (HaError, OSError) as error:  # an unremovable directory affects only this job
            log.warning("job %s could not be reconciled: %s", job_id, error)
            return self._later(job_id, str(error))

    def _attend(self, job_id: str) -> ReconcileResult:
        with self.inspecting(f"job {job_id}"):
            try:
                sight = look(self._client.coordinator, self._client.store, self._client.paths, job_id)
            except UnknownJobError:
                self._sightings.pop(job_id, None)
                return self._gone(job_id)
            found = decide(sight.status, sight.options, self._client.clock.now())
            found = self._with_standbys(sight, self._with_past(sight, found))
        if found.action is Action.RELEASE and sight.quarantine is not None:
            self._release(sight.quarantine, found.reason)
            return self._attend(job_id)
        if found.action is Action.LEAVE:
            self._sightings.pop(job_id, None)
            kept_apart = sight.status.quarantined
            outcome = ReconcileOutcome.IN_QUARANTINE if kept_apart else ReconcileOutcome.LEFT_ALONE
            return ReconcileResult(job_id=job_id, outcome=outcome, detail=found.reason)
        left = self._left(sight, found)
        if left > 0:
            again = min(left, self._longest_pause(sight, found.action))
            return ReconcileResult(job_id=job_id, outcome=ReconcileOutcome.PENDING, detail=found.reason, again=again)
        self._require_leadership()
        log.info("job %s: %s, because %s", job_id, found.action.value, found.reason)
        job = self._client.context(job_id, cluster=self._leadership)
        with self.acting(f"{found.action.value} of job {job_id}"):
            if found.action is Action.QUARANTINE:
                if sight.outage:
                    self._client.roots.require()
                done = self._quarantine(job, found.reason, outage=sight.outage)
            elif found.action is Action.CLEAN_UP:
                done = self._clean_up(job, found.reason)
            elif found.action is Action.REPLENISH:
                done = self._replenish(job, found.reason)
            else:
                done = self._recover(job, found.reason, overdue=found.action is Action.WAIT)
        self._sightings.pop(job_id, None)
        return done

    def _gone(self, job_id: str) -> ReconcileResult:
        try:
            refuse_unknown(self._client.context(job_id))
        except JobStateError as error:
            return ReconcileResult(job_id=job_id, outcome=ReconcileOutcome.DECISION_NEEDED, detail=str(error))
        return ReconcileResult(job_id=job_id, outcome=ReconcileOutcome.LEFT_ALONE, detail="gone")

    def _with_past(self, sight: JobObservation, found: JobCondition) -> JobCondition:
        """Return CLEAN_UP instead of LEAVE for an ended job without a leader that has removable runs."""
        is_over = sight.status.is_over and sight.status.leader is None
        if found.action is not Action.LEAVE or not is_over:
            return found
        if has_past_runs(self._client.context(sight.status.job_id, cluster=self._leadership)):
            return replace(found, action=Action.CLEAN_UP, reason="it knows runs that are long over")
        return found

    def _with_standbys(self, sight: JobObservation, found: JobCondition) -> JobCondition:
        """Return REPLENISH instead of LEAVE for a led job with fewer standby drivers than it requests."""
        leading, run = sight.status.of_leader, sight.status.run
        count = leading.standbys if leading is not None else None
        if found.action is not Action.LEAVE or run is None or count is None or count.missing_since is None:
            return found
        job = self._client.context(sight.status.job_id, cluster=self._leadership)
        joined = StandbyStore(job.coordinator, job.paths, run.run.number).joined()
        if joined >= count.requested:  # one of them is not ready yet
            return found
        reason = f"it has {joined} of {count.requested} standby drivers"
        return replace(found, action=Action.REPLENISH, reason=reason)

    def _left(self, sight: JobObservation, found: JobCondition) -> float:
        """Return the seconds until an action is due; records the start of the wait."""
        now, job_id = self._client.clock.lease_time(), sight.status.job_id
        action = Action.RECOVER if found.action.follows_a_loss else found.action
        what = " ".join(map(str, (action.value, *_facts(sight.status))))
        sighting = self._sightings.get(job_id)
        if sighting is None or sighting.what != what:
            sighting = self._sightings[job_id] = _OpenWait(what, now + self._wait(sight, found), now)
        return sighting.due - now

    def _wait(self, sight: JobObservation, found: JobCondition) -> float:
        if found.action is Action.WAIT:
            if sight.status.state is not JobState.STARTING:
                return self._patience.launch_timeout
            given = self._patience.start_timeout
            return given if given is not None else (sight.options or HaOptions()).start_timeout
        if found.action is Action.REPLENISH:
            return self._patience.replenish
        is_proven = found.action.follows_a_loss and sight.status.is_proven_dead
        wait = 0.0 if is_proven else self._patience.debounce
        return max(wait, found.restart.after) if isinstance(found.restart, Resubmit) else wait

    def _longest_pause(self, sight: JobObservation, action: Action) -> float:
        if not action.follows_a_loss or sight.status.is_proven_dead:
            return self._patience.poll
        now, sighting = self._client.clock.lease_time(), self._sightings[sight.status.job_id]
        return self._patience.proof if now - sighting.since < self._patience.debounce else self._patience.poll

    def _recover(self, job: JobContext, reason: str, *, overdue: bool) -> ReconcileResult:
        try:
            run = recover(job, by=self._by, wait=False, overdue=overdue)
        except DecisionNeededError as error:
            return ReconcileResult(job_id=job.job_id, outcome=ReconcileOutcome.DECISION_NEEDED, detail=error.message)
        except JobStateError as error:
            result = job.snapshot().run
            failed = result is not None and result.result is not None and result.result.state is JobState.FAILED
            return ReconcileResult(
                job_id=job.job_id,
                outcome=ReconcileOutcome.GIVEN_UP if failed else ReconcileOutcome.LEFT_ALONE,
                detail=error.message,
            )
        lost = _lost_log(job, run) if run.created else ""
        detail = f"{reason}: attempt {run.attempt} of run {run.run}{lost}"
        outcome = ReconcileOutcome.RECOVERED if run.created else ReconcileOutcome.ON_ITS_WAY
        return ReconcileResult(job_id=job.job_id, outcome=outcome, detail=detail)

    def _clean_up(self, job: JobContext, reason: str) -> ReconcileResult:
        clean_up(job)
        return ReconcileResult(job_id=job.job_id, outcome=ReconcileOutcome.CLEANED_UP, detail=reason)

    def _replenish(self, job: JobContext, reason: str) -> ReconcileResult:
        """Start the missing standby drivers on this host: also another one than that of the leader."""
        run = job.runs.latest()
        if run is None or run.newest is None or run.result is not None:
            return ReconcileResult(job_id=job.job_id, outcome=ReconcileOutcome.LEFT_ALONE, detail="its run has ended")
        engine = job.engines.get(run.newest.submission.engine)
        engine.check_host()
        started = launch_standbys(job, run.run, engine)
        outcome = ReconcileOutcome.REPLENISHED if started else ReconcileOutcome.LEFT_ALONE
        return ReconcileResult(job_id=job.job_id, outcome=outcome, detail=reason, again=self._patience.replenish)

    def _release(self, quarantine: Node, reason: str) -> None:
        """End a quarantine whose reason no longer holds; a user may end it at the same moment."""
        log.info("%s is removed: %s", quarantine.path, reason)
        with suppress(NodeMissingError):
            self._leadership.commit(Delete(quarantine.path, quarantine.version))

    def _quarantine(self, job: JobContext, reason: str, *, outage: bool = False) -> ReconcileResult:
        record = Quarantine(
            job_id=job.job_id,
            reason=reason,
            by=who(self._by),
            cluster_epoch=self._leadership.epoch,
            at=self._client.clock.now(),
            outage=outage,
        )
        try:
            self._leadership.commit(quarantine_op(self._client.paths, record))  # guard: quarantine-fenced
        except NodeExistsError:
            log.info("job %s is in quarantine already", job.job_id)
        log.error("job %s is in quarantine: %s", job.job_id, reason)
        return ReconcileResult(job_id=job.job_id, outcome=ReconcileOutcome.QUARANTINED, detail=reason)

    def _later(self, job_id: str, detail: str) -> ReconcileResult:
        return ReconcileResult(
            job_id=job_id, outcome=ReconcileOutcome.NOT_KNOWN, detail=detail, again=self._patience.poll
        )

    def _require_leadership(self) -> None:
        if self._leadership.lease_left() <= 0:
            raise LeadershipLostError(f"this process no longer leads {self._client.paths.lock.label}")


def _lost_log(job: JobContext, run: SubmittedRun) -> str:
    """Return the location of the log of the driver that *run* replaces."""
    try:
        views = [view for view in job.runs.get(run.run).submissions if view.submission.attempt < run.attempt]
    except HaError:
        return ""  # the job is recovered anyway
    place = log_place(job.job_id, run.run, views[-1]) if views else None
    return f"; the log of the lost driver: {place}" if place else ""


def _facts(status: JobStatus) -> tuple[object, ...]:
    """Return the facts whose change begins a new wait."""
    if status.run is None:
        return (status.trouble,)
    newest = status.run.newest
    facts = (status.run.run.number, newest and newest.submission.attempt, status.epoch, status.state.value)
    return (*facts, "proven") if status.is_proven_dead else facts


def recover_one(client: HaClient, job_id: str, *, by: str, seen: int | None = None) -> ReconcileResult:
    """Recover a job on a user's request: immediately, without the restart strategy's delay or the cluster's lock.

    :param seen: Newest run of the job when the user decided; ``None`` accepts any newest run.
    :raises JobStateError: The job is in quarantine, needs no recovery, or its newest run is not *seen*.
    """
    if (reason := quarantine_reason(client.coordinator, client.paths, job_id)) is not None:
        held = JobStatus(job_id=job_id, quarantined=True, trouble=reason)
        found = decide(held, None, client.clock.now())
        raise JobStateError(f"job {job_id!r} is {found.reason}", next_step=found.next_step)
    job = client.job(job_id, acting=CallerIdentity(run=seen))
    snapshot = job.snapshot()
    leader = snapshot.leader
    if snapshot.run is not None:  # also for a led run: the user has not seen it
        refuse_other_run("recovery", job_id, seen=seen, newest=snapshot.run.run.number)
    if leader is not None:
        detail = f"led by {leader.host}, epoch {leader.epoch}"
        return ReconcileResult(job_id=job_id, outcome=ReconcileOutcome.LEFT_ALONE, detail=detail)
    made = job.recover(by=by, wait=False)
    outcome = ReconcileOutcome.RECOVERED if made.created else ReconcileOutcome.ON_ITS_WAY
    return ReconcileResult(job_id=job_id, outcome=outcome, detail=f"attempt {made.attempt} of run {made.run}")
