"""The runs of a job that are long over, as the control plane finds and removes them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from airflow_provider_ha.checkpoints.retention.runs_in_use import runs_in_use
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.coordination.coordinator import Op
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.retention.past_runs import PastRuns
from airflow_provider_ha.recovery.conclude import take_lock


LOCKED_SECONDS = 1.0  # for which the lock is held at a time


def past_runs(job: JobContext) -> PastRuns:
    """Return what finds and removes them, by the retention of the connection."""
    return PastRuns(
        job.coordinator,
        job.paths,
        job.journal,
        job.config.retention,
        job.clock,
        partial(runs_in_use, job.coordinator, job.paths),
    )


def clear_past(job: JobContext, newest: int) -> Iterator[None]:
    """Remove what they have left, of a job without a live run; yields after each step.

    What is read of a run that is over does not change any more, and what may change is removed by its version. So the
    job's lock is held for transactions only, and not for long: a driver that comes does not wait.

    :param newest: The newest run, which is over.
    :raises JobStateError: There is a newer run: its driver goes on with this.
    :raises LeadershipError: Another process leads the job.
    :raises HaError: Something could not be read or removed; the next call goes on.
    """
    lock = _BriefLock(job, newest)
    try:
        yield from past_runs(job).clear(lock.commit)
    finally:
        lock.release()


class _BriefLock:
    """The lock of a job without a driver, for many transactions; nothing renews its lease, so it is taken again."""

    def __init__(self, job: JobContext, newest: int) -> None:
        self._job = job
        self._newest = newest
        self._leadership: Leadership | None = None
        self._until = 0.0

    def commit(self, *ops: Op) -> list[int]:
        """Apply *ops* as the job's leader; raises as :meth:`Leadership.commit` and :func:`clear_past` do."""
        now = self._job.clock.lease_time()
        if self._leadership is None or now >= self._until:
            self.release()
            self._leadership = take_lock(self._job, self._newest, admit=self._admit)
            self._admit()  # a newer run may have been made between the first look and the grant
            self._until = now + min(LOCKED_SECONDS, self._leadership.lease_left() / 2)
        return self._leadership.commit(*ops)

    def release(self) -> None:
        """Give the lock back, when it is held."""
        leadership, self._leadership = self._leadership, None
        if leadership is not None:
            leadership.release()

    def _admit(self) -> None:
        numbers = self._job.runs.numbers()
        over = self._job.runs.result(self._newest) is not None
        if numbers[-1] != self._newest or not over:
            raise JobStateError(
                f"run {numbers[-1]} of job {self._job.job_id!r} has begun",
                next_step="Nothing needs to be done: its driver goes on with the removal",
            )
