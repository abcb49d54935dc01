"""Bond between this supervisor and the cluster's JVM that started it: the death of either reaches the other.

A worker of a standalone cluster knows the JVM that it has started, but not the JVM's children. Two bonds tie the end of
the JVM to the end of the driver:

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
import threading
from typing import Any


log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")  # set by Spark's PythonRunner


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
