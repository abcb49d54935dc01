"""Find the log of a job's driver, from any host: the file is read where it is, and named where it is not.

A log lies in the work root. Where that is shared every host can read it; else only the one that ran the driver.
"""

from __future__ import annotations

import math
import os
import socket
from dataclasses import replace

from airflow_provider_ha.argument_secrets import script_secrets
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.errors import HaError, JobStateError, LogMissingError
from airflow_provider_ha.jobs.host.driver_home import DriverHome
from airflow_provider_ha.jobs.host.driver_log import LogReader, last_lines
from airflow_provider_ha.jobs.host.driver_spec import read_secrets
from airflow_provider_ha.jobs.host.log_place import LogPlace, log_place, printed_place
from airflow_provider_ha.jobs.runs import RunView, SubmissionView
from airflow_provider_ha.jobs.submissions import Handle
from airflow_provider_ha.redaction import remember, secrets_of


def choose(job_id: str, view: RunView, attempt: int | None = None) -> SubmissionView:
    """Return the submission whose log is meant.

    :param attempt: Its number; left out: the newest one that was started, else the newest.
    :raises JobStateError: The run has no such submission.
    """
    if attempt is None:
        started = [each for each in view.submissions if each.started is not None]
        if not view.submissions:
            raise JobStateError(
                f"run {view.run.number} of job {job_id!r} was never submitted: it has no log",
                next_step=f"Check with `spark-ha job show {job_id}` what it waits for",
            )
        return started[-1] if started else view.submissions[-1]
    found = {each.submission.attempt: each for each in view.submissions}
    if attempt not in found:
        known = ", ".join(map(str, found)) or "none"
        raise JobStateError(
            f"run {view.run.number} of job {job_id!r} has no attempt {attempt}",
            next_step=f"Choose one of: {known}",
        )
    return found[attempt]


def find_log(job: JobContext, run: int, view: SubmissionView) -> LogPlace:
    """Return the log of a submission, which this host has.

    :raises LogMissingError: This host does not have it, or no host has: says which, with host and path.
    """
    place, attempt = _own_place(job, run, view), view.submission.attempt
    which = f"attempt {attempt} of run {run} of job {job.job_id!r}"
    if _is_on_a_cluster(job, view):
        raise _on_a_cluster(view, which)
    why = f": {view.exit.reason}" if view.exit and view.exit.reason else ""
    if place is None:
        raise LogMissingError(
            f"{which} has no log, because its driver was not started{why}",
            next_step="" if why else f"Check with `spark-ha job show {job.job_id}` what it waits for",
        )
    if not _is_there(place):
        raise _missing(place, which, why)
    return place


def is_pending(job: JobContext, run: int, view: SubmissionView) -> bool:
    """Whether the log is about to be written on this host: the submission is there and has not ended."""
    if _is_on_a_cluster(job, view):
        return False
    place = _own_place(job, run, view)
    return view.exit is None and (place is None or (not _is_there(place) and place.path.parent.is_dir()))


def reader(job: JobContext, place: LogPlace, *, lines: int, most: float = math.inf) -> LogReader:
    """Return a reader of a log that :func:`find_log` has found.

    Parameters and errors are those of :class:`LogReader`.
    """
    return LogReader(place.path, lines=lines, most=most, root=job.config.home_path)


def _is_there(place: LogPlace) -> bool:
    return os.path.lexists(place.path)  # what it is, its reader says


def _is_on_a_cluster(job: JobContext, view: SubmissionView) -> bool:
    """Whether the driver ran in a directory that its cluster has made, which no other host can tell."""
    return view.started is not None and not job.engines.runs_here(view.submission.engine)


def _on_a_cluster(view: SubmissionView, which: str) -> LogMissingError:
    handle = view.started.handle if view.started is not None else Handle(engine=view.submission.engine)
    if not handle.log_uri:
        printed = printed_place(view)
        return LogMissingError(
            f"{which} has no log yet: its supervisor has not reported where it runs",
            next_step=f"Read {printed}" if printed else "",
        )
    return LogMissingError(
        f"the log of {which} is on {handle.log_host}, which ran its driver: {handle.log_path}",
        next_step=f"Read it there; what its supervisor prints is on {handle.ui_uri}" if handle.ui_uri else "",
    )


def _own_place(job: JobContext, run: int, view: SubmissionView) -> LogPlace | None:
    """Return where this host would have the log: a record in ZooKeeper must not name the file that is read."""
    place = log_place(job.job_id, run, view)
    if place is None:
        return None
    return replace(place, path=_home(job, run, place.attempt).driver_log)


def _home(job: JobContext, run: int, attempt: int) -> DriverHome:
    return DriverHome(job.config.home_path / job.keys.application(run, attempt))


def _missing(place: LogPlace, which: str, why: str) -> LogMissingError:
    here = socket.gethostname()
    if place.path.parent.is_dir():
        supervisor = place.path.with_name("supervisor.log")
        return LogMissingError(
            f"the driver of {which} has written no log {place.path} on {here}{why}",
            next_step=f"Read what its supervisor says in {supervisor}",
        )
    if place.host != here:
        return LogMissingError(
            f"the log of {which} is not on this host, {here}: the driver ran on {place.host}, and its log is "
            f"{place.path} there",
            next_step=f"Run `{place.command}` on {place.host}",
        )
    return LogMissingError(
        f"the log of {which} is gone: {here} does not have {place.path} any more",
        next_step="The directories of the 10 newest attempts of a job stay; read the log of a later one",
    )


def hide_secrets(job: JobContext, view: RunView) -> bool:
    """Hide the secrets of the connection and of the run's graph in what this process shows from now on.

    Returns whether the graph could be read: without it, only what looks like a secret is hidden.
    """
    remember(secrets_of(job.config))
    for submission in view.submissions:
        hide_secrets_of_script(job, view.run.number, submission.submission.attempt)
    try:
        graph = job.graph(view.run.graph)
    except HaError:
        return False
    remember(script_secrets(graph.conf, graph.env, graph.arguments))
    return True


def hide_secrets_of_script(job: JobContext, run: int, attempt: int) -> None:
    """Hide what the script's own conf holds as well: the driver leaves it before it logs the failure of the script."""
    secrets = _home(job, run, attempt).script_secrets
    remember(read_secrets(secrets, root=job.config.home_path))


def last_words(job: JobContext, view: RunView, submission: SubmissionView) -> str:
    """Return the last lines of a driver's log, without secrets; empty when neither file nor record has any.

    The supervisor leaves them with the proof of death, for hosts that do not have the file. The file has none without
    the graph, which says what is secret in them.
    """
    if submission.exit is not None and submission.exit.last_lines:
        return submission.exit.last_lines
    place = _own_place(job, view.run.number, submission)
    if place is None or _is_on_a_cluster(job, submission):
        return ""
    if not hide_secrets(job, view):
        return ""
    try:
        return last_lines(place.path, root=job.config.home_path)
    except (OSError, LogMissingError):
        return ""
