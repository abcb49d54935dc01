"""Engines that the contract of engines runs on, each with real supervisors and the stand-in for Spark."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.host.engines.engine import (
    Engine,
    GoneSubmission,
    Observation,
    RunningSubmission,
    SparkOfTarget,
    UnknownSubmission,
)
from airflow_provider_ha.host.engines.local import LocalEngine
from airflow_provider_ha.host.engines.standalone import StandaloneEngine
from airflow_provider_ha.host.supervisor.arrival import CONFIG_VARIABLE
from airflow_provider_ha.jobs.drivers.driver_home import HOME_OPTION, TICKET_VARIABLE, ConfigSource, DriverHome, Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import (
    OWNER_ONLY,
    SUBMISSION_VARIABLE,
    SUPERVISOR_MODULE,
    DriverSpec,
    boot_id,
    host_environment,
)
from airflow_provider_ha.jobs.job_graph import Target
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, file_uri
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.standalone_cluster import PATIENCE, StandaloneCluster, command_of


class EngineUnderTest(Protocol):
    """An engine, and what only a test does with what it has launched."""

    engine: Engine

    def target(self, spark_home: Path) -> Target:
        """Return a target of the engine, with the stand-in for Spark."""

    def elsewhere(self, handle: DriverHandle) -> DriverHandle:
        """Return the handle of something that the engine cannot look at, in place of a driver that is gone."""

    def home(self, ticket: Ticket) -> DriverHome:
        """Return the files of a submission, as the test finds them."""

    def kill(self, handle: DriverHandle) -> None:
        """Kill supervisor and driver with SIGKILL, as a host that dies would."""


@dataclass
class OnThisHost:
    """The local engine."""

    config: HaConfig

    def __post_init__(self) -> None:
        self.engine: Engine = LocalEngine(self.config)

    def target(self, spark_home: Path) -> Target:
        return Target(engine_options={"spark_home": str(spark_home)})

    def elsewhere(self, handle: DriverHandle) -> DriverHandle:
        return _of_another_boot(handle)

    def home(self, ticket: Ticket) -> DriverHome:
        return DriverHome.of(self.config, ticket)

    def kill(self, handle: DriverHandle) -> None:
        _kill_with_children(psutil.Process(int(str(handle.ref["pid"]))))


class NamespaceEngine:
    """Runs each supervisor as the first child of a PID namespace, with its own work directory: a small container.

    When the first process of a namespace ends, the kernel kills all others in it. So the end of that process, seen from
    outside, is the proof of death.
    """

    name = "namespace"
    launch_seconds = 10.0
    runs_here = True

    def __init__(self, config: HaConfig, work: Path) -> None:
        self.config = config
        self.work = work

    def spec(self, ticket: Ticket) -> DriverSpec:
        """Return the spec of a submission, below the engine's own work directory."""
        ticket = ticket.model_copy(update={"config": ConfigSource.ENVIRONMENT})
        return DriverSpec(config=self.config, ticket=ticket, directory=self.work / ticket.submission_id)

    def check(self, target: Target) -> None:
        del target

    def check_host(self) -> None:
        """Take every host."""

    def host_warnings(self) -> tuple[str, ...]:
        return ()

    def spark_of(self, target: Target) -> SparkOfTarget:
        return SparkOfTarget(f"in {target.engine_options['spark_home']!r}", None)

    def launch(self, ticket: Ticket) -> DriverHandle:
        spec = self.spec(ticket)
        self.work.mkdir(parents=True, exist_ok=True)
        output = os.open(self.work / f"{ticket.submission_id}.log", os.O_WRONLY | os.O_CREAT, OWNER_ONLY)
        inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-m", SUPERVISOR_MODULE]
        outer = subprocess.Popen(
            [*inside, HOME_OPTION, str(spec.home.directory)],
            cwd=self.work,
            env={
                **host_environment(),
                SUBMISSION_VARIABLE: ticket.submission_id,
                TICKET_VARIABLE: spec.ticket.model_dump_json(),
                CONFIG_VARIABLE: self.config.to_private_json(),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        os.close(output)
        handle = self._handle(psutil.Process(outer.pid), ticket.submission_id)
        threading.Thread(target=outer.wait, name=f"reap-{outer.pid}", daemon=True).start()
        return handle

    def observe(self, submission_id: str, handle: DriverHandle | None) -> Observation:
        if handle is None:
            found = self._find(submission_id)
            return (
                RunningSubmission(self._handle(found, submission_id))
                if found
                else UnknownSubmission("no namespace of its id is here")
            )
        if handle.ref["boot"] != boot_id():
            return UnknownSubmission("it was started before the last boot, or elsewhere")
        outer = self._outer(handle)
        return (
            GoneSubmission("the namespace has ended, and all that ran in it")
            if outer is None
            else RunningSubmission(handle)
        )

    def terminate(self, handle: DriverHandle) -> None:
        if handle.ref["boot"] != boot_id():
            raise JobStateError("it does not run on this host")
        if (outer := self._outer(handle)) is not None:
            for first in outer.children():
                first.terminate()

    def _find(self, submission_id: str) -> psutil.Process | None:
        for process in psutil.process_iter():
            try:
                if process.name() == "unshare" and process.environ().get(SUBMISSION_VARIABLE) == submission_id:
                    return process
            except psutil.Error:
                continue
        return None

    def _handle(self, outer: psutil.Process, submission_id: str) -> DriverHandle:
        ref = {"outer": outer.pid, "started": outer.create_time(), "boot": boot_id()}
        log = self.work / submission_id / "driver.log"
        return DriverHandle(engine=self.name, ref=ref, log_uri=file_uri("container", str(log)))

    @staticmethod
    def _outer(handle: DriverHandle) -> psutil.Process | None:
        try:
            process = psutil.Process(int(str(handle.ref["outer"])))
            same = process.create_time() == handle.ref["started"] and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return process if same else None


@dataclass
class InANamespace:
    """The engine of the tests."""

    config: HaConfig
    work: Path

    def __post_init__(self) -> None:
        self._engine = NamespaceEngine(self.config, self.work)
        self.engine: Engine = self._engine

    def target(self, spark_home: Path) -> Target:
        return Target(engine_options={"spark_home": str(spark_home)})

    def elsewhere(self, handle: DriverHandle) -> DriverHandle:
        return _of_another_boot(handle)

    def home(self, ticket: Ticket) -> DriverHome:
        return self._engine.spec(ticket).home

    def kill(self, handle: DriverHandle) -> None:
        for first in psutil.Process(int(str(handle.ref["outer"]))).children():
            first.kill()


@dataclass
class OnAStandaloneCluster:
    """The standalone engine, with a worker on a test host."""

    config: HaConfig
    cluster: StandaloneCluster

    def __post_init__(self) -> None:
        self.engine: Engine = StandaloneEngine(self.config)

    def target(self, spark_home: Path) -> Target:
        return self.cluster.target(self.config, spark_home=str(spark_home))

    def elsewhere(self, handle: DriverHandle) -> DriverHandle:
        return handle.model_copy(update={"ref": handle.ref | {"driver": "driver-19700101000000-0000"}})

    def home(self, ticket: Ticket) -> DriverHome:
        host = self.cluster.host_of(ticket.submission_id)
        jvm = host.jvm_of(ticket.submission_id)

        def working() -> str:
            name = Path(jvm.cwd()).name  # the host sees it elsewhere
            return name if name.startswith("driver-") else ""  # a JVM that starts works in its performance data

        directory = wait_until(working, timeout=PATIENCE, what="the working directory of the JVM")
        return DriverHome(host.disk / "work" / directory / f"attempt-{ticket.attempt}")

    def kill(self, handle: DriverHandle) -> None:
        for host in self.cluster.hosts:
            for process in host.processes():
                command = command_of(process)
                if "DriverWrapper" in command and str(handle.ref["driver"]) in command:
                    _kill_with_children(process)


def _kill_with_children(process: psutil.Process) -> None:
    for each in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):  # the kernel kills a child with its parent
            each.kill()


def _of_another_boot(handle: DriverHandle) -> DriverHandle:
    return handle.model_copy(update={"ref": handle.ref | {"boot": "another"}})
