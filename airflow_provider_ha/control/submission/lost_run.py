"""A run whose driver is lost, and its end without one: take the job's lock, write the result, give the lock back.

Invariants:

- A process ends only the lost run that it has seen. The lock is granted under the next epoch, so an epoch that is not
  the next one says that a driver has led in between: then nothing is changed.
- The result, the removal of the graph pointer and all that goes with them are one transaction. A recovery needs that
  pointer in its own transaction (``control.submission.launch``), so of the two one is rejected, or the driver that it
  has launched finds the result and refuses itself.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.coordination.coordinator import Op
from airflow_provider_ha.errors import JobStateError, LeadershipError
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.job_records import who
from airflow_provider_ha.jobs.model import JobState, Run, RunEnd, RunResult
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.recovery import conclude


log = logging.getLogger(__name__)

SUPERVISOR_SECONDS = 2.0  # between the end of a driver and the word of its supervisor pass some 100 ms
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRun:
    """A live run whose driver is lost, as it was seen.

    :param epoch: Latest epoch of the job; 0 when it was never led.
    :param checkpoint: Number of the newest retained checkpoint; ``None`` when the job has none.
    :param worked: Whether the run has a working directory: then it may have committed batches.
    :param lingering: Whether the leader node of the dead driver is still there, until its session ends.
    :param proven: Whether the death of every process of the driver is proven.
    """

    run: Run
    epoch: int
    checkpoint: int | None
    worked: bool
    lingering: bool
    proven: bool

    @property
    def number(self) -> int:
        """Number of the run."""
        return self.run.number

    @property
    def forgetful(self) -> bool:
        """Whether its end would forget what it has done: it may have committed batches, and there is no checkpoint."""
        return self.worked and self.checkpoint is None


def lost_run(snapshot: JobStatus) -> LostRun | None:
    """Return the newest run when its driver is lost, else ``None``. Pure."""
    if snapshot.run is None or snapshot.state is not JobState.LOST:
        return None
    run, newest, generation = snapshot.run.run, snapshot.run.newest, snapshot.generation
    return LostRun(
        run=run,
        epoch=snapshot.epoch,
        checkpoint=snapshot.latest_checkpoint,
        worked=generation is not None and generation.run == run.number,
        lingering=snapshot.leader is not None,
        proven=newest is not None and newest.exit is not None,
    )


def end_lost(job: JobContext, lost: LostRun, result: RunResult, *, also: Sequence[Op]) -> None:
    """Write *result* for a lost run, and *also*, in one transaction.

    :param result: Its epoch is replaced by that of the lock; its end answers what is open (``operations.ending_ops``).
    :param also: What becomes of the graph pointer, and what else goes with the result.
    :raises JobStateError: The run has a result already, or a driver has led it since it was seen.
    :raises LeadershipError: Another process leads the job now.
    :raises OutcomeUnknownError: Sent and not answered: the run may have the result.
    """

    def admit() -> None:
        if job.runs.result(lost.number) is not None:
            raise JobStateError(f"run {lost.number} of job {job.job_id!r} has a result already")

    # The session of a driver that is proven dead may still have to run out.
    linger = job.config.timings.session_timeout if lost.lingering else 0.0
    with conclude.take_lock(job, lost.number, admit=admit, timeout=conclude.LOCK_SECONDS + linger) as leadership:
        admit()  # a driver may have led, and ended the run, between the first look and the grant
        if leadership.epoch != lost.epoch + 1:  # guard: lost-run-that-was-led-since-is-ended
            raise JobStateError(f"run {lost.number} of job {job.job_id!r} has been led again since")
        written = result.model_copy(update={"epoch": leadership.epoch})
        job.journal.result(lost.number, written)
        answers = operations.ending_ops(job.coordinator, job.paths, lost.number, written)
        leadership.commit(job.runs.result_op(lost.number, written), *answers, *also)
    log.info("run %d of %s is %s: %s", lost.number, job.job_id, written.state.value, written.reason)


def carry_out_cancel(job: JobContext, lost: LostRun, *, by: str) -> bool:
    """End a lost run as CANCELED when a cancel of it is open: the next process must not undo the request.

    The supervisor of the driver comes first: it says CANCELED once every process is dead. While that death is not
    proven it is waited for, as long as a loss is debounced; without a supervisor no process will prove it.

    Returns whether one was open; the caller reads the job again then.

    :raises OutcomeUnknownError: As :func:`end_lost`.
    """
    wanted = operations.open_cancels(job.coordinator, job.paths, lost.number)
    if not wanted:
        return False
    if not lost.proven and _supervised(job, lost):
        return True
    end = RunEnd.of(wanted[0], {})
    result = result_of(job, lost, JobState.CANCELED, reason=conclude.CANCELED_WITHOUT_A_DRIVER, by=by, end=end)
    try:
        end_lost(job, lost, result, also=pointer_ops(job, lost))
    except (JobStateError, LeadershipError) as error:
        log.info("the cancel of run %d of %s is left to its leader: %s", lost.number, job.job_id, error)
    return True


def _supervised(job: JobContext, lost: LostRun) -> bool:
    """Wait for the supervisor of a lost driver; returns whether the job is worth another look."""
    deadline = job.clock.lease_time() + SUPERVISOR_SECONDS
    while job.clock.lease_time() < deadline:
        view = job.runs.get(lost.number)
        if view.result is not None or (view.newest is not None and view.newest.exit is not None):
            return True
        job.sleep(_POLL_SECONDS)
    return False


def pointer_ops(job: JobContext, lost: LostRun) -> list[Op]:
    """Return what goes with a result after which the job has no live run: the removal of its graph pointer."""
    pointer = job.graphs.remove_op(lost.number)
    return [] if pointer is None else [pointer]


def result_of(
    job: JobContext,
    lost: LostRun,
    state: Literal[JobState.FINISHED, JobState.CANCELED],
    *,
    reason: str,
    by: str,
    end: RunEnd | None = None,
) -> RunResult:
    """Return the result of a lost run; the job can go on from its newest retained checkpoint.

    :param by: Name of the process that ends it, for people.
    :param end: The request that ends it.
    """
    return RunResult(
        state=state,
        epoch=lost.epoch,
        reason=f"{reason} ({who(by)})",
        checkpoint=lost.checkpoint,
        end=end,
        at=job.clock.now(),
    )
