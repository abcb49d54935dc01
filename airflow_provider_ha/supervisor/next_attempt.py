"""From the supervisor of a lost driver to that of the next attempt: the same process with a new program.

``exec`` keeps the process id, so the engine and the operator of the host find one supervisor. The new program is the
version installed at that moment, and shares no thread, lock or secret in memory with the old one. Signals are blocked
during the change: the new program obeys a signal that arrives in that time.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable

import psutil

from airflow_provider_ha._process.tree import END_SIGNALS
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.host.driver_spec import OWNER_ONLY, SUBMISSION_VARIABLE, SUPERVISOR_MODULE, DriverSpec
from airflow_provider_ha.jobs.host.this_host import handle_here
from airflow_provider_ha.jobs.submissions import Submission
from airflow_provider_ha.recovery.claim import note_not_launched, note_started
from airflow_provider_ha.storage.durable import make_directories
from airflow_provider_ha.storage.outage import is_outage
from airflow_provider_ha.supervisor.connection import connected
from airflow_provider_ha.supervisor.in_place import RestartInPlace


log = logging.getLogger("airflow_provider_ha.supervisor")


def follow(
    restart: RestartInPlace, spec: DriverSpec, claimed: Submission | None, *, stopped: Callable[[], bool]
) -> None:
    """Become the supervisor of the next attempt; returns when this process has none to start, or not any longer.

    :param restart: Of the lost submission.
    :param spec: The lost submission.
    :param claimed: The next attempt, if it is claimed already.
    :param stopped: Whether this supervisor has received a request to end.
    """
    while True:
        claimed = claimed or restart.await_turn(stopped=stopped)
        if claimed is None:
            return
        spec = spec.of_next(claimed.attempt, claimed.submission_id)
        try:
            if stopped():
                _close(spec, "the supervisor received a request to end before it started the driver", outage=True)
                return
            become(spec, claimed)
        except (HaError, OSError) as error:
            log.exception("attempt %d could not be started", spec.attempt)
            outage = error.retryable if isinstance(error, HaError) else is_outage(error)
            spec.forget()
            if not _close(spec, f"it could not be launched: {error}", outage=outage):
                return
        restart, claimed = RestartInPlace(spec), None


def become(spec: DriverSpec, submission: Submission) -> None:
    """Turn this process into the supervisor of *submission*. Does not return.

    :raises OSError, HaError: The change failed; this process continues unchanged.
    """
    make_directories(spec.home.directory)
    spec.write()
    handle = spec.handle or handle_here(psutil.Process(), spec.home.driver_log, engine=submission.engine)
    with connected(spec) as job:
        note_started(job, spec.run, submission, handle)
    log.info("this process continues as the supervisor of attempt %d", spec.attempt)
    output = os.open(spec.home.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWNER_ONLY)
    os.chdir(spec.home.directory)
    signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)
    try:
        for stream in (1, 2):
            os.dup2(output, stream)
        environment = os.environ | {SUBMISSION_VARIABLE: spec.submission_id}
        os.execve(sys.executable, [sys.executable, "-m", SUPERVISOR_MODULE, str(spec.home.spec)], environment)  # noqa: S606  # no shell
    finally:  # the new program could not be started
        os.close(output)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, END_SIGNALS)


def _close(spec: DriverSpec, reason: str, *, outage: bool) -> bool:
    """Write the exit of a submission that has no driver; returns whether it is written."""
    try:
        with connected(spec) as job:
            note_not_launched(job, spec.run, spec.attempt, reason, outage=outage)
    except HaError:
        log.exception("the exit of attempt %d could not be written: the next caller takes it for overdue", spec.attempt)
        return False
    return True
