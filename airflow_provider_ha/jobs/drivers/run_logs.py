"""Logs of a run: find the log of a driver from any host, and follow it over attempts.

A log is below the work root. If that is shared, every host can read it, otherwise only the driver's host.

Invariant: a reader leaves a log only after reading it to its end. It determines before the last read that the log is
final, because a newer attempt has started or all processes have ended.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from airflow_provider_ha.argument_secrets import script_secrets
from airflow_provider_ha.errors import HaError, JobStateError, LogMissingError
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome, submission_directory
from airflow_provider_ha.jobs.drivers.driver_log import (
    LogPlace,
    LogReader,
    last_lines,
    log_place,
    printed_place,
    whole_lines,
)
from airflow_provider_ha.jobs.drivers.driver_spec import read_secrets
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, Submission
from airflow_provider_ha.redaction import remember, secrets_of


def choose(job_id: str, view: RunView, attempt: int | None = None) -> SubmissionView:
    """Return the submission whose log to read.

    :param attempt: Number of the submission; by default the newest started one, else the newest.
    :raises JobStateError: The run has no such submission.
    """
    if attempt is None:
        started = [each for each in view.submissions if each.started is not None]
        if not view.submissions:
            raise JobStateError(
                f"run {view.run.number} of job {job_id!r} was never submitted: it has no log",
                next_step=f"Check with `spark-ha job show {job_id}` to see the reason of the wait",
            )
        return started[-1] if started else view.submissions[-1]
    found = {each.submission.attempt: each for each in view.submissions}
    if attempt not in found:
        known = ", ".join(map(str, found)) or "none"
        raise JobStateError(
            f"run {view.run.number} of job {job_id!r} has no attempt {attempt}",
            next_step=f"Choose from: {known}",
        )
    return found[attempt]


def find_log(job: JobContext, run: int, view: SubmissionView) -> LogPlace:
    """Return the log of a submission on this host.

    :raises LogMissingError: Only another host has the log, or the log is gone; the message has host and path.
    """
    place, attempt = _own_place(job, run, view), view.submission.attempt
    which = f"attempt {attempt} of run {run} of job {job.job_id!r}"
    if _is_on_a_cluster(job, view):
        raise _on_a_cluster(view, which)
    why = f": {view.exit.reason}" if view.exit and view.exit.reason else ""
    if place is None:
        raise LogMissingError(
            f"{which} has no log, because its driver was not started{why}",
            next_step="" if why else f"Check with `spark-ha job show {job.job_id}` to see the reason of the wait",
        )
    if not _is_there(place):
        raise _missing(place, which, why)
    return place


def is_pending(job: JobContext, run: int, view: SubmissionView) -> bool:
    """Return whether the log is expected on this host: the submission exists and has not ended."""
    if _is_on_a_cluster(job, view):
        return False
    place = _own_place(job, run, view)
    return view.exit is None and (place is None or (not _is_there(place) and place.path.parent.is_dir()))


def reader(job: JobContext, place: LogPlace, *, lines: int, most: float = math.inf) -> LogReader:
    """Return a reader of a log found by :func:`find_log`.

    Parameters and errors as for :class:`LogReader`.
    """
    return LogReader(place.path, lines=lines, most=most, root=job.config.home_path)


def _is_there(place: LogPlace) -> bool:
    return os.path.lexists(place.path)  # the reader checks the type of file


def _is_on_a_cluster(job: JobContext, view: SubmissionView) -> bool:
    """Return whether the driver ran in a directory made by its cluster, which other hosts do not know."""
    return view.started is not None and not job.engines.runs_here(view.submission.engine)


def _on_a_cluster(view: SubmissionView, which: str) -> LogMissingError:
    handle = view.started.handle if view.started is not None else DriverHandle(engine=view.submission.engine)
    if not handle.log_uri:
        printed = printed_place(view)
        return LogMissingError(
            f"{which} has no log yet: its supervisor has not reported where it runs",
            next_step=f"Read {printed}" if printed else "",
        )
    return LogMissingError(
        f"the log of {which} is on {handle.log_host}, which ran its driver: {handle.log_path}",
        next_step=f"Read it there; the output of its supervisor is on {handle.ui_uri}" if handle.ui_uri else "",
    )


def _own_place(job: JobContext, run: int, view: SubmissionView) -> LogPlace | None:
    """Return the log's place on this host: a record in ZooKeeper must not determine the file to read."""
    place = log_place(job.job_id, run, view)
    if place is None:
        return None
    return replace(place, path=_home(job, run, view.submission).driver_log)


def _home(job: JobContext, run: int, submission: Submission) -> DriverHome:
    return DriverHome(job.config.home_path / submission_directory(job.keys, run, submission))


def _missing(place: LogPlace, which: str, why: str) -> LogMissingError:
    here = socket.gethostname()
    if place.path.parent.is_dir():
        supervisor = place.path.with_name("supervisor.log")
        return LogMissingError(
            f"the driver of {which} has written no log {place.path} on {here}{why}",
            next_step=f"Read the output of its supervisor in {supervisor}",
        )
    if place.host != here:
        return LogMissingError(
            f"the log of {which} is not on this host, {here}: the driver ran on {place.host}, and its log is "
            f"{place.path} there",
            next_step=f"Run `{place.command}` on {place.host}",
        )
    return LogMissingError(
        f"the log of {which} is gone: {here} no longer has {place.path}",
        next_step="The directories of the 10 newest attempts of a job stay; read the log of a later attempt",
    )


def hide_secrets(job: JobContext, view: RunView) -> bool:
    """Hide the secrets of the connection and of the run's graph in the further output of this process.

    Returns whether the graph could be read: without it, only texts that look like secrets are hidden.
    """
    remember(secrets_of(job.config))
    for submission in view.submissions:
        hide_secrets_of_script(job, view.run.number, submission.submission)
    try:
        graph = job.graph(view.run.graph)
    except HaError:
        return False
    remember(script_secrets(graph.conf, graph.env, graph.arguments))
    return True


def hide_secrets_of_script(job: JobContext, run: int, submission: Submission) -> None:
    """Also hide secrets of the script's own conf; the driver writes them before it logs the failure of the script."""
    secrets = _home(job, run, submission).script_secrets
    remember(read_secrets(secrets, root=job.config.home_path))


def last_words(job: JobContext, view: RunView, submission: SubmissionView) -> str:
    """Return the last lines of a driver's log, without secrets; empty if neither file nor record has any.

    The supervisor stores them with the proof of death, for hosts without the file. Lines from the file are returned
    only if the graph, which names the secrets in them, can be read.
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


POLL_SECONDS = 0.5
QUIET_SECONDS = 5.0  # without a line, after which the log of an ended run is final even without a proof of death
_ALL = 10**9  # lines

Part = tuple[LogPlace, str]
"""A log and a part of its text; the first part of a log is empty."""


def follow(
    job: JobContext, view: RunView, submission: SubmissionView, *, lines: int, note: Callable[[str], None]
) -> Iterator[Part]:
    """Yield the log of *submission* and of later ones, as they are written, until the run has ended.

    :param lines: Number of existing lines to yield.
    :param note: Called with notes for the reader of the log.
    :raises LogMissingError: A log is not on this host.
    """
    watch = _RunWatch(job, view, note)
    attempt: int | None = submission.submission.attempt
    while attempt is not None:
        attempt = watch.await_start(attempt)
        place = find_log(job, view.run.number, watch.submission(attempt))
        yield place, ""
        for part in whole_lines(_pieces(job, reader(job, place, lines=lines), watch, attempt)):
            yield place, part
        attempt = watch.after(attempt)
        lines = _ALL


def _pieces(job: JobContext, log: LogReader, watch: _RunWatch, attempt: int) -> Iterator[bytes]:
    heard = time.monotonic()
    while True:
        over = watch.is_over(attempt, quiet=time.monotonic() - heard > QUIET_SECONDS)
        data = log.read()
        if data:
            heard = time.monotonic()
            # After the read: the driver writes them before the line.
            hide_secrets_of_script(job, watch.run, watch.submission(attempt).submission)
            yield data
        elif over:
            return
        else:
            job.sleep(POLL_SECONDS)


class _RunWatch:
    """The known state of the run; while ZooKeeper does not answer, the last known one, because the log is local."""

    def __init__(self, job: JobContext, view: RunView, note: Callable[[str], None]) -> None:
        self._job = job
        self._view = view
        self._note = note
        self._looked = 0.0
        self._silent = False
        self._known: dict[int, SubmissionView] = {}
        self._remember()

    @property
    def run(self) -> int:
        """Number of the run."""
        return self._view.run.number

    def submission(self, attempt: int) -> SubmissionView:
        """Return an attempt of the run, even if the leader has removed it in between."""
        return self._known[attempt]

    def await_start(self, attempt: int) -> int:
        """Return *attempt* after its start or end, or a later attempt that was started instead."""
        while is_pending(self._job, self._view.run.number, self.submission(attempt)):
            if (later := self.after(attempt)) is not None:
                return later
            self._job.sleep(POLL_SECONDS)
            self._look()
        return attempt

    def after(self, attempt: int) -> int | None:
        """Return the next started attempt."""
        numbers = [each.submission.attempt for each in self._view.submissions if each.started is not None]
        return next((number for number in numbers if number > attempt), None)

    def is_over(self, attempt: int, *, quiet: bool) -> bool:
        """Return whether the log of *attempt* is final."""
        self._look()
        ended = self._view.result is not None and (quiet or self.submission(attempt).exit is not None)
        return ended or self.after(attempt) is not None

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < POLL_SECONDS:
            return
        self._looked = now
        try:
            self._view = self._job.runs.get(self._view.run.number)
        except HaError as error:
            if not error.retryable:
                raise
            if not self._silent:
                self._note(f"the log continues, but later attempts cannot be found now: {error}")
            self._silent = True
        else:
            self._silent = False
            self._remember()

    def _remember(self) -> None:
        self._known |= {each.submission.attempt: each for each in self._view.submissions}
