"""Restart policy: the decision about a run after the loss of its driver, with repeated failures. Pure.

The driver's code has no part in the decision: a refused script writes its run's result, and a run with a result is
never run again. An error that repeats in a run without progress ends it (:func:`repeated_failure`). The remaining cases
are losses, which are counted if the job sets a limit.

Invariant: a submission that met an outage is no loss of the job, whether storage or ZooKeeper kept it from running the
script or the script met the outage later. It does not count as an attempt, however often it happens, and only increases
the delay: a disk that is full for an hour, or an unavailable broker, costs the hour, never the run. Two other kinds do
not count either: a submission whose working directory Spark refused (the next one continues from a checkpoint), and one
whose host lacks something that another host had for the run (``jobs.recovery.transactions``). A run that may lose or
repeat rows by continuing waits for its user.

A loss with proof of death is recovered without delay if it is the first one, or if the job was RUNNING until an
external cause ended the driver: a delay protects from a driver that fails repeatedly, not from a host that loses it
every few minutes. An outage that recurs at the same batch counts as a repeated failure. Without the proof the delay
also gives the supervisor time to report.

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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise, takewhile

from airflow_provider_ha.jobs.drivers.driver_log import printed_place
from airflow_provider_ha.jobs.model import StartKind
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import STALLED, Failure, FailureKind, SubmissionExit
from airflow_provider_ha.jobs.status import JobStatus, RunDepth


WITHOUT_A_QUERY = 3  # times
WITHOUT_A_BATCH = 3
MISFIT = 2
_NEVER = -1


@dataclass(frozen=True, slots=True)
class FailureRule:
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
class RepeatedFailure:
    """An error shared by the newest attempts of a run.

    :param count: Number of attempts that it has ended.
    :param since: End of the first attempt.
    :param until: End of the newest.
    """

    failure: Failure
    count: int
    since: datetime
    until: datetime
    rule: FailureRule

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
) -> RepeatedFailure | None:
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
    return RepeatedFailure(failure, count, since, newest.at, rule)


def _rule(submissions: tuple[SubmissionView, ...], failure: Failure, options: HaOptions, *, fresh: bool) -> FailureRule:
    if not _may_have(submissions, lambda exit_: exit_.started or exit_.ran):
        return FailureRule(WITHOUT_A_QUERY, 0.0, "the run has never started a query", failure.resembles)
    if not _may_have(submissions, lambda exit_: exit_.committed):
        if failure.misfit:
            return FailureRule(MISFIT, 0.0, "the run has not committed a batch", failure.repeats)
        if fresh and failure.kind is not FailureKind.OUTAGE:
            return FailureRule(WITHOUT_A_BATCH, 0.0, "the run has never committed a batch", failure.repeats)
    certain = failure.kind is FailureKind.APPLICATION
    times = options.application_failures if certain and options.application_failures != _NEVER else None
    because = "application_failures ends the run"
    return FailureRule(times, options.application_failure_period, because, failure.repeats)


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


_WITHOUT_A_WORD = "the driver and its supervisor stopped without reporting a reason (host lost?)"


@dataclass(frozen=True, slots=True)
class Resubmit:
    """Submit again.

    :param lost_epoch: Lost epoch whose recovery has to be claimed; ``None`` without a leader since the last recovery.
    :param after: Seconds to wait first.
    """

    attempt: int
    lost_epoch: int | None
    after: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The run has used up its attempts, all hosts are unfit for it, or it fails repeatedly without progress.

    :param reason: For people.
    :param failure: The error that repeats.
    :param exhausted: Whether attempts, or failures at one place, are used up.
    """

    reason: str
    failure: Failure | None = None
    exhausted: bool = False


@dataclass(frozen=True, slots=True)
class NeedsDecision:
    """The run continues only after a decision of its user.

    :param reason: The necessary decision, and how to make it.
    """

    reason: str


RestartDecision = Resubmit | GiveUp | NeedsDecision


def restart(
    snapshot: JobStatus[RunDepth], options: HaOptions, now: datetime, *, decided: bool
) -> RestartDecision | None:
    """Decide about a lost run; ``None`` for any other. A part of :func:`~airflow_provider_ha.jobs.condition.decide`.

    :param now: Wall-clock time, for the remaining delay.
    :param decided: Whether the user has decided to continue the run.
    """
    run = snapshot.run
    newest = run.newest if run is not None else None
    if run is None or newest is None or not snapshot.is_lost:
        return None
    if (said := _said(newest)) is not None and not (decided and isinstance(said, NeedsDecision)):
        return said
    repeated = repeated_failure(run.submissions, options, fresh=run.run.start.kind is StartKind.FRESH)
    if repeated is not None and repeated.ends_the_run:
        return GiveUp(f"{repeated.reason} (log: {_log(newest)})", repeated.failure, exhausted=True)
    used = attempts_used(run.submissions, options, now)
    if not _is_spared(newest) and 0 <= options.restart_attempts <= used:
        return GiveUp(_given_up(run, newest, used), exhausted=True)
    idle = _without_work(run.submissions, options, now)
    led = snapshot.epoch_zxid >= newest.created_zxid
    return Resubmit(
        attempt=newest.submission.attempt + 1,
        lost_epoch=snapshot.epoch if led and snapshot.recovery is None else None,  # guard: claim-without-a-loss
        after=_delay_left(newest, idle, options, now),
    )


def _said(newest: SubmissionView) -> GiveUp | NeedsDecision | None:
    """Return the decision of the exit itself."""
    if newest.exit is not None and newest.exit.refused:
        return GiveUp(newest.exit.refused)
    if newest.exit is not None and newest.exit.decision:
        return NeedsDecision(newest.exit.decision)
    return None


def attempts_used(submissions: tuple[SubmissionView, ...], options: HaOptions, now: datetime) -> int:
    """Return the number of re-submissions since a driver last lived for ``restart_reset_after`` seconds.

    Submissions ended by an outage are left out, as if they had not been made.
    """
    newest = list(_since(submissions, now, lambda view, end: _lived_long(view, options, end)))
    counted = sum(good or not _is_spared(view) for view, good in newest)
    return max(0, counted - 1)  # the first was no re-submission


def _without_work(submissions: tuple[SubmissionView, ...], options: HaOptions, now: datetime) -> int:
    """Return the number of re-submissions that increase the delay: since a driver last worked, outages included."""
    before = {view.submission.attempt: earlier for earlier, view in pairwise(submissions)}

    def worked(view: SubmissionView, end: datetime) -> bool:
        again = _repeats(before.get(view.submission.attempt), view)
        return (_ran_until_it_was_lost(view) and not again) or _lived_long(view, options, end)

    newest = list(_since(submissions, now, worked))
    outages = sum(1 for _ in takewhile(lambda one: _is_spared(one[0]) and not one[1], newest))
    return max(0, sum(good or not _is_spared(view) for view, good in newest) - 1) + outages


def _since(
    submissions: tuple[SubmissionView, ...], now: datetime, good: Callable[[SubmissionView, datetime], bool]
) -> Iterator[tuple[SubmissionView, bool]]:
    """Return the newest submissions, newest first, up to the first good one, each with whether it is good."""
    for view in reversed(submissions):
        found = good(view, now)
        yield view, found
        if found:
            return
        now = view.submission.created_at


def _ran_until_it_was_lost(view: SubmissionView) -> bool:
    """Return whether the job was RUNNING until an external cause, not an error of the application, ended its driver."""
    return view.exit is not None and view.exit.ran and (view.exit.failure is None or _is_spared(view))


def _repeats(earlier: SubmissionView | None, view: SubmissionView) -> bool:
    """Return whether a driver failed like its predecessor, at the same batch."""
    if earlier is None or earlier.exit is None or view.exit is None:
        return False
    failures = earlier.exit.failure, view.exit.failure
    return failures[0] is not None and failures[1] is not None and failures[1].repeats(failures[0])


def _lived_long(view: SubmissionView, options: HaOptions, now: datetime) -> bool:
    end = view.exit.at if view.exit is not None else now
    lived = (end - view.submission.created_at).total_seconds()
    if view.exit is not None and view.exit.failure is not None and view.exit.failure.error_class == STALLED:
        lived -= options.stall_timeout
    return view.started is not None and lived >= options.restart_reset_after


def failures_in_a_row(
    submissions: tuple[SubmissionView, ...],
    options: HaOptions,
    now: datetime,
    *,
    lost: bool,
    led_since: datetime | None,
    before: int = 0,
) -> int:
    """Return the number of newest attempts that failed since a driver last led for ``restart_reset_after`` seconds.

    Outages and killed drivers also count: the job does not stay up, for any reason.

    :param submissions: Of a single run, ascending: all, or the newest ones.
    :param before: Consecutive failures of earlier runs: they count if each attempt of this run has failed.
    :param lost: Whether the newest submission has ended.
    :param led_since: Start of its leadership; ``None`` when it does not lead.
    """
    count = 0
    for view in reversed(submissions):
        if view is submissions[-1] and not lost:
            if led_since is not None and (now - led_since).total_seconds() >= options.restart_reset_after:
                return 0
        elif view.exit is None or not view.exit.handed_over:
            count += 1
            if _lived_long(view, options, now):
                return count
        now = view.submission.created_at
    whole = not submissions or submissions[0].submission.attempt == 1
    return count + before if whole else count


def outage_of(run: RunView) -> str:
    """Return for people the outage that the run is waiting out; empty without an outage."""
    kept_from_running = takewhile(lambda view: view.exit is not None and view.exit.outage, reversed(run.submissions))
    count, newest = sum(1 for _ in kept_from_running), run.newest
    if not count or newest is None or newest.exit is None or run.result is not None:
        return ""
    since = run.submissions[-count].submission.created_at
    return f"{count} launches since {since:%Y-%m-%d %H:%M:%S} UTC, none counts as an attempt: {newest.exit.reason}"


def decision_of(run: RunView) -> str:
    """Return for people the decision that the run needs to continue, and how to make it; empty if it needs none."""
    newest = run.newest
    return newest.exit.decision if newest is not None and newest.exit is not None and run.result is None else ""


def _is_spared(view: SubmissionView) -> bool:
    return view.exit is not None and not view.exit.counts


def delay(used: int, options: HaOptions) -> float:
    """Return the seconds before the next re-submission after *used* others: zero at first, then doubling."""
    return min(options.restart_delay * 2.0 ** min(used - 1, 32), options.restart_delay_max) if used else 0.0


def _delay_left(newest: SubmissionView, used: int, options: HaOptions, now: datetime) -> float:
    if newest.exit is None:
        return delay(max(used, 1), options)
    wanted = delay(used, options)
    # Clocks of two hosts differ: never wait longer than wanted.
    return min(wanted, max(0.0, wanted - (now - newest.exit.at).total_seconds()))


def _given_up(run: RunView, newest: SubmissionView, used: int) -> str:
    last = newest.exit.reason if newest.exit is not None else without_a_word(newest)
    return f"the driver of run {run.run.number} was lost {used + 1} times; the last time: {last} (log: {_log(newest)})"


def without_a_word(view: SubmissionView) -> str:
    """Return why a submission without an exit was given up, as its supervisor reported it, or where to read more."""
    if view.started is not None and view.started.refused:
        return view.started.refused
    printed = printed_place(view)
    return f"its supervisor reported nothing: read {printed}" if printed else _WITHOUT_A_WORD


def _log(newest: SubmissionView) -> str:
    handle = newest.started.handle if newest.started is not None else None
    return f"{handle.log_host}:{handle.log_path}" if handle is not None and handle.log_uri else "no log"
