"""Engines that the contract of engines runs on, each with real supervisors and the stand-in for Spark."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.host.engines.engine import (
    Engine,
    EngineCheck,
    EngineFacts,
    GoneSubmission,
    Observation,
    RunningSubmission,
    UnknownSubmission,
    WantedSubmission,
)
from airflow_provider_ha.host.engines.local import LocalEngine
from airflow_provider_ha.host.engines.local_arrival import boot_id
from airflow_provider_ha.host.engines.standalone import StandaloneEngine
from airflow_provider_ha.host.supervisor.arrival import CONFIG_VARIABLE
from airflow_provider_ha.jobs.drivers.driver_home import (
    HANDLE_VARIABLE,
    HOME_OPTION,
    TICKET_VARIABLE,
    ConfigSource,
    DriverHome,
    Ticket,
)
from airflow_provider_ha.jobs.drivers.driver_spec import (
    OWNER_ONLY,
    SUBMISSION_VARIABLE,
    SUPERVISOR_MODULE,
    DriverSpec,
    host_environment,
)
from airflow_provider_ha.jobs.job_graph import Target
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, file_uri
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.standalone_cluster import PATIENCE, StandaloneCluster, command_of


class EngineUnderTest(Protocol):
    """An engine, and what only a test does with what it has launched.

    :ivar host: Its only host, if it may have others; otherwise empty.
    """

    engine: Engine
    host: str

    def target(self, spark_home: Path) -> Target:
        """Return a target of the engine, with the stand-in for Spark."""

    def elsewhere(self, handle: DriverHandle) -> DriverHandle:
        """Return the handle of something that the engine cannot look at, in place of a driver that is gone."""

    def home(self, ticket: Ticket) -> DriverHome:
        """Return the files of a submission, as the test finds them."""

    def kill(self, handle: DriverHandle) -> None:
        """Kill supervisor and driver with SIGKILL, as a host that dies would."""

    def leftovers(self, ticket: Ticket, handle: DriverHandle) -> bool:
        """Whether the engine has left anything of a forgotten submission outside its home, or a secret."""


@dataclass
class OnThisHost:
    """The local engine."""

    config: HaConfig

    def __post_init__(self) -> None:
        self.engine: Engine = LocalEngine(self.config)
        self.host = ""

    def target(self, spark_home: Path) -> Target:
        return Target(engine_options={"spark_home": str(spark_home)})

    def elsewhere(self, handle: DriverHandle) -> DriverHandle:
        return _of_another_boot(handle)

    def home(self, ticket: Ticket) -> DriverHome:
        return DriverHome.of(self.config, ticket)

    def kill(self, handle: DriverHandle) -> None:
        _kill_with_children(psutil.Process(int(str(handle.ref["pid"]))))

    def leftovers(self, ticket: Ticket, handle: DriverHandle) -> bool:
        del handle
        return self.home(ticket).spec.exists()


class NamespaceEngine:
    """Runs each supervisor as the first child of a PID namespace, with its own work directory: a small container.

    When the first process of a namespace ends, the kernel kills all others in it. So the end of that process, seen from
    outside, is the proof of death. A submission is known by its id, so its handle is reserved before the launch.
    """

    name = "namespace"
    facts = EngineFacts(launch_seconds=10.0, poll_seconds=0.2, runs_here=True)

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

    def probe(self, target: Target) -> Iterator[EngineCheck]:
        yield EngineCheck(f"in {target.engine_options['spark_home']!r}", "unknown release", usable=True)

    def reserve(self, ticket: Ticket) -> DriverHandle:
        log = self.work / ticket.submission_id / "driver.log"
        ref = {"submission": ticket.submission_id, "boot": boot_id()}
        return DriverHandle(engine=self.name, ref=ref, log_uri=file_uri("container", str(log)))

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        assert reserved == self.reserve(ticket), "the caller records the handle and passes it on"
        self.work.mkdir(parents=True, exist_ok=True)
        try:
            output = os.open(self.output(reserved), os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
        except FileExistsError:
            return reserved
        spec = self.spec(ticket)
        inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-m", SUPERVISOR_MODULE]
        outer = subprocess.Popen(
            [*inside, HOME_OPTION, str(spec.home.directory)],
            cwd=self.work,
            env={
                **host_environment(),
                SUBMISSION_VARIABLE: ticket.submission_id,
                TICKET_VARIABLE: spec.ticket.model_dump_json(),
                HANDLE_VARIABLE: spec.handle.model_dump_json(),
                CONFIG_VARIABLE: self.config.to_private_json(),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        os.close(output)
        threading.Thread(target=outer.wait, name=f"reap-{outer.pid}", daemon=True).start()
        return reserved

    def output(self, handle: DriverHandle) -> Path:
        """Return the output of a submission's supervisor: the only thing that the engine leaves outside its home."""
        return self.work / f"{handle.ref['submission']}.log"

    def observe(self, wanted: Sequence[WantedSubmission]) -> dict[str, Observation]:
        running = _namespaces()
        return {each.submission_id: self._seen(each, running) for each in wanted}

    def _seen(self, wanted: WantedSubmission, running: Mapping[str, psutil.Process]) -> Observation:
        handle = wanted.handle
        if handle is None or handle.ref["boot"] != boot_id():
            return UnknownSubmission("it was never reserved, or before the last boot, or elsewhere")
        if wanted.submission_id in running:
            return RunningSubmission(handle)
        if not self.output(handle).exists():
            return UnknownSubmission("it was not launched")
        return GoneSubmission("the namespace has ended, and all that ran in it")

    def terminate(self, handle: DriverHandle) -> None:
        if handle.ref["boot"] != boot_id():
            raise JobStateError("it does not run on this host")
        for first in self.first_processes(handle):
            first.terminate()

    def forget(self, handle: DriverHandle) -> None:
        self.output(handle).unlink(missing_ok=True)

    def first_processes(self, handle: DriverHandle) -> list[psutil.Process]:
        """Return the first process of a submission's namespace, if it runs."""
        outer = _namespaces().get(str(handle.ref["submission"]))
        return outer.children() if outer is not None else []


def _namespaces() -> dict[str, psutil.Process]:
    """Return, by submission, the processes outside the namespaces that wait for the first ones inside."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it may end between two questions
            if process.name() == "unshare" and process.status() != psutil.STATUS_ZOMBIE:
                found[process.environ().get(SUBMISSION_VARIABLE, "")] = process
    return found


@dataclass
class InANamespace:
    """The engine of the tests."""

    config: HaConfig
    work: Path

    def __post_init__(self) -> None:
        self._engine = NamespaceEngine(self.config, self.work)
        self.host = ""
        self.engine: Engine = self._engine

    def target(self, spark_home: Path) -> Target:
        return Target(engine_options={"spark_home": str(spark_home)})

    def elsewhere(self, handle: DriverHandle) -> DriverHandle:
        return _of_another_boot(handle)

    def home(self, ticket: Ticket) -> DriverHome:
        return self._engine.spec(ticket).home

    def kill(self, handle: DriverHandle) -> None:
        for first in self._engine.first_processes(handle):
            first.kill()

    def leftovers(self, ticket: Ticket, handle: DriverHandle) -> bool:
        del ticket
        return self._engine.output(handle).exists()


@dataclass
class OnAStandaloneCluster:
    """The standalone engine, with a worker on a test host."""

    config: HaConfig
    cluster: StandaloneCluster

    def __post_init__(self) -> None:
        self.engine: Engine = StandaloneEngine(self.config)
        self.host = self.cluster.hosts[0].address

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

    def leftovers(self, ticket: Ticket, handle: DriverHandle) -> bool:
        del ticket, handle
        return False  # a master keeps a line about each ended driver, and drops it itself


def _kill_with_children(process: psutil.Process) -> None:
    for each in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):  # the kernel kills a child with its parent
            each.kill()


def _of_another_boot(handle: DriverHandle) -> DriverHandle:
    return handle.model_copy(update={"ref": handle.ref | {"boot": "another"}})
