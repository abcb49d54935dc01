"""The classification of failures: which error ends its run, and after how many times.

What decides is the progress of the run, and whether an error comes again at the same place; never the name of a class.

- No query was ever started: any error that the script, or the start of Spark, ends with ends the run the third time.
- No batch was committed, and Spark refuses to go on from the checkpoint with this query: its refusal, the second time.
- No batch was committed, and the run began from nothing: any error that is not an outage, the third time.
- A batch was committed: no error ends the run but by ``application_failures`` or ``restart_attempts``.

Pure: the exits of a run's submissions go in. So every process that recovers the run (a task, the leader of the
cluster, the command) comes to the same decision.

Invariant: in doubt a run goes on. A submission that left no exit may have started a query; a driver that was killed
says nothing about its script and is passed over.
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
    """When an error that comes again ends the run.

    :param times: How often; ``None`` for never.
    :param seconds: That have to lie between the first and the last at least.
    :param because: The progress of the run, for people.
    :param alike: Whether an earlier failure is the same error at the same place.
    """

    times: int | None
    seconds: float
    because: str
    alike: Callable[[Failure], bool]


@dataclass(frozen=True, slots=True)
class Repeated:
    """An error that the newest attempts of a run have ended with.

    :param failure: The newest of them.
    :param count: How many attempts it has ended.
    :param since: End of the first of these.
    :param until: End of the newest.
    """

    failure: Failure
    count: int
    since: datetime
    until: datetime
    rule: Rule

    @property
    def seconds(self) -> float:
        """Time between the first and the newest."""
        return (self.until - self.since).total_seconds()

    @property
    def ends_the_run(self) -> bool:
        """Whether it has repeated often enough, over long enough."""
        return self.rule.times is not None and self.count >= self.rule.times and self.seconds >= self.rule.seconds

    @property
    def reason(self) -> str:
        """Why the run ends."""
        where = f" at {self.failure.location}" if self.failure.location else ""
        often = f"{self.count} times in {_duration(self.seconds)}"
        said = f"{self.failure.error}, in {self.failure.position}{where}, {often}; {self.rule.because}"
        return f"{said}. {self.failure.misfit}" if self.failure.misfit else said


def repeated_failure(
    submissions: tuple[SubmissionView, ...], options: HaOptions, *, fresh: bool = False
) -> Repeated | None:
    """Return the error that the newest submission has ended with; ``None`` for an end without one.

    :param fresh: Whether the run began from nothing.
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
    """Whether a driver of the run has, or may have, come so far: some submissions are forgotten, or left no exit."""
    forgotten = submissions[0].submission.attempt > 1
    return forgotten or any(
        reached(view.exit) if view.exit is not None else view.started is not None for view in submissions
    )


def _failure(exit_: SubmissionExit | None) -> Failure | None:
    """Return the failure of the script, of its queries, or of the start of Spark; ``None`` for another end."""
    failure = exit_.failure if exit_ is not None and not exit_.outage else None
    if failure is None or failure.error_class == STALLED or failure.refused:
        return None
    # The driver's own outage, and not one that its script met.
    return None if failure.kind is FailureKind.OUTAGE and failure.batches is None else failure


def _refutes(view: SubmissionView, options: HaOptions) -> bool:
    """Whether a driver that ended otherwise had worked for long: then the error before it was over."""
    if view.started is None or view.exit is None:
        return False
    return (view.exit.at - view.submission.created_at).total_seconds() >= options.restart_reset_after


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"  # noqa: PLR2004  # two minutes
