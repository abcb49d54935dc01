"""Where the log of a driver lies, and with which command a person reads it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.jobs.runs import RunView, SubmissionView


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The log of one submission's driver.

    :param host: Where the driver ran. Other hosts have the file when the work root is shared.
    :param path: ``driver.log``.
    """

    job_id: str
    run: int
    attempt: int
    host: str
    path: Path

    @property
    def command(self) -> str:
        """What prints it, on a host that has it."""
        return f"spark-ha job logs {self.job_id} --run {self.run} --attempt {self.attempt}"

    def __str__(self) -> str:
        return f"{self.host}:{self.path} (read it with `{self.command}`)"


def log_place(job_id: str, run: int, view: SubmissionView) -> LogPlace | None:
    """Return where the log of a submission lies; ``None`` when no supervisor of it has reported where it runs."""
    if view.started is None or not view.started.handle.log_uri:
        return None
    handle = view.started.handle
    return LogPlace(job_id, run, view.submission.attempt, handle.log_host, Path(handle.log_path))


def printed_place(view: SubmissionView) -> str:
    """Return for people where a supervisor printed why it started nothing; empty for one that has reported itself."""
    return "" if view.started is None or view.started.handle.log_uri else view.started.handle.printed


def newest_log(job_id: str, view: RunView | None) -> LogPlace | None:
    """Return where the log of the newest driver of a run lies that was started; ``None`` when there is none."""
    for submission in reversed(view.submissions if view else ()):
        place = log_place(job_id, view.run.number, submission) if view else None
        if place is not None:
            return place
    return None
