"""Supervisor of a submission: runs its driver, and proves the driver's death.

``python -m airflow_provider_ha.host.supervisor.main <spec file>``, or ``--home <directory>`` (``supervisor.arrival``).
The order of the steps matters (design, contract 10):

1. the JVM or the driver's Python is gone 2. kill every remaining process 3. end the dead driver's ZooKeeper session, so
that other processes need not wait for its timeout 4. carry out a cancel, if one is open (``supervisor.exit_report``) 5.
write ``SubmissionExit`` (``supervisor.exit_report``), with the claim of the next attempt if it is due immediately 6.
clean up after a finished run, or become the supervisor of the next attempt (``supervisor.in_place``)

The exit must not be visible while a process of the submission can still write. When the supervisor itself is killed,
the JVM dies with it, the driver's Python follows (``driver.ending.process_end``), and the session
expires without an exit.

A disk that is full to its last kilobytes has room for the small files of a launch. The driver would then lead, and
Spark would die with its first state file, which looks like a failure of the job but is an outage. So the supervisor
checks for room first.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ha.argument_secrets import script_secrets
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError, HaError, StorageUnavailableError
from airflow_provider_ha.host.archives.archive_store import ArchiveStore
from airflow_provider_ha.host.archives.driver_launch import DriverLaunch, driver_launch, start_training
from airflow_provider_ha.host.engines.arrivals import arrival_of
from airflow_provider_ha.host.process_tree import (
    END_SIGNALS,
    Death,
    DeathWatch,
    ProcessTree,
    become_subreaper,
    end_of_jvm,
    rotate_log,
    signal_of,
)
from airflow_provider_ha.host.supervisor import spark_submit
from airflow_provider_ha.host.supervisor.arrival import arrived, lock_directory
from airflow_provider_ha.host.supervisor.spark_submit import check_python, packed_python
from airflow_provider_ha.jobs.application.artifacts import fetch_application, fetch_graph, is_of_storage, needed_by
from airflow_provider_ha.jobs.drivers.driver_home import HOME_OPTION
from airflow_provider_ha.jobs.drivers.driver_spec import OWNER_ONLY, DriverSpec, write_private
from airflow_provider_ha.jobs.drivers.spark_release import find_spark_home
from airflow_provider_ha.jobs.options.conf import engine_options, named_spark_home
from airflow_provider_ha.jobs.runs.submissions import NOT_LAUNCHED
from airflow_provider_ha.redaction import remember, secret_values, secrets_of
from airflow_provider_ha.storage.durable import remove_tree
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.storage.outage import is_outage, outages


if TYPE_CHECKING:
    from airflow_provider_ha.host.supervisor.standby import HandOverRequest

ROOM = 1024 * 1024  # bytes


log = logging.getLogger("airflow_provider_ha.host.supervisor")

REFUSED = 75  # EX_TEMPFAIL of the supervisor itself: it started and reported nothing
ORDERLY_SECONDS = 30.0  # seconds for the JVM to clean up after an orderly end of the driver's Python
POLL_SECONDS = 0.02
_STARTED = time.monotonic()  # of this program


def main(arguments: list[str]) -> int:
    """Run the submission named by *arguments* (``supervisor.arrival``). Return 0 once its exit is written."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    stop = _StopFlag()
    try:
        spec = arrived(arguments)
        remember(secrets_of(spec.config))
        arrival = arrival_of(spec.handle)
        arrival.bind()
        # The place of a later attempt is taken before its program is loaded.
        reports = arrival.reports_itself and arguments[0] == HOME_OPTION and not spec.ticket.is_standby
        if reports and not _take_place(spec, stop):
            return REFUSED
    except HaError as error:
        log.error("%s", error)  # noqa: TRY400  # the message says all
        return REFUSED
    try:
        lock_directory(spec)  # locked for the lifetime of this process
    except ConfigurationError as error:
        from airflow_provider_ha.host.supervisor import one_driver  # noqa: PLC0415  # for this end only

        log.error("%s", error)  # noqa: TRY400  # as above
        if not spec.ticket.is_standby:
            one_driver.note_refusal(spec, str(error))
        return REFUSED
    except StorageUnavailableError as error:
        log.exception("the driver could not be started")
        death = _not_started(error)
    else:
        become_subreaper()
        what = "a standby driver" if spec.ticket.is_standby else f"attempt {spec.attempt}"
        log.info("supervising %s run %d %s as pid %d", spec.job_id, spec.run, what, os.getpid())
        if spec.ticket.is_standby and not _is_wanted(spec, stop):
            remove_tree(spec.home.directory)
            return 0
        death = run(spec, stop)
    spec.forget()  # the driver that could read it is dead
    log.info("all processes are dead: %s (exit code %d, pids %s)", death.reason, death.code, list(death.pids))
    asked, stop.raised = bool(stop.raised), 0  # obeyed; a further signal ends the wait for ZooKeeper
    return _end(spec, death, stop, asked=asked)


def _is_wanted(spec: DriverSpec, stop: _StopFlag) -> bool:
    from airflow_provider_ha.host.supervisor import standby  # noqa: PLC0415  # of few supervisors

    return standby.await_start(spec, lambda: bool(stop.raised))


def _take_place(spec: DriverSpec, stop: _StopFlag) -> bool:
    """Return whether the submission belongs to this process; otherwise it may start and report nothing."""
    from airflow_provider_ha.host.supervisor import one_driver  # noqa: PLC0415  # of clusters only

    try:
        one_driver.take_place(spec, stopped=lambda: bool(stop.raised))
    except HaError as error:
        spec.forget()
        log.error("%s", error)  # noqa: TRY400  # the message says all
        return False
    return True


def _end(spec: DriverSpec, death: Death, stop: _StopFlag, *, asked: bool) -> int:
    """Report the end of the driver, then clean up or start the next attempt; return the exit code.

    :param asked: This process received a request to end, so its host is shutting down and it restarts nothing.
    """
    from airflow_provider_ha.host.supervisor import exit_report, in_place  # noqa: PLC0415  # see _import_the_end

    def stopped() -> bool:
        return bool(stop.raised)

    if spec.ticket.is_standby:
        from airflow_provider_ha.host.supervisor import standby  # noqa: PLC0415  # of few supervisors

        promoted = standby.submission_of(spec, stopped)
        if promoted is None:
            if not asked:
                standby.end(spec, death, time.monotonic() - _STARTED, stopped)
            return 0
        spec = promoted
    restart = None if asked else in_place.RestartInPlace(spec)
    reported = exit_report.report(spec, death, restart=restart, stopped=stopped)
    if reported is None:
        return 1
    if restart is not None:
        in_place.follow(restart, spec, reported.claimed, stopped=stopped)
        if not stopped():
            _replace_promoted(spec, stopped)
    exit_report.clean_up(spec)
    return 0


def _replace_promoted(spec: DriverSpec, stopped: Callable[[], bool]) -> None:
    from airflow_provider_ha.host.supervisor import standby  # noqa: PLC0415  # after the death only

    standby.replace_promoted(spec, stopped)


def run(spec: DriverSpec, stop: _StopFlag) -> Death:
    """Start spark-submit, wait for its end, and kill the remaining processes."""
    try:
        tree, launch, standby_drivers = start(spec)
    except Exception as error:
        log.exception("the driver could not be started")
        return _not_started(error)
    try:
        threading.Thread(target=_import_the_end, name="import-the-end", daemon=True).start()  # after the fork
        reason = watch(tree, spec, stop, launch, standby_drivers=standby_drivers)
        ended = tree.code  # exit code before this process has killed anything
        if ended is not None and signal_of(ended) is not None and not stop.raised:
            reason = end_of_jvm(tree.pid, ended)
    except BaseException as error:
        ended = None
        tree.kill()
        reason = f"the supervisor failed: {error!r}"
        log.exception("the supervisor failed")
    pids = tree.kill()
    crashed = ended is not None and _set_aside(spec, launch, ended)
    return Death(tree.code if tree.code is not None else NOT_LAUNCHED, pids, reason, outage=crashed, jvm=ended)


def _set_aside(spec: DriverSpec, launch: DriverLaunch, code: int) -> bool:
    """Set the archive aside of a JVM that a signal ended before Python led; return whether that was so."""
    led = spec.home.driver_pid.exists() or spec.home.started.exists()
    if launch.archive is None or signal_of(code) is None or led:
        return False
    reason = f"a JVM with it was ended by signal {signal_of(code)}"
    try:
        ArchiveStore.of(spec.config).set_aside(launch.archive, reason)
    except (HaError, OSError) as error:  # the exit of the driver has to be written all the same
        log.warning("class archive %s cannot be set aside: %s", launch.archive, error)
        return False
    log.warning("class archive %s is set aside: the next attempt starts without it", launch.archive)
    return True


def start(spec: DriverSpec) -> tuple[ProcessTree, DriverLaunch, int]:
    """Fetch the application and start Spark's JVM among its data files.

    :returns: Its processes, how it was started, and the number of standby drivers that the job requests.
    :raises HaError: The graph or the application cannot be read.
    """
    require_room(spec.home.directory)
    store = open_store(spec.config)
    graph = fetch_graph(store, spec.ticket.graph, spec.job_id, spec.run)
    remember(script_secrets(graph.conf, graph.env, graph.arguments))
    spark_home = find_spark_home(named_spark_home(engine_options(spec.config, graph.target)))
    with needed_by(spec.job_id, spec.run, "application"):
        application = fetch_application(store, graph, spec.home.application_directory)
    if (named := packed_python(graph.conf)) is not None:
        check_python(named, application.files_directory)
    environment = spark_submit.environment(spark_home, spec, graph, os.environ)
    site = spark_submit.site_keys(spark_home, environment) if graph.lineage else ()
    place = arrival_of(spec.handle).conf(graph)
    properties = spark_submit.properties(graph, application, spec.config, site=site, place=place)
    remember(secret_values(properties))
    write_private(spec.home.properties, spark_submit.render(properties))
    os.close(os.open(spec.home.driver_log, os.O_WRONLY | os.O_CREAT, 0o600))
    launch = driver_launch(
        spark_submit.command(spark_home, spec),
        environment,
        ArchiveStore.of(spec.config),
        enabled=graph.options.class_archive,
    )
    tree = ProcessTree(
        launch.words,
        env=launch.environment,
        directory=application.files_directory,
        log_file=spec.home.driver_log,
    )
    try:
        rotate_log(spec.home.driver_log, graph.options)  # the thread must start after the fork
    except BaseException:
        tree.kill()
        raise
    return tree, launch, graph.options.standby_drivers


def _import_the_end() -> None:
    """Import the modules for a driver's end while the JVM starts: later imports delay a recovery by 0.1 s."""
    from airflow_provider_ha.host.supervisor import exit_report, in_place  # noqa: F401, PLC0415  # the reason is above


def watch(
    tree: ProcessTree, spec: DriverSpec, stop: _StopFlag, launch: DriverLaunch, *, standby_drivers: int = 0
) -> str:
    """Return the reason once the submission is over. Kills nothing.

    On a request to end, the job is handed over to a standby driver, for some seconds. A second request ends that.

    The class archive that the driver lacks is made once the job is RUNNING and the host is not busy, beside the job.
    """
    python: DeathWatch | None = None
    training, store = launch.training, ArchiveStore.of(spec.config)
    hand_over: HandOverRequest | None = None
    while True:
        if training is not None and spec.home.running.exists() and start_training(training, store, spec.home.directory):
            training = None
        if tree.code is not None:
            return end_of_jvm(tree.pid, tree.code)
        if stop.raised and standby_drivers and hand_over is None:
            hand_over = _hand_over(spec)
        if stop.raised and (hand_over is None or hand_over.is_over or stop.count > 1):
            return f"the supervisor received a stop signal ({stop.raised})"
        if python is None:
            python = _driver_python(spec, tree)
        elif python.dead():
            if not spec.home.driver_pid.exists():
                _await_jvm(tree)
                return f"the driver's Python (pid {python.pid}) ended in order"
            return f"the driver's Python (pid {python.pid}) died; everything else was killed"
        time.sleep(POLL_SECONDS)


def _hand_over(spec: DriverSpec) -> HandOverRequest:
    from airflow_provider_ha.host.supervisor import standby  # noqa: PLC0415  # of few supervisors

    return standby.HandOverRequest(spec)


def _driver_python(spec: DriverSpec, tree: ProcessTree) -> DeathWatch | None:
    try:
        pid = int(spec.home.driver_pid.read_text())
        tree.seen.add(pid)
        return DeathWatch(pid)
    except (FileNotFoundError, ValueError, ProcessLookupError):
        return None  # not written yet, or already removed because the JVM is about to end


def _await_jvm(tree: ProcessTree) -> None:
    end = time.monotonic() + ORDERLY_SECONDS
    while tree.code is None and time.monotonic() < end:
        time.sleep(POLL_SECONDS)


def _not_started(error: Exception) -> Death:
    """Return the end of a submission without a driver, for every kind of error, because its watchers need an end."""
    return Death(
        NOT_LAUNCHED,
        (),
        f"the driver could not be started: {error}",
        outage=error.retryable or is_of_storage(error) if isinstance(error, HaError) else is_outage(error),
        refused=isinstance(error, ApplicationRefusedError),
        unfit=isinstance(error, ConfigurationError),
    )


class _StopFlag:
    """Flag set by SIGTERM and SIGINT: kill all, then report. The signals never end the supervisor before that."""

    def __init__(self) -> None:
        self.raised = self.count = 0
        for number in END_SIGNALS:
            signal.signal(number, self._raise)
        # Blocked by the supervisor of the previous attempt in this same process (``supervisor.in_place``).
        signal.pthread_sigmask(signal.SIG_UNBLOCK, END_SIGNALS)

    def _raise(self, number: int, _frame: object) -> None:
        self.raised = number
        self.count += 1


def require_room(directory: Path) -> None:
    """Write and remove a file of 1 MiB, because reported free space (quota, thin volume) can be refused later.

    :raises StorageUnavailableError: The disk has no room for it.
    """
    path = directory / f".room-{new_id()}.tmp"
    with outages(f"filled with {ROOM} bytes", path):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
            with os.fdopen(descriptor, "wb") as file:
                file.write(bytes(ROOM))
                file.flush()
                os.fsync(descriptor)
        finally:
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
