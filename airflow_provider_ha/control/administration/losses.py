"""Report on the losses of a run: the last failure, how often it came, and when the next attempt is due. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider_ha.jobs.failures import Failure
from airflow_provider_ha.jobs.host.log_place import printed_place
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.runs import RunView, SubmissionView
from airflow_provider_ha.jobs.snapshot import JobSnapshot
from airflow_provider_ha.recovery.repeated import repeated_failure
from airflow_provider_ha.recovery.restart import Resubmit, decide, without_a_word


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """How the newest attempt of a run that was lost ended.

    :param attempt: Its number.
    :param at: When all its processes were dead; ``None`` when nothing has proven that.
    :param reason: As its supervisor wrote it.
    :param failure: As the driver reported it; ``None`` for one that was killed.
    :param times: How often the same error of the application has come at the same batch; 0 for another failure.
    :param since: When it came first.
    :param log: Where the driver's log is.
    """

    attempt: int
    at: datetime | None
    reason: str
    failure: Failure | None
    times: int
    since: datetime | None
    log: str

    @property
    def message(self) -> str:
        """Return in one line what failed, and where."""
        if self.failure is None:
            return self.reason.partition("\n")[0]
        where = f" in {self.failure.position}" if self.failure.batches else ""
        return f"{self.failure.kind.value} {self.failure.error}{where}"

    @property
    def sentence(self) -> str:
        """Return the message with the attempt, and how often it has come."""
        often = f", {self.times} times since {self.since:%Y-%m-%d %H:%M:%S} UTC" if self.times > 1 else ""
        return f"attempt {self.attempt}: {self.message}{often}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Report on the losses of the newest run.

    :param attempts: How often it was submitted.
    :param next_attempt_at: When the restart strategy submits it again; ``None`` when it is not lost, is never submitted
        again, or its options cannot be read.
    """

    attempts: int
    last: LastFailure | None
    next_attempt_at: datetime | None


def losses_of(snapshot: JobSnapshot, options: HaOptions | None, *, now: datetime) -> Losses:
    """Return the report.

    :param options: Of the run; ``None`` when they cannot be read.
    """
    return Losses(
        attempts=attempts_of(snapshot.run),
        last=last_failure(snapshot, options or HaOptions()),
        next_attempt_at=next_attempt_at(snapshot, options, now=now) if options is not None else None,
    )


def last_failure(snapshot: JobSnapshot, options: HaOptions) -> LastFailure | None:
    """Return how the newest attempt of the newest run that was lost ended; ``None`` when none was."""
    run = snapshot.run
    if run is None:
        return None
    over = run.result is not None and run.result.state is not JobState.FAILED
    lost = [view for view in run.submissions if not (view is run.newest and (over or not _ended(snapshot, view)))]
    if not lost:
        return None
    view = lost[-1]
    repeated = repeated_failure(tuple(lost), options)
    return LastFailure(
        attempt=view.submission.attempt,
        at=view.exit.at if view.exit is not None else None,
        reason=view.exit.reason if view.exit is not None else without_a_word(view),
        failure=view.exit.failure if view.exit is not None else None,
        times=repeated.count if repeated is not None else 0,
        since=repeated.since if repeated is not None else None,
        log=_log(view),
    )


def next_attempt_at(snapshot: JobSnapshot, options: HaOptions, *, now: datetime) -> datetime | None:
    """Return when the restart strategy submits the run again; ``None`` when it is not lost, or never again."""
    decision = decide(snapshot, options, now=now)
    return now + timedelta(seconds=decision.after) if isinstance(decision, Resubmit) else None


def attempts_of(run: RunView | None) -> int:
    """Return how often a run was submitted."""
    return run.newest.submission.attempt if run is not None and run.newest is not None else 0


def _ended(snapshot: JobSnapshot, newest: SubmissionView) -> bool:
    return newest.exit is not None or snapshot.state in (JobState.LOST, JobState.FAILED)


def _log(view: SubmissionView) -> str:
    if view.started is not None:
        return view.started.handle.log_path or printed_place(view)
    return view.exit.log if view.exit is not None else ""
