"""Supervisor of a driver on a worker of a standalone cluster: its handle, and its bond to the JVM that started it.

A worker knows the JVM that it has started, but not the JVM's children. Two bonds tie the end of the JVM to the end of
the driver:

- The supervisor ends when the JVM has ended: its standard input is a pipe from the JVM, and the kernel reports the end
  of the pipe. The kernel also sends SIGCONT when the JVM ends (PDEATHSIG), so that a stopped supervisor notices too.
- On SIGTERM from its worker, the JVM sends SIGTERM to the supervisor and waits for it to exit. So the last process that
  the worker sees end is the last process of the submission, and by then the exit is written. A worker waits for some
  seconds, then kills the JVM: the first bond then ends the remaining processes.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.host.engines.table import STANDALONE
from airflow_provider_ha.jobs.job_graph import JobGraph
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, file_uri
from airflow_provider_ha.records import Model


log = logging.getLogger(__name__)

_PAGE_VARIABLE = "SPARK_DRIVER_LOG_URL_STDERR"  # set by a worker: its page with the output of the driver's JVM
# An authenticating worker passes its secret in this variable; Spark's driver takes it from its conf alone.
AUTHENTICATION_VARIABLE = "_SPARK_AUTH_SECRET"
_PR_SET_PDEATHSIG = 1
_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")  # set by Spark's PythonRunner


class StandaloneDriver(Model):
    """Driver of a standalone cluster.

    :param masters: REST servers of all masters, ``http://host:port``, separated by commas.
    :param driver: The master's id of the driver; empty at launch, before it has one.
    """

    masters: str
    driver: str = ""

    @property
    def urls(self) -> tuple[str, ...]:
        """REST servers of all masters."""
        return tuple(self.masters.split(","))

    def handle(self, *, log_uri: str = "", ui_uri: str = "") -> DriverHandle:
        """Return the handle that refers to this driver."""
        name = self.driver or "the driver"
        printed = f"stderr of {name} on its worker, in SPARK_WORKER_DIR; the page of the active master links to it"
        return DriverHandle(
            engine=STANDALONE.name,
            ref=self.model_dump(),
            log_uri=log_uri,
            ui_uri=ui_uri,
            printed="" if log_uri else printed,
        )

    @classmethod
    def of(cls, handle: DriverHandle) -> StandaloneDriver:
        """Return the driver of a handle.

        :raises RecordCorruptError: The handle is not for a driver of a standalone cluster.
        """
        try:
            if handle.engine == STANDALONE.name:
                return cls.model_validate(handle.ref)
        except ValidationError:
            pass
        raise RecordCorruptError(f"the handle {handle.ref} is not that of a driver of a standalone cluster")


class StandaloneArrival:
    """Arrival of a supervisor below a JVM of a worker. Two drivers of one submission may arrive: it reports itself."""

    reports_itself = True

    def own_handle(self, given: DriverHandle, driver_log: Path) -> DriverHandle:
        """Return the handle of this process, with the facts that only its worker knows.

        :raises RecordCorruptError: As :meth:`StandaloneDriver.of`.
        """
        driver = StandaloneDriver.of(given)
        if driver.driver:  # a later attempt in the same process
            return given
        # A worker runs a driver in a directory named after the master's id of the driver.
        driver = driver.model_copy(update={"driver": Path.cwd().name})
        log_uri = file_uri(socket.gethostname(), str(driver_log))
        return driver.handle(log_uri=log_uri, ui_uri=os.environ.get(_PAGE_VARIABLE, ""))

    def bind(self) -> None:
        """Bind this process and the JVM that started it to each other."""
        bind_to_starter()
        hold_jvm()

    def conf(self, graph: JobGraph) -> dict[str, str]:
        """Return the secret of an authenticating worker, if the job authenticates."""
        secret = os.environ.get(AUTHENTICATION_VARIABLE)
        return (
            {"spark.authenticate.secret": secret} if secret and graph.conf.get("spark.authenticate") == "true" else {}
        )


def bind_to_starter() -> None:
    """Arrange for SIGTERM when the process that started this one ends, also if it has ended already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)
    threading.Thread(target=_await_end_of_starter, name="guardian", daemon=True).start()


def _await_end_of_starter() -> None:
    while os.read(0, 1):  # the pipe carries no data; its end is the end of the process
        pass
    log.warning("the process that started this one has ended")
    os.kill(os.getpid(), signal.SIGTERM)


def hold_jvm() -> None:
    """Make the JVM that started this process wait for its end on SIGTERM. Called once: the hook survives ``exec``."""
    port, secret = (os.environ.pop(name, "") for name in _GATEWAY)
    if not port:
        return
    try:
        _add_hooks(int(port), secret)
    except Exception:  # any failure of py4j: the death of the driver depends on the pipe alone
        log.exception("the JVM does not wait for this supervisor: its end does not prove the end of the driver")


def _add_hooks(port: int, secret: str) -> None:
    from py4j.java_gateway import GatewayParameters, JavaGateway  # noqa: PLC0415  # Spark brings it, on this path only

    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
    try:
        jvm: Any = gateway.jvm
        us = jvm.java.lang.ProcessHandle.of(os.getpid()).get()
        runnable = jvm.java.lang.Class.forName("java.lang.Runnable")
        for target, action in ((us, "destroy"), (us.onExit(), "join")):  # concurrent with the request to end
            run = jvm.java.beans.EventHandler.create(runnable, target, action)
            jvm.java.lang.Runtime.getRuntime().addShutdownHook(jvm.java.lang.Thread(run))
    finally:
        gateway.close()
