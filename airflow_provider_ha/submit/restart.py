"""The restart strategy: what a lost driver means for its run. Pure: a snapshot goes in, a decision comes out.

The driver's code is not asked whether it should be started again: a script that cannot work writes its run's result,
and a run with a result is never run again. What is left are losses, and those are counted.

Invariant: a submission that an outage of storage or ZooKeeper kept from running the script is no loss of the job. It
counts as no attempt, however often it happens, and only makes the delay grow: a disk that is full for an hour costs the
hour, never the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from airflow_provider_ha.jobs.model import HaOptions, JobState
from airflow_provider_ha.jobs.runs import RunView, SubmissionView
from airflow_provider_ha.jobs.snapshot import JobSnapshot


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing was lost: somebody leads, or the newest submission is still on its way."""


@dataclass(frozen=True, slots=True)
class Over:
    """The run has a result (or there is none): it is never run again."""


@dataclass(frozen=True, slots=True)
class Resubmit:
    """Submit again.

    :param attempt: Number of the new submission.
    :param lost_epoch: Epoch that was lost and whose recovery has to be claimed; ``None`` when nobody had led since.
    :param after: Seconds to wait first.
    """

    attempt: int
    lost_epoch: int | None
    after: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The run has used up its attempts.

    :param reason: For people.
    """

    reason: str


Decision = Keep | Over | Resubmit | GiveUp


def decide(snapshot: JobSnapshot, options: HaOptions, *, now: datetime, newest_is_gone: bool = False) -> Decision:
    """Decide about the newest submission of the newest run.

    :param snapshot: The job as it was read.
    :param options: The run's options.
    :param now: Wall-clock time, for the delay that is left.
    :param newest_is_gone: Whether the engine has proven that no process of the newest submission is left.
    """
    run = snapshot.run
    if run is None or run.result is not None:
        return Over()
    newest = run.newest
    lost = snapshot.state is JobState.LOST or (newest_is_gone and snapshot.leader is None)
    if newest is None or not lost:
        return Keep()
    used = attempts_used(run.submissions, options, now)
    outages = trailing_outages(run.submissions)
    if not outages and 0 <= options.restart_attempts <= used:
        return GiveUp(_given_up(run, newest, used))
    led = snapshot.epoch_zxid > newest.created_zxid
    return Resubmit(
        attempt=newest.submission.attempt + 1,
        lost_epoch=snapshot.epoch if led and snapshot.recovery is None else None,
        after=_delay_left(newest, used + outages, options, now),
    )


def attempts_used(submissions: tuple[SubmissionView, ...], options: HaOptions, now: datetime) -> int:
    """Return how many re-submissions were made since a driver last lived for ``restart_reset_after`` seconds.

    Those that an outage ended are left out, as if they had not been made.
    """
    counted = 0
    for view in reversed(submissions):
        if _met_outage(view):
            continue
        counted += 1
        end = view.exit.at if view.exit is not None else now
        if (
            view.started is not None
            and (end - view.submission.created_at).total_seconds() >= options.restart_reset_after
        ):
            break
        now = view.submission.created_at
    return max(0, counted - 1)  # the first of them was no re-submission


def trailing_outages(submissions: tuple[SubmissionView, ...]) -> int:
    """Return how many of the newest submissions in a row an outage kept from running the script."""
    return sum(1 for _ in takewhile(_met_outage, reversed(submissions)))


def outage_of(run: RunView) -> str:
    """Return for people which outage the run is waiting out; empty when there is none."""
    count = trailing_outages(run.submissions)
    newest = run.newest
    if not count or newest is None or newest.exit is None or run.result is not None:
        return ""
    since = run.submissions[-count].submission.created_at
    return f"{count} launches since {since:%Y-%m-%d %H:%M:%S} UTC, none counts as an attempt: {newest.exit.reason}"


def _met_outage(view: SubmissionView) -> bool:
    return view.exit is not None and view.exit.outage


def delay(used: int, options: HaOptions) -> float:
    """Return the seconds before the next re-submission after *used* others: doubles each time, up to the maximum."""
    return min(options.restart_delay * 2.0 ** min(used, 32), options.restart_delay_max)


def _delay_left(newest: SubmissionView, used: int, options: HaOptions, now: datetime) -> float:
    wanted = delay(used, options)
    if newest.exit is None:
        return wanted
    # Clocks of two hosts differ: never wait longer than wanted, whatever they say.
    return min(wanted, max(0.0, wanted - (now - newest.exit.at).total_seconds()))


def _given_up(run: RunView, newest: SubmissionView, used: int) -> str:
    last = newest.exit.reason if newest.exit is not None else "its leadership ended without a word from its supervisor"
    log = f"{newest.started.host}:{newest.started.log}" if newest.started is not None else "no log"
    return f"the driver of run {run.run.number} was lost {used + 1} times; the last time: {last} (log: {log})"
