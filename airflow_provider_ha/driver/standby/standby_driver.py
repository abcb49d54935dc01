"""Standby driver: a process of a run that starts Spark, and waits for the loss of the job's leader.

Invariant: the script's code runs only after the process leads. A process whose session of ZooKeeper has ended, ends,
and its supervisor starts another one.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import psutil

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import SessionState
from airflow_provider_ha.driver.ending.exit_reason import ExitCode
from airflow_provider_ha.driver.ending.process_end import ProcessTerminator
from airflow_provider_ha.driver.jvm.component import prepare_file_system, rehearsal, s3a_conf, set_up
from airflow_provider_ha.driver.members.driver_session import CONNECT_SECONDS, DriverSession
from airflow_provider_ha.driver.queries.checked_writer import WriterCalls
from airflow_provider_ha.driver.queries.patches import PatchedSpark, Patches
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.driver.spark_conf import gateway, prepare_session_conf
from airflow_provider_ha.driver.standby.copy_refresh import CopyRefresher
from airflow_provider_ha.driver.standby.spare_session import (
    MOST_SECONDS,
    HeldExecutors,
    SpareSession,
    reason_against,
    shrink_heap,
)
from airflow_provider_ha.driver.standby.takeover import LOOK_SECONDS, MissedPromotionError, RunOverError, Takeover
from airflow_provider_ha.errors import HaError, NodeMissingError, NotConnectedError
from airflow_provider_ha.jobs.cluster_roots import RootsOfCluster
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec, write_private, write_session
from airflow_provider_ha.jobs.drivers.spark_release import is_local
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.conf import PREFIX, needs_component
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel, StandbyStore
from airflow_provider_ha.redaction import public
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.storage.outage import outages
from airflow_provider_ha.uris import hadoop_uri


log = logging.getLogger(__name__)

_JOIN_SECONDS = 2.0  # between two requests for a place
_NOTE_LIMIT = 500  # characters, because the record is stored in ZooKeeper
_RETRY_SECONDS = 300.0  # after a warm-up that failed: its cause may have gone, a full disk for example
_SHRINK_SECONDS = 20.0  # after which a JVM has returned free memory to its host
_NO_EXECUTOR = "its session has no executor: the cluster is about to start it, or has no room for it"
_STARTS = "it starts Spark, and warms it up"


@dataclass(frozen=True, slots=True)
class Promotion:
    """A standby driver that has become a submission, and leads.

    :param spec: The submission.
    """

    spec: DriverSpec
    led: DriverSession
    spark: PatchedSpark


class PlainStarter:
    """Starts queries as pyspark does."""

    def __init__(self, calls: WriterCalls) -> None:
        self._calls = calls

    def start(self, writer: Any, path: str | None) -> Any:
        """Start the query of *writer*; return its handle."""
        return self._calls.start(writer, path)


class StandbyDriver:
    """A process of a run that waits for the loss of the leader.

    :param spec: Its directory, and access to the cluster.
    :raises NotConnectedError: ZooKeeper did not answer.
    :raises StorageUnavailableError: Storage or the directory did not answer.
    """

    def __init__(self, spec: DriverSpec, way_out: ProcessTerminator, clock: Clock) -> None:
        self._spec = spec
        self._exit = way_out
        self._clock = clock
        self._coordinator = KazooCoordinator.connect(spec.config, timeout=CONNECT_SECONDS)
        session = self._coordinator.session
        if session is None:
            raise NotConnectedError("ZooKeeper answered, but there is no session")
        self._session = session
        with outages("written", spec.home.directory):
            write_session(spec.home.session, session)
            write_private(spec.home.driver_pid, str(os.getpid()).encode())
        self._job = JobRecords(
            job_id=spec.job_id,
            config=spec.config,
            coordinator=self._coordinator,
            store=open_store(spec.config, RootsOfCluster(spec.config, self._coordinator)),
            clock=clock,
        )
        run = self._job.runs.get(spec.run).run
        self._graph = self._job.graph_of(run)
        self._takeover = Takeover(self._job, spec, run, self._graph)
        self._standbys = StandbyStore(self._coordinator, self._job.paths, spec.run)
        self._own = Standby(
            standby_id=spec.submission_id,
            level=StandbyLevel.CONNECTED,
            since=clock.now(),
            host=socket.gethostname(),
            pid=os.getpid(),
            log=spec.handle.log_uri,
            note=_STARTS,
        )
        self._jvm: int | None = None
        self._warm_up_again_at = self._weigh_at = float("inf")
        self._copies: CopyRefresher | None = None
        self._executors: HeldExecutors | None = None
        self._coordinator.add_state_listener(self._on_state)

    def wait(self) -> Promotion:
        """Join the run, start Spark, and return once this process leads. Ends the process if it is not needed."""
        self._join()
        spark = self._prepare()
        try:
            while True:
                found = self._takeover.look()
                if isinstance(found, tuple):
                    if self._copies is not None:
                        self._copies.stop()
                    if self._executors is not None:
                        self._executors.lift()
                    with suppress(OSError):  # the launch, for the phases of its start
                        os.utime(self._spec.home.properties, (self._takeover.lost_at, self._takeover.lost_at))
                    return Promotion(*found, spark)
                self._takeover.changed.wait(found)
                self._require_session()
                self._note_executors()
                self._note_memory()
                if time.monotonic() > self._warm_up_again_at:
                    self._exit.leave(ExitCode.OUTAGE, self._own.note)
        except RunOverError as error:
            self._leave(error.message)
        except MissedPromotionError as error:
            self._exit.leave(ExitCode.OUTAGE, error.message)

    def _join(self) -> None:
        """Take a place among the standby drivers of the run.

        The place of one that has just ended is free once its session has ended.
        """
        most = self._graph.options.standby_drivers
        end = time.monotonic() + 2 * self._spec.config.timings.session_timeout + LOOK_SECONDS
        while not self._standbys.join(self._own, most):
            self._leave_if_over()
            if time.monotonic() > end:
                self._leave(f"run {self._spec.run} has its {most} standby drivers")
            time.sleep(_JOIN_SECONDS)

    def _prepare(self) -> PatchedSpark:
        """Patch pyspark, make a session and warm it up; without a session, the note has the reason."""
        jvm = gateway()
        self._jvm = int(jvm.java.lang.ProcessHandle.current().pid())
        self._exit.owns_jvm(self._jvm)
        prepare_session_conf(jvm, self._graph.options.min_batches_to_retain)
        calls = WriterCalls.of_pyspark()
        patches = Patches(Lifecycle(), QueryRegistry(self._clock), PlainStarter(calls))
        patches.apply()
        note = "the conf for OpenLineage is set" if self._graph.lineage else reason_against(jvm)
        limited = bool(note)
        if not limited and not (note := self._warm_up(jvm, calls, patches)):
            self._own = self._own.model_copy(update={"warmed_up_at": self._clock.now()})
            note = self._need()
        self._note(StandbyLevel.CONNECTED if note else StandbyLevel.SESSION, note, limited=limited)
        return PatchedSpark(calls, patches)

    def _need(self) -> str:
        return "" if self._executors is None or self._executors.are_ready else _NO_EXECUTOR

    def _note_executors(self) -> None:
        """Change the level of a session when its cluster has given it an executor, or has taken the last one away."""
        note = self._need()
        if self._executors is not None and note != self._own.note:
            self._note(StandbyLevel.CONNECTED if note else StandbyLevel.SESSION, note, limited=False)

    def _warm_up(self, jvm: Any, calls: WriterCalls, patches: Patches) -> str:
        """Make a session and warm it up; return why that failed, empty if it did not."""
        config, directory = self._spec.config, self._spec.home.directory / "warm-up"
        layered = needs_component(config)
        try:
            if layered:
                root = hadoop_uri(config.work_uri)
                prepare_file_system(jvm, root, self._graph.conf, s3a_conf(config))
                set_up(jvm, root, self._graph.options)
            on_cluster = not is_local(str(jvm.java.lang.System.getProperty("spark.master")))
            patches.spare = spare = SpareSession.open(local=on_cluster)
            with rehearsal(jvm, PREFIX + directory.as_uri(), MOST_SECONDS) if layered else nullcontext():
                spare.warm_up(calls, directory, self._goes_on, layered=layered)
            if on_cluster:
                patches.close_spare()
                patches.spare = spare = SpareSession.open()
                self._executors = spare.executors(self._graph.options.standby_executors, self._is_running)
                self._executors.start()
            if layered and self._graph.options.local_recovery and not on_cluster:  # executors have the copies there
                self._copies = CopyRefresher(self._job, self._graph.options, jvm, spare.hadoop_configuration)
                self._copies.start()
            shrink_heap(jvm)
        except Exception as error:  # of Spark: the driver can lead without a warm-up
            self._leave_if_over()
            log.warning("the warm-up failed; the next process tries it again", exc_info=True)
            self._warm_up_again_at = time.monotonic() + _RETRY_SECONDS
            return public(f"the warm-up failed: {error}")[:_NOTE_LIMIT]
        return ""

    def _note(self, level: StandbyLevel, note: str, *, limited: bool) -> None:
        self._update(level=level, note=note, limited=limited, since=self._clock.now())
        self._takeover.is_ready = self._own.is_ready
        self._weigh_at = time.monotonic() + _SHRINK_SECONDS
        log.info("standby driver of run %d: %s%s", self._spec.run, level.value, f", {note}" if note else "")

    def _note_memory(self) -> None:
        """Write down the memory that the process has kept, once its JVM has had the time to return the rest."""
        if time.monotonic() > self._weigh_at:
            self._weigh_at = float("inf")
            self._update()

    def _update(self, **changes: Any) -> None:
        """Change the record of this standby driver; the memory is what it has now."""
        memory = _memory_of(os.getpid(), self._jvm)
        self._own = self._own.model_copy(update={"memory": memory, **changes})
        try:
            self._standbys.update(self._own)
        except NodeMissingError:
            self._lost_session()

    def _goes_on(self) -> bool:
        try:
            return self._session_lives() and self._job.runs.result(self._spec.run) is None
        except HaError:  # the session decides
            return True

    def _is_running(self) -> bool:
        return self._job.snapshot().state is JobState.RUNNING

    def _leave_if_over(self) -> None:
        if self._job.runs.result(self._spec.run) is not None:
            self._leave(f"run {self._spec.run} is over")
        self._require_session()

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._takeover.changed.set()

    def _session_lives(self) -> bool:
        return self._coordinator.session in (None, self._session) and self._coordinator.state is not SessionState.LOST

    def _require_session(self) -> None:
        if not self._session_lives():
            self._lost_session()

    def _lost_session(self) -> NoReturn:
        self._exit.leave(ExitCode.OUTAGE, "the session of the standby driver has ended")

    def _leave(self, reason: str) -> NoReturn:
        """End the process in order: it is not needed."""
        log.info("the standby driver ends: %s", reason)
        self._coordinator.close()
        self._spec.home.session.unlink(missing_ok=True)
        self._spec.home.driver_pid.unlink(missing_ok=True)
        self._exit.leave(ExitCode.DONE)


def _memory_of(*pids: int | None) -> int:
    """Return the bytes of processes (PSS); 0 on a host that does not count them so."""
    try:
        return sum(psutil.Process(pid).memory_full_info().pss for pid in pids if pid is not None)
    except (psutil.Error, AttributeError):  # without /proc no PSS is counted
        return 0
