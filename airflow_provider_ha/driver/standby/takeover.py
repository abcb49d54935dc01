"""Takeover: a standby driver takes the place of a lost leader in one transaction.

The transaction grants the lock. It also creates the next submission with the id of the standby driver, its ``started``
and ``led``, and the recovery of the lost epoch, and it removes the node of the standby driver. So other processes see
either a lost job or a led one, and an attempt has one owner: if another process claims it first, the transaction fails,
and the standby driver keeps waiting.

The restart strategy decides as about any restart: delays, limits and decisions of a person apply. A standby driver that
is not ready leaves the first turn to one that is.

Invariants:

- Nothing that was read before the grant is used after it, except for the graph of the run, which never changes.
- A session that has ended is never promoted: its node, which the transaction removes, has ended with it.
"""

from __future__ import annotations

import logging
import threading
import time

from airflow_provider_ha.coordination.coordinator import Op
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.driver.members.driver_session import DriverSession, last_heartbeat, leader_info, led_record
from airflow_provider_ha.errors import HaError, JobStateError, LeadershipUnavailableError, NodeMissingError
from airflow_provider_ha.jobs.condition import decide
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.job_graph import JobGraph
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import Run
from airflow_provider_ha.jobs.recovery.restart_policy import Resubmit
from airflow_provider_ha.jobs.recovery.transactions import new_submission, promotion_ops
from airflow_provider_ha.jobs.runs.standbys import TURN_SECONDS, StandbyStore
from airflow_provider_ha.jobs.runs.submissions import SubmissionStarted
from airflow_provider_ha.jobs.status import JobStatus


log = logging.getLogger(__name__)

BY = "a standby driver"
EXIT_SECONDS = 0.3  # for the exit of the lost driver: a living supervisor writes it within milliseconds
LOOK_SECONDS = 5.0  # between two reads without a change
RETRY_SECONDS = 0.5  # after a takeover that was not due yet, or failed
_PAUSE = 0.02


class RunOverError(JobStateError):
    """The run of a standby driver has ended, or is no longer the newest."""


class MissedPromotionError(JobStateError):
    """The standby driver has become a submission, and heard of it after its leadership was over."""


class Takeover:
    """Watches the leader of a run for a standby driver, and takes its place.

    :param job: The job, over the session of the standby driver.
    :param spec: The standby driver.
    :param graph: Graph of the run.
    :ivar changed: Set when the run may need another look.
    :ivar is_ready: Whether the standby driver has done everything in advance that the job allows.
    :ivar lost_at: When the last loss was first seen, in seconds since 1970.
    """

    def __init__(self, job: JobRecords, spec: DriverSpec, run: Run, graph: JobGraph) -> None:
        self.changed = threading.Event()
        self.is_ready = False
        self.lost_at = 0.0
        self._job = job
        self._spec = spec
        self._run = run
        self._graph = graph
        self._loss = (0, 0.0)  # the attempt that follows the loss, and when the loss was first seen

    def look(self) -> tuple[DriverSpec, DriverSession] | float:
        """Take the place of a lost leader if it is due; otherwise return the seconds until the next look.

        :returns: The submission that leads, with its resources.
        :raises RunOverError: No standby driver is needed any more.
        :raises MissedPromotionError: This process can only end.
        :raises HaError: A record cannot be read.
        """
        self.changed.clear()
        try:
            paths = self._job.paths
            if self._job.coordinator.find(paths.run_result(self._spec.run), watch=self.changed.set) is not None:
                raise RunOverError(f"run {self._spec.run} is over")
            if self._job.coordinator.find(paths.leader, watch=self.changed.set) is not None:
                self.lost_at = 0.0
                return LOOK_SECONDS
            self.lost_at = self.lost_at or time.time()
            return self._take_over()
        except HaError as error:
            if not error.retryable:
                raise
            log.warning("the job cannot be read, or taken over, now: %s", error)
            return RETRY_SECONDS

    def _take_over(self) -> tuple[DriverSpec, DriverSession] | float:
        patience = time.monotonic() + EXIT_SECONDS
        while True:
            status = self._job.snapshot()
            self._check(status)
            decision = decide(status, self._graph.options, self._job.clock.now()).restart
            newest = status.run.newest if status.run is not None else None
            if not isinstance(decision, Resubmit) or newest is None:
                return LOOK_SECONDS
            if newest.exit is None and time.monotonic() < patience:
                time.sleep(_PAUSE)
            elif (left := max(self._delay_left(decision, proven=newest.exit is not None), self._turn_left())) > 0:
                return min(left, RETRY_SECONDS)
            else:
                return self._promote(newest.submission.engine, decision) or RETRY_SECONDS

    def _check(self, status: JobStatus) -> None:
        newest = status.newest
        if newest is None or newest.number != self._spec.run or newest.result is not None:
            raise RunOverError(f"run {self._spec.run} is over")
        last = status.run.newest if status.run is not None else None
        if last is not None and last.submission.submission_id == self._spec.submission_id:
            raise MissedPromotionError("the answer to the promotion came too late")

    def _delay_left(self, decision: Resubmit, *, proven: bool) -> float:
        """Return the remaining delay; without an exit it begins when this process first sees the loss.

        :param proven: Whether an exit has the time of the loss.
        """
        now = time.monotonic()
        attempt, since = self._loss
        if attempt != decision.attempt:
            self._loss = (decision.attempt, now)
            return decision.after
        return decision.after if proven else since + decision.after - now

    def _turn_left(self) -> float:
        """Return the remaining seconds that a ready standby driver has before this one; 0 if this one is ready."""
        since = self._loss[1]
        if self.is_ready or since + TURN_SECONDS <= time.monotonic():
            return 0.0
        standbys = StandbyStore(self._job.coordinator, self._job.paths, self._spec.run)
        # guard: unready-standby-takes-the-first-turn
        return since + TURN_SECONDS - time.monotonic() if standbys.is_ready() else 0.0

    def _promote(self, engine: str, decision: Resubmit) -> tuple[DriverSpec, DriverSession] | None:
        """Return the submission, and the resources of its leader; ``None`` if another process was faster."""
        job, spec = self._job, self._spec
        submission = new_submission(job, decision.attempt, by=BY, engine=engine, lost_epoch=decision.lost_epoch)
        submission = submission.model_copy(update={"submission_id": spec.submission_id, "standby": True})
        promoted = spec.promoted(decision.attempt)
        job.journal.submission(self._run, submission)
        job.journal.started(spec.run, submission, SubmissionStarted(handle=spec.handle))
        alive_at = last_heartbeat(job.coordinator, job.paths)

        def admit() -> None:
            if job.coordinator.find(job.paths.submission(spec.run, decision.attempt)) is not None:
                raise JobStateError(f"attempt {decision.attempt} of run {spec.run} exists already")

        def also(epoch: int) -> tuple[Op, ...]:
            return promotion_ops(job, spec.run, submission, spec.handle, led_record(epoch, job.clock))

        try:
            leadership = acquire(
                job.coordinator,
                job.paths,
                timings=spec.config.timings,
                clock=job.clock,
                describe=lambda epoch: leader_info(promoted, epoch, job.clock, standby=True).to_bytes(),
                timeout=spec.config.timings.session_timeout,
                admit=admit,
                also=also,
            )
        except (JobStateError, LeadershipUnavailableError, NodeMissingError) as error:
            log.info("not promoted: %s", error)
            return None
        log.info("promoted: attempt %d of run %d, epoch %d", decision.attempt, spec.run, leadership.epoch)
        return promoted, DriverSession(
            job.coordinator, job.store, job.paths, job.graphs, leadership, self._run, self._graph, alive_at
        )
