"""The same error of the application, again at the same batch: when it ends the run, and how long to wait before that.

Pure: the exits of a run's submissions go in. So every process that recovers the run (a task, the leader of the
cluster, the command) comes to the same decision.

Invariant: only what is certain counts. An outage and a driver that was killed say nothing about the application, and
are passed over; another error, another batch, or a driver that lived for long and ended otherwise begin the count
again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_provider_ha.jobs.failures import Failure, FailureKind
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.runs import SubmissionView
from airflow_provider_ha.jobs.submissions import SubmissionExit


_NEVER = -1
_MOST_DOUBLINGS = 32


@dataclass(frozen=True, slots=True)
class Repeated:
    """An error of the application that the newest attempts of a run have ended with.

    :param failure: The newest of them.
    :param count: How many attempts it has ended.
    :param since: End of the first of these.
    :param until: End of the newest.
    """

    failure: Failure
    count: int
    since: datetime
    until: datetime

    @property
    def seconds(self) -> float:
        """Time between the first and the newest."""
        return (self.until - self.since).total_seconds()

    def ends_the_run(self, options: HaOptions) -> bool:
        """Whether it has repeated often enough, over long enough."""
        if options.application_failures == _NEVER:
            return False
        # guard: short-storm-of-errors-ends-the-run
        return self.count >= options.application_failures and self.seconds >= options.application_failure_period

    def delay(self, options: HaOptions) -> float:
        """Return the seconds before the next attempt; 0 for an error that has not repeated yet."""
        if self.count < 2:  # noqa: PLR2004  # the first one may be over when it is tried again
            return 0.0
        doublings = min(self.count - 2, _MOST_DOUBLINGS)
        return min(options.application_delay * 2.0**doublings, options.application_delay_max)

    def delay_left(self, options: HaOptions, now: datetime) -> float:
        """Return what is left of :meth:`delay`; never more than all of it, also when the clocks of two hosts differ."""
        wanted = self.delay(options)
        return min(wanted, max(0.0, wanted - (now - self.until).total_seconds()))

    @property
    def reason(self) -> str:
        """Why the run ends."""
        where = f" at {self.failure.location}" if self.failure.location else ""
        return (
            f"{self.failure.error}: an error of the application, in {self.failure.position}{where}, "
            f"{self.count} times in {_duration(self.seconds)}"
        )


def repeated_failure(submissions: tuple[SubmissionView, ...], options: HaOptions) -> Repeated | None:
    """Return the error of the application that the newest submission has ended with; ``None`` for another end."""
    newest = submissions[-1].exit if submissions else None
    failure = _application_failure(newest)
    if newest is None or failure is None:
        return None
    count, since = 0, newest.at
    for view in reversed(submissions):
        earlier = _application_failure(view.exit)
        if view.exit is not None and earlier is not None and failure.repeats(earlier):
            count, since = count + 1, view.exit.at
        elif earlier is not None or _refutes(view, options):  # guard: long-life-refutes-no-error
            break
    return Repeated(failure, max(count, 1), since, newest.at)


def _application_failure(exit_: SubmissionExit | None) -> Failure | None:
    failure = exit_.failure if exit_ is not None else None
    # guard: uncertain-error-ends-the-run
    return failure if failure is not None and failure.kind is FailureKind.APPLICATION else None


def _refutes(view: SubmissionView, options: HaOptions) -> bool:
    """Whether a driver that ended otherwise had worked for long: then the error before it was over."""
    if view.started is None or view.exit is None:
        return False
    return (view.exit.at - view.submission.created_at).total_seconds() >= options.restart_reset_after


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"  # noqa: PLR2004  # two minutes
