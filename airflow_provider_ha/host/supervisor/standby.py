"""Supervisor of a standby driver: its start once the job runs, its end, and its successor.

The supervisor of a lost leader turns into the supervisor of a new standby driver when an old one has taken the job
over. So a host keeps the number of supervisors that the submission began with: one for the leader, one for each standby
driver. A standby driver that dies is started again under another id, after a pause that doubles.

A standby driver is no submission, so no exit is written for it, unless it has become one: its supervisor finds the
submission with its id, after the session of the dead process has ended.

The supervisor of a leader that receives a request to end, because its host is shut down, hands the job over to a ready
standby driver: no batch is repeated.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import psutil

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import HaError, JobStateError
from airflow_provider_ha.host.engines.table import ENTRIES
from airflow_provider_ha.host.process_tree import Death
from airflow_provider_ha.host.supervisor.exit_report import end_session
from airflow_provider_ha.host.supervisor.in_place import become
from airflow_provider_ha.host.supervisor.one_driver import connected
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.job_graph import JobGraph
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import JobState, OperationKind
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.options.job_options import memory_bytes
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel, StandbyStore
from airflow_provider_ha.storage.durable import remove_tree


log = logging.getLogger("airflow_provider_ha.host.supervisor")

FAILURES_VARIABLE = "SPARK_HA_STANDBY_FAILURES"  # how many standby drivers in a row have failed under this process
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 600.0  # seconds before the next standby driver
OUTAGE_PAUSE = 60.0  # seconds: longest pause before the next try in an outage
LONG_LIFE = 600.0  # seconds: a standby driver that lived for them had no trouble with its start
# Of a job that is not RUNNING. A master starts drivers before executors, so a standby driver may hold the cores without
# which the job never runs.
LEAVE_SECONDS = 180.0
_POLL_SECONDS = 1.0
_DEFAULT_HEAP = 1 << 30  # bytes; of spark-submit
_BESIDE_HEAP = 512 << 20  # bytes, for the JVM beside its heap, and for Python
# Of a batch in flight. The worker of a standalone cluster kills the JVM around this process after 10 s.
HAND_OVER_SECONDS = 6.0
_TRY_SECONDS = 24 * 3600.0  # of an outage of ZooKeeper, as for the exit of a submission


def await_start(spec: DriverSpec, stopped: Callable[[], bool]) -> bool:
    """Wait until the job is RUNNING, and this host has the memory of another driver.

    The first start of the job does not share the host with that of a standby driver. While memory is missing, the
    standby driver is shown with the reason, in the session of this process. On a cluster it leaves its place to a job
    that is not RUNNING for ``LEAVE_SECONDS``; the cluster's leader starts it again.

    :returns: Whether the standby driver is needed, and may start.
    """
    pauses = _pauses()
    while not stopped():
        try:
            with connected(spec) as job:
                if not _is_live(job, spec):
                    return False
                wanted = _heap(job.graph(spec.ticket.graph)) + _BESIDE_HEAP
                running_at = time.monotonic()
                while not stopped():
                    if job.snapshot().state is JobState.RUNNING:
                        running_at = time.monotonic()
                        free = psutil.virtual_memory().available
                        if free >= wanted:
                            return True
                        _show_need(job, spec, wanted, free)
                    elif ENTRIES[spec.handle.engine].is_cluster and time.monotonic() - running_at > LEAVE_SECONDS:
                        log.warning("the standby driver leaves its place in the cluster: the job does not run")
                        return False
                    time.sleep(_POLL_SECONDS)
                    if not _is_live(job, spec):
                        return False
        except HaError as error:  # noqa: PERF203  # a retry is a try in a loop
            if not error.retryable:
                log.error("the standby driver is not started: %s", error)  # noqa: TRY400  # the message says all
                return False
            log.warning("the job cannot be read yet: %s", error)
            _sleep(next(pauses), stopped)
    return False


def _pauses() -> Iterator[float]:
    """Yield the pauses between the tries of an outage."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, OUTAGE_PAUSE)


def _sleep(seconds: float, stopped: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not stopped():
        time.sleep(min(_POLL_SECONDS, left))


def _heap(graph: JobGraph) -> int:
    """Return the heap of the driver's JVM in bytes."""
    return memory_bytes(graph.driver_memory or graph.conf.get("spark.driver.memory", "")) or _DEFAULT_HEAP


def _show_need(job: JobRecords, spec: DriverSpec, wanted: int, free: int) -> None:
    standbys = StandbyStore(job.coordinator, job.paths, spec.run)
    if any(each.standby_id == spec.submission_id and each.queued is None for each in standbys.living()):
        return
    note = f"it needs {wanted >> 20} MiB of memory, and {free >> 20} MiB are free"
    log.warning("the standby driver is not started yet: %s", note)
    own = Standby(
        standby_id=spec.submission_id,
        level=StandbyLevel.REQUESTED,
        since=job.clock.now(),
        host=socket.gethostname(),
        pid=os.getpid(),
        log=spec.handle.log_uri,
        note=note,
    )
    standbys.join(own, job.graph(spec.ticket.graph).options.standby_drivers)


class HandOverRequest:
    """Request of a supervisor that its driver makes way for a ready standby driver; for a short time only.

    :param spec: The driver.
    """

    def __init__(self, spec: DriverSpec) -> None:
        self._spec = spec
        self._end = time.monotonic() + HAND_OVER_SECONDS
        self._refused = threading.Event()
        threading.Thread(target=self._request, name="hand-over", daemon=True).start()

    @property
    def is_over(self) -> bool:
        """Whether it was refused, or the driver has not ended in time."""
        return self._refused.is_set() or time.monotonic() > self._end

    def _request(self) -> None:
        try:
            with connected(self._spec) as job:
                if self._can_make_way(job):
                    self._ask(job)
                else:
                    self._refused.set()
        except HaError as error:
            log.warning("the job is not handed over: %s", error)
            self._refused.set()

    def _can_make_way(self, job: JobRecords) -> bool:
        """Return whether the driver is the newest of its run, and a standby driver waits for its end."""
        newest = job.runs.get(self._spec.run).newest
        if newest is None or newest.submission.submission_id != self._spec.submission_id:
            return False
        return StandbyStore(job.coordinator, job.paths, self._spec.run).is_ready()

    def _ask(self, job: JobRecords) -> None:
        operations.request(
            job.coordinator,
            job.paths,
            OperationKind.HAND_OVER,
            operation_id=f"shutdown-{self._spec.submission_id}",
            arguments={},
            requested_by=f"the supervisor on {socket.gethostname()}, which was asked to end",
            clock=job.clock,
            seen=self._spec.run,
        )
        log.info("the driver is asked to hand the job over to a standby driver")


def submission_of(spec: DriverSpec, stopped: Callable[[], bool]) -> DriverSpec | None:
    """End the session of a dead standby driver; return the submission that it has become, ``None`` for none."""
    end = time.monotonic() + _TRY_SECONDS
    while True:
        try:
            if end_session(spec):  # guard: promotion-comes-after-the-search
                spec.home.session.unlink(missing_ok=True)
            with connected(spec) as job:
                return _submission_in(job, spec)
        except JobStateError:  # noqa: PERF203  # as above; the run is removed
            return None
        except HaError as error:
            if not error.retryable or stopped() or time.monotonic() > end:
                log.exception("it is not known whether the standby driver has led")
                return None
            log.warning("ZooKeeper does not answer, trying again: %s", error)
            time.sleep(_POLL_SECONDS)


def _submission_in(job: JobRecords, spec: DriverSpec) -> DriverSpec | None:
    for view in job.runs.get(spec.run).submissions:
        if view.submission.submission_id == spec.submission_id:
            return spec.promoted(view.submission.attempt)
    return None


def end(spec: DriverSpec, death: Death, lived: float, stopped: Callable[[], bool]) -> None:
    """End the supervision of a standby driver that has not led; start another one if the run needs it.

    :param lived: Seconds from its start to its death.
    """
    if death.code == 0:  # it was not needed
        remove_tree(spec.home.directory)
        return
    failures = 1 if lived > LONG_LIFE else 1 + int(os.environ.get(FAILURES_VARIABLE, "0"))
    pause = min(FIRST_PAUSE * 2.0 ** (failures - 1), LONGEST_PAUSE)
    log.warning("a standby driver has failed (%s); the next one starts in %.0f s", death.reason, pause)
    _sleep(pause, stopped)
    os.environ[FAILURES_VARIABLE] = str(failures)
    _start_another(spec, stopped, lambda job: _is_live(job, spec))


def replace_promoted(spec: DriverSpec, stopped: Callable[[], bool]) -> None:
    """Become the supervisor of a new standby driver if an old one has taken over from the driver of *spec*."""
    os.environ.pop(FAILURES_VARIABLE, None)

    def was_promoted(job: JobRecords) -> bool:
        newest = job.runs.get(spec.run).newest
        return newest is not None and newest.submission.standby and newest.submission.attempt > spec.attempt

    _start_another(spec, stopped, lambda job: _is_live(job, spec) and was_promoted(job))


def _start_another(spec: DriverSpec, stopped: Callable[[], bool], wanted: Callable[[JobRecords], bool]) -> None:
    """Become the supervisor of a new standby driver; return if none is wanted, or the run has enough of them.

    Storage is read last: an outage of it holds no process of a run that is over, or that was not taken over.
    """
    pauses = _pauses()
    while not stopped():
        try:
            with connected(spec) as job:
                if not wanted(job):
                    return
                living = len(StandbyStore(job.coordinator, job.paths, spec.run).living())
                if living >= job.graph(spec.ticket.graph).options.standby_drivers:
                    return
            become(spec.of_standby(new_id()), None)
        except (HaError, OSError) as error:  # noqa: PERF203  # as above
            if not getattr(error, "retryable", False):
                log.exception("no further standby driver is started here")
                return
            log.warning("the next standby driver cannot be started yet: %s", error)
            _sleep(next(pauses), stopped)


def _is_live(job: JobRecords, spec: DriverSpec) -> bool:
    return job.runs.live_run() == spec.run
