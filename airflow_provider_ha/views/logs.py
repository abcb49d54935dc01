"""Lines of a driver's log, secrets removed by the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.host.log_place import LogPlace


class LogView(View):
    """The last lines of a log.

    :param job_id: The job.
    :param run: Number of the run.
    :param attempt: Number of the submission within the run.
    :param host: Host of the driver.
    :param path: The file there.
    :param lines: The lines, without secrets.
    """

    job_id: str
    run: int
    attempt: int
    host: str
    path: str
    lines: tuple[str, ...]


class LogLineView(View):
    """One line of a log that is followed.

    :param job_id: The job.
    :param run: Number of the run.
    :param attempt: Number of the submission within the run.
    :param line: The line, without secrets.
    """

    job_id: str
    run: int
    attempt: int
    line: str


def log_view(place: LogPlace, lines: list[str]) -> LogView:
    """Return the last lines of the log at *place*."""
    return LogView(
        job_id=place.job_id,
        run=place.run,
        attempt=place.attempt,
        host=place.host,
        path=str(place.path),
        lines=tuple(lines),
    )


def log_line(place: LogPlace, line: str) -> LogLineView:
    """Return one line of the log at *place*."""
    return LogLineView(job_id=place.job_id, run=place.run, attempt=place.attempt, line=line)
