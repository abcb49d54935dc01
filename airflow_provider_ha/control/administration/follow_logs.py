"""Follow the log of a run: what its driver writes, over rotations, and what the drivers of the next attempts write.

Invariant: a log is left only after it was read to its end, and that is known before the last read: what was looked at
first (a newer attempt that was started, the end of all processes) says that nothing more will be written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from airflow_provider_ha.control.administration.driver_logs import (
    find_log,
    hide_secrets_of_script,
    is_pending,
    reader,
)
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.host.driver_log import LogReader, whole_lines
from airflow_provider_ha.jobs.host.log_place import LogPlace
from airflow_provider_ha.jobs.runs import RunView, SubmissionView


POLL_SECONDS = 0.5
QUIET_SECONDS = 5.0  # without a line, after which the log of a run that is over has ended, without a word of its end
_ALL = 10**9  # lines

Part = tuple[LogPlace, str]
"""A part of a log, and which log it is of; the first part of each is empty."""


def follow(
    job: JobContext, view: RunView, submission: SubmissionView, *, lines: int, note: Callable[[str], None]
) -> Iterator[Part]:
    """Yield the log of *submission* and of those after it, as they are written, until the run is over.

    :param lines: How many of the lines that are there already are given.
    :param note: Called with what a reader of the log has to know besides.
    :raises LogMissingError: The log of one of them is not on this host.
    """
    watch = _Watch(job, view, note)
    attempt: int | None = submission.submission.attempt
    while attempt is not None:
        attempt = watch.await_start(attempt)
        place = find_log(job, view.run.number, watch.submission(attempt))
        yield place, ""
        for part in whole_lines(_pieces(job, reader(job, place, lines=lines), watch, attempt)):
            yield place, part
        attempt = watch.after(attempt)
        lines = _ALL


def _pieces(job: JobContext, log: LogReader, watch: _Watch, attempt: int) -> Iterator[bytes]:
    heard = time.monotonic()
    while True:
        over = watch.is_over(attempt, quiet=time.monotonic() - heard > QUIET_SECONDS)
        data = log.read()
        if data:
            heard = time.monotonic()
            hide_secrets_of_script(job, watch.run, attempt)  # after the read: it is left before the line is written
            yield data
        elif over:
            return
        else:
            job.sleep(POLL_SECONDS)


class _Watch:
    """What is known of the run. While ZooKeeper does not answer it is what was known last: the log itself is here."""

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
        """Return an attempt of the run, also one that the leader has forgotten since."""
        return self._known[attempt]

    def await_start(self, attempt: int) -> int:
        """Return *attempt* once it was started or has ended, or the attempt that was started in its place."""
        while is_pending(self._job, self._view.run.number, self.submission(attempt)):
            if (later := self.after(attempt)) is not None:
                return later
            self._job.sleep(POLL_SECONDS)
            self._look()
        return attempt

    def after(self, attempt: int) -> int | None:
        """Return the next attempt that was started."""
        numbers = [each.submission.attempt for each in self._view.submissions if each.started is not None]
        return next((number for number in numbers if number > attempt), None)

    def is_over(self, attempt: int, *, quiet: bool) -> bool:
        """Whether nothing more will be written into the log of *attempt*."""
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
                self._note(f"the log goes on, but not into another attempt: {error}")
            self._silent = True
        else:
            self._silent = False
            self._remember()

    def _remember(self) -> None:
        self._known |= {each.submission.attempt: each for each in self._view.submissions}
