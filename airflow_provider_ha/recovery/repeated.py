"""The classification of failures: which error ends its run, and after how many occurrences.

The decision depends on the progress of the run, and on whether an error recurs at the same place; never on the name of
a class.

- No query has ever started: any error of the script, or of the start of Spark, ends the run at the third occurrence.
- No committed batch, and Spark refuses to continue from the checkpoint with this query: the second occurrence.
- No committed batch, and the run began without a checkpoint: any error but an outage, at the third occurrence.
- Some committed batch: only ``application_failures`` or ``restart_attempts`` end the run.

Pure function of the exits of a run's submissions. So every process that recovers the run (a task, the leader of the
cluster, the command) makes the same decision.

Invariant: in doubt a run continues. A submission that left no exit may have started a query; a killed driver is no
evidence about its script and is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from airflow_provider_ha.jobs.failures import STALLED, Failure, FailureKind
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.runs import SubmissionView
from airflow_provider_ha.jobs.submissions import SubmissionExit


WITHOUT_A_QUERY = 3  # times
WITHOUT_A_BATCH = 3
MISFIT = 2
_NEVER = -1


@dataclass(frozen=True, slots=True)
class Rule:
    """The condition under which a repeated error ends the run.

    :param times: Number of occurrences; ``None`` for never.
    :param seconds: Minimum time between the first and the last.
    :param because: The progress of the run, for people.
    :param alike: Whether an earlier failure is the same error at the same place.
    """

    times: int | None
    seconds: float
    because: str
    alike: Callable[[Failure], bool]


@dataclass(frozen=True, slots=True)
class Repeated:
    """An error shared by the newest attempts of a run.

    :param failure: The newest occurrence.
    :param count: Number of attempts that it has ended.
    :param since: End of the first attempt.
    :param until: End of the newest.
    """

    failure: Failure
    count: int
    since: datetime
    until: datetime
    rule: Rule

    @property
    def seconds(self) -> float:
        """Seconds between the first and the newest."""
        return (self.until - self.since).total_seconds()

    @property
    def ends_the_run(self) -> bool:
        """Whether it has repeated often enough, over a long enough time."""
        return self.rule.times is not None and self.count >= self.rule.times and self.seconds >= self.rule.seconds

    @property
    def reason(self) -> str:
        """Reason for the end of the run."""
        where = f" at {self.failure.location}" if self.failure.location else ""
        often = f"{self.count} times in {_duration(self.seconds)}"
        said = f"{self.failure.error}, in {self.failure.position}{where}, {often}; {self.rule.because}"
        return f"{said}. {self.failure.misfit}" if self.failure.misfit else said


def repeated_failure(
    submissions: tuple[SubmissionView, ...], options: HaOptions, *, fresh: bool = False
) -> Repeated | None:
    """Return the error of the newest submission; ``None`` for an end without one.

    :param fresh: Whether the run began without a checkpoint.
    """
    newest = submissions[-1].exit if submissions else None
    failure = _failure(newest)
    if newest is None or failure is None:
        return None
    rule, count, since = _rule(submissions, failure, options, fresh=fresh), 0, newest.at
    for view in reversed(submissions):
        earlier = _failure(view.exit)
        if view.exit is not None and earlier is not None and (not count or rule.alike(earlier)):
            count, since = count + 1, view.exit.at
        elif earlier is not None or _refutes(view, options):
            break
    return Repeated(failure, count, since, newest.at, rule)


def _rule(submissions: tuple[SubmissionView, ...], failure: Failure, options: HaOptions, *, fresh: bool) -> Rule:
    if not _may_have(submissions, lambda exit_: exit_.started or exit_.ran):
        return Rule(WITHOUT_A_QUERY, 0.0, "the run has never started a query", failure.resembles)
    if not _may_have(submissions, lambda exit_: exit_.committed):
        if failure.misfit:
            return Rule(MISFIT, 0.0, "the run has not committed a batch", failure.repeats)
        if fresh and failure.kind is not FailureKind.OUTAGE:
            return Rule(WITHOUT_A_BATCH, 0.0, "the run has never committed a batch", failure.repeats)
    certain = failure.kind is FailureKind.APPLICATION
    times = options.application_failures if certain and options.application_failures != _NEVER else None
    because = "application_failures ends the run"
    return Rule(times, options.application_failure_period, because, failure.repeats)


def _may_have(submissions: tuple[SubmissionView, ...], reached: Callable[[SubmissionExit], bool]) -> bool:
    """Return whether a driver of the run may have come so far: some submissions are forgotten, or left no exit."""
    forgotten = submissions[0].submission.attempt > 1
    return forgotten or any(
        reached(view.exit) if view.exit is not None else view.started is not None for view in submissions
    )


def _failure(exit_: SubmissionExit | None) -> Failure | None:
    """Return the failure of the script, of its queries, or of the start of Spark; ``None`` for another end."""
    failure = exit_.failure if exit_ is not None and not exit_.outage else None
    if failure is None or failure.error_class == STALLED or failure.refused:
        return None
    # an outage of the driver itself, which its script did not meet
    return None if failure.kind is FailureKind.OUTAGE and failure.batches is None else failure


def _refutes(view: SubmissionView, options: HaOptions) -> bool:
    """Return whether a driver with another end had worked for long: then the earlier error was resolved."""
    if view.started is None or view.exit is None:
        return False
    return (view.exit.at - view.submission.created_at).total_seconds() >= options.restart_reset_after


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"  # noqa: PLR2004  # two minutes
