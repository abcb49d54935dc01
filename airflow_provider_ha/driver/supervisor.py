"""Runs one submission of a driver, and proves its death.

``python -m airflow_provider_ha.driver.supervisor <spec file>``. Order is everything (design, contract 10):

1. the JVM or the driver's Python is gone
2. kill every process that is left, until there is none
3. end the dead driver's ZooKeeper session, so that nobody waits for its timeout
4. carry out a cancel, when one is open (``driver.after_death``)
5. write ``SubmissionExit``
6. clean up after a run that is over

Nobody may read an exit while a process of the submission can still write. When the supervisor itself is killed, the JVM
dies with it, the driver's Python follows (``driver.watchdog``), and there is no exit: the session then runs out by
itself.

A submission has one supervisor, once: the directory is locked for as long as that one lives.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.coordination.records import create_once
from airflow_provider_ha.coordination.session_close import close_session
from airflow_provider_ha.driver import after_death, spark_submit
from airflow_provider_ha.driver.exit_codes import ExitCode
from airflow_provider_ha.driver.failure import read_code, read_details, read_failure
from airflow_provider_ha.driver.log_rotation import rotate_log
from airflow_provider_ha.driver.processes import DeathWatch, ProcessTree, become_subreaper
from airflow_provider_ha.driver.room import require_room
from airflow_provider_ha.driver.supervisor_lock import lock_directory
from airflow_provider_ha.errors import ConfigurationError, HaError, StorageUnavailableError
from airflow_provider_ha.jobs.artifacts import fetch_application
from airflow_provider_ha.jobs.driver_log import last_lines
from airflow_provider_ha.jobs.driver_spec import DriverSpec, read_secrets, read_session, write_private
from airflow_provider_ha.jobs.failures import MESSAGE_LIMIT, Failure, FailureKind
from airflow_provider_ha.jobs.model import JobGraph, SubmissionExit
from airflow_provider_ha.redaction import public, remember, secret_values, secrets_of
from airflow_provider_ha.storage.blobs import get_blob
from airflow_provider_ha.storage.open import open_store
from airflow_provider_ha.storage.outage import is_outage


log = logging.getLogger("airflow_provider_ha.supervisor")

NOT_STARTED = 70  # EX_SOFTWARE: there was never a driver
REFUSED = 75  # EX_TEMPFAIL, of the supervisor itself: nothing was started and nothing is reported
ORDERLY_SECONDS = 30.0  # how long the JVM may clean up after an orderly end of the driver's Python
POLL_SECONDS = 0.02
REPORT_SECONDS = 3600.0  # how long a supervisor tries to write the exit while ZooKeeper is away


@dataclass(frozen=True, slots=True)
class Ending:
    """How the processes of a submission ended; all of them are dead.

    :param code: Exit code of the JVM, negative for a signal.
    :param pids: Every process that was ever seen.
    :param reason: What ended first.
    :param outage: Whether storage or ZooKeeper kept the driver from being started.
    """

    code: int
    pids: tuple[int, ...]
    reason: str
    outage: bool = False


def main(arguments: list[str]) -> int:
    """Run the submission of the spec file in *arguments*. Returns 0 once its exit is written."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    stop = _StopFlag()
    try:
        spec = DriverSpec.read(Path(arguments[0]))
        remember(secrets_of(spec.config))
        lock_directory(spec)  # for as long as this process lives
    except ConfigurationError as error:
        log.error("%s", error)  # noqa: TRY400  # the message says all
        return REFUSED
    except StorageUnavailableError as error:
        log.exception("the driver could not be started")
        ending = _not_started(error)
    else:
        become_subreaper()
        log.info("supervising %s run %d attempt %d as pid %d", spec.job_id, spec.run, spec.attempt, os.getpid())
        ending = run(spec, stop)
    spec.forget()  # no driver is left that could read it
    log.info("all processes are dead: %s (exit code %d, pids %s)", ending.reason, ending.code, list(ending.pids))
    stop.raised = 0  # that one was obeyed; another one means: do not wait for ZooKeeper any longer
    if not report(spec, ending, stop):
        return 1
    after_death.clean_up(spec, on_lost=_give_up)
    return 0


def run(spec: DriverSpec, stop: _StopFlag) -> Ending:
    """Start spark-submit, wait for its end, and kill what is left of it."""
    try:
        tree = start(spec)
    except Exception as error:
        log.exception("the driver could not be started")
        return _not_started(error)
    try:
        reason = watch(tree, spec, stop)
    except BaseException as error:
        tree.kill()
        reason = f"the supervisor failed: {error!r}"
        log.exception("the supervisor failed")
    pids = tree.kill()
    return Ending(tree.code if tree.code is not None else NOT_STARTED, pids, reason)


def start(spec: DriverSpec) -> ProcessTree:
    """Fetch the application and start spark-submit among its data files.

    :raises HaError: The graph or the application cannot be read.
    """
    require_room(spec.directory)
    store = open_store(spec.config)
    graph = JobGraph.from_bytes(get_blob(store, spec.graph.sha256), source=f"job graph {spec.graph.sha256[:12]}")
    remember(secret_values(graph.conf) | secret_values(graph.env))
    spark_home = spark_submit.find_spark_home(spec.spark_home)
    application = fetch_application(store, graph, spec.application_directory)
    write_private(spec.properties, spark_submit.render(spark_submit.properties(graph, application)))
    os.close(os.open(spec.driver_log, os.O_WRONLY | os.O_CREAT, 0o600))
    tree = ProcessTree(
        spark_submit.command(spark_home, spec),
        env=spark_submit.environment(spark_home, spec, graph, os.environ),
        directory=application.files_directory,
        log_file=spec.driver_log,
    )
    rotate_log(spec.driver_log, graph.options)  # its thread comes after the fork
    return tree


def watch(tree: ProcessTree, spec: DriverSpec, stop: _StopFlag) -> str:
    """Return why, as soon as the submission is over. Kills nothing."""
    python: DeathWatch | None = None
    while True:
        if tree.code is not None:
            return f"the JVM (pid {tree.pid}) ended with code {tree.code}"
        if stop.raised:
            return f"the supervisor was told to stop (signal {stop.raised})"
        if python is None:
            python = _driver_python(spec, tree)
        elif python.dead():
            if not spec.driver_pid.exists():
                _await_jvm(tree)
                return f"the driver's Python (pid {python.pid}) ended in order"
            return f"the driver's Python (pid {python.pid}) died; everything else was killed"
        time.sleep(POLL_SECONDS)


def _driver_python(spec: DriverSpec, tree: ProcessTree) -> DeathWatch | None:
    try:
        pid = int(spec.driver_pid.read_text())
        tree.seen.add(pid)
        return DeathWatch(pid)
    except (FileNotFoundError, ValueError, ProcessLookupError):
        return None  # not written yet, or gone already: then the JVM is about to follow


def _await_jvm(tree: ProcessTree) -> None:
    end = time.monotonic() + ORDERLY_SECONDS
    while tree.code is None and time.monotonic() < end:
        time.sleep(POLL_SECONDS)


def report(spec: DriverSpec, ending: Ending, stop: _StopFlag) -> bool:
    """End the dead session, then write the exit. Returns whether it is written.

    Told to stop while ZooKeeper does not answer, it gives up: everything is dead, and the session runs out by itself.
    """
    end = time.monotonic() + REPORT_SECONDS
    pause = 0.2
    while True:
        try:
            _end_session(spec)
            after_death.carry_out_cancel(spec)
            _write_exit(spec, ending)
        except HaError as error:  # noqa: PERF203  # a retry is a try in a loop
            if not error.retryable or stop.raised or time.monotonic() > end:
                log.exception("the exit of the submission could not be written")
                return False
            log.warning("ZooKeeper does not answer, trying again in %.1f s: %s", pause, error)
            time.sleep(pause)
            pause = min(pause * 2, 5.0)
        else:
            spec.session.unlink(missing_ok=True)
            return True


def _give_up(reason: str) -> None:
    """End the process at once: another one leads the job, and nothing more may be removed here."""
    log.warning("the clean-up ends: %s", reason)
    os._exit(0)


def _end_session(spec: DriverSpec) -> None:
    credentials = read_session(spec.session)
    if credentials is not None:
        closed = close_session(spec.config, credentials)
        log.info("session 0x%x of the dead driver: %s", credentials.session_id, "ended" if closed else "not ended")


def _write_exit(spec: DriverSpec, ending: Ending) -> None:
    paths = ClusterPaths(spec.config.root, spec.config.cluster_id).job(spec.job_id)
    told = read_failure(spec.directory)
    record = SubmissionExit(
        code=ending.code,
        pids=ending.pids,
        reason=public(f"{told} ({ending.reason})" if told else ending.reason),
        log=str(spec.driver_log),
        outage=ending.outage or read_code(spec.directory) == ExitCode.OUTAGE,
        failure=_failure(spec, told),
        last_lines=_last_lines(spec),
        at=SystemClock().now(),
    )
    coordinator = KazooCoordinator.connect(spec.config)
    try:
        create_once(coordinator, paths.submission_exit(spec.run, spec.attempt), record)
    finally:
        coordinator.close()


def _failure(spec: DriverSpec, reason: str | None) -> Failure | None:
    """Return what the driver told of its failure. One that lost its leadership has met an outage of ZooKeeper."""
    if read_code(spec.directory) == ExitCode.LEADERSHIP_LOST:
        said = public(reason or "").partition("\n")[0][:MESSAGE_LIMIT]
        return Failure(kind=FailureKind.OUTAGE, error_class=ExitCode.LEADERSHIP_LOST.name, message=said)
    return read_details(spec.directory)


def _last_lines(spec: DriverSpec) -> str:
    remember(read_secrets(spec.script_secrets))
    try:
        return last_lines(spec.driver_log)
    except OSError:
        return ""  # the driver was never started, or its disk fails: the exit is what counts


def _not_started(error: Exception) -> Ending:
    """Return the end of a submission without a driver: its watchers have to read of it, for each kind of error."""
    outage = error.retryable if isinstance(error, HaError) else is_outage(error)
    return Ending(NOT_STARTED, (), f"the driver could not be started: {error}", outage=outage)


class _StopFlag:
    """SIGTERM and SIGINT mean: kill all, then report. They never end the supervisor before its work is done."""

    def __init__(self) -> None:
        self.raised = 0
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._raise)

    def _raise(self, number: int, _frame: object) -> None:
        self.raised = number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
