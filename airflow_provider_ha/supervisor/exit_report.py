"""The supervisor's report once every process of its driver is dead, and its clean-up afterwards.

Order matters (design, contract 10): first the dead session ends, then an open cancel is carried out, then the exit is
written, with the claim of the next attempt if that is due (``supervisor.in_place``). A reader of the exit takes over
the job, and must not find the dead driver's session as its leader.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_ha._process.tree import Death
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.records import create_once
from airflow_provider_ha.coordination.session_close import close_session
from airflow_provider_ha.driver.exit_codes import ExitCode
from airflow_provider_ha.driver.failure import read_code, read_details, read_failure
from airflow_provider_ha.errors import HaError, LogMissingError
from airflow_provider_ha.jobs.failures import MESSAGE_LIMIT, Failure, FailureKind
from airflow_provider_ha.jobs.host.driver_log import last_lines
from airflow_provider_ha.jobs.host.driver_spec import DriverSpec, read_secrets, read_session
from airflow_provider_ha.jobs.submissions import Submission, SubmissionExit
from airflow_provider_ha.recovery.unfit import judged
from airflow_provider_ha.redaction import public, remember
from airflow_provider_ha.supervisor import after_death
from airflow_provider_ha.supervisor.connection import connected
from airflow_provider_ha.supervisor.in_place import RestartInPlace


log = logging.getLogger("airflow_provider_ha.supervisor")

_LOGGED = re.compile(
    r"\d{2,4}[-/]\d\d[-/]\d\d[ T]\d\d:|WARNING: Using incubator|Using Spark's default log4j|Setting default log level"
    r"|To adjust logging level|\S+:\d+: \w*Warning: |warnings\.warn\("
)
_WORDS = 3  # lines
REPORT_SECONDS = 24 * 3600.0  # how long a supervisor tries to write the exit while ZooKeeper is away


@dataclass(frozen=True, slots=True)
class Reported:
    """An exit that is written.

    :param claimed: The next attempt of the run, claimed in the same transaction for this supervisor.
    """

    claimed: Submission | None = None


def report(
    spec: DriverSpec, death: Death, *, restart: RestartInPlace | None, stopped: Callable[[], bool]
) -> Reported | None:
    """End the dead session, then write the exit, together with the next attempt if that is due immediately.

    Stopped while ZooKeeper does not answer, it gives up: all processes are dead, and the session expires.

    :param restart: How the run is started again; ``None`` when this supervisor does not do that.
    :param stopped: Whether the supervisor has received a request to stop.
    :returns: ``None`` when the exit could not be written.
    """
    end = time.monotonic() + REPORT_SECONDS
    pause = 0.2
    while True:
        try:
            ended = _end_session(spec)  # guard: exit-before-the-session-ends
            after_death.carry_out_cancel(spec, session_ended=ended)
            reported = _write_exit(spec, death, restart)
        except HaError as error:  # noqa: PERF203  # a retry is a try in a loop
            if not error.retryable or stopped() or time.monotonic() > end:
                log.exception("the exit of the submission could not be written")
                return None
            log.warning("ZooKeeper does not answer, trying again in %.1f s: %s", pause, error)
            time.sleep(pause)
            pause = min(pause * 2, 5.0)
        else:
            spec.home.session.unlink(missing_ok=True)
            return reported


def clean_up(spec: DriverSpec) -> None:
    """Clean up after a finished run; ends the process when another one leads the job."""
    after_death.clean_up(spec, on_lost=_give_up)


def _give_up(reason: str) -> None:
    """Exit immediately: another process leads the job, and this one may remove nothing more."""
    log.warning("the clean-up ends: %s", reason)
    os._exit(0)


def _end_session(spec: DriverSpec) -> bool:
    """Return whether the dead driver's session is known to have ended; if not, it holds the lock until it expires."""
    credentials = read_session(spec.home.session)
    if credentials is None:
        return True
    closed = close_session(spec.config, credentials)
    log.info("session 0x%x of the dead driver: %s", credentials.session_id, "ended" if closed else "not ended")
    return closed


def _write_exit(spec: DriverSpec, death: Death, restart: RestartInPlace | None) -> Reported:
    reported, said = read_failure(spec.home.directory), read_code(spec.home.directory)
    killed = _jvm_was_killed(death, said)
    told = f"{reported} ({death.reason})" if reported and not killed else death.reason
    reason = public(told)
    unfit = death.unfit or said == ExitCode.UNFIT
    record = SubmissionExit(
        code=death.code,
        pids=death.pids,
        reason=reason,
        log=str(spec.home.driver_log),
        outage=death.outage or said == ExitCode.OUTAGE,
        failure=None if killed else _failure(spec, reported, death),
        decision=public(reported or "") if said == ExitCode.DECISION_NEEDED else "",
        last_lines=_last_lines(spec),
        ran=spec.home.running.exists(),
        started=spec.home.started.exists(),
        committed=spec.home.committed.exists(),
        at=SystemClock().now(),
    )
    with connected(spec) as job:
        if death.refused or unfit:
            record = record.model_copy(update=judged(job, spec.run, reason, refused=death.refused))
        claimed = None if restart is None else restart.claim_with_exit(job, record)
        if claimed is None:
            create_once(job.coordinator, job.paths.submission_exit(spec.run, spec.attempt), record)
    return Reported(claimed)


def _jvm_was_killed(death: Death, said: int | None) -> bool:
    """Return whether the JVM was killed before its driver could end: the driver's report is then only a consequence.

    A driver that loses its leadership kills its JVM itself.
    """
    return death.signal is not None and said != ExitCode.LEADERSHIP_LOST


def _failure(spec: DriverSpec, reason: str | None, death: Death) -> Failure | None:
    """Return the failure that the driver reported. A driver that lost its leadership has met an outage of ZooKeeper.

    The last output of spark-submit or of the script is in the log only.
    """
    if read_code(spec.home.directory) == ExitCode.LEADERSHIP_LOST:
        said = public(reason or "").partition("\n")[0][:MESSAGE_LIMIT]
        return Failure(kind=FailureKind.OUTAGE, error_class=ExitCode.LEADERSHIP_LOST.name, message=said)
    found = read_details(spec.home.directory)
    if found is not None and found.error_class == SystemExit.__name__:
        return _with_words(found, spec)
    if found is None and reason is None and death.jvm and not spec.home.driver_pid.exists():
        return _with_words(Failure(error_class="spark-submit", message=f"exit status {death.jvm}", batches={}), spec)
    return found


def _with_words(failure: Failure, spec: DriverSpec) -> Failure:
    """Return a failure with the last lines of the log that no logger wrote: usage of the script, advice of a shell."""
    lines = [line.strip() for line in _last_lines(spec).splitlines() if line.strip() and not _LOGGED.match(line)]
    said = " | ".join(lines[-_WORDS:])
    message = f"{failure.message}: {said}" if said else failure.message
    return failure.model_copy(update={"message": message[:MESSAGE_LIMIT]})


def _last_lines(spec: DriverSpec) -> str:
    remember(read_secrets(spec.home.script_secrets))
    try:
        return last_lines(spec.home.driver_log)
    except (OSError, LogMissingError):
        return ""  # the driver was never started, or its disk fails: the exit is more important
