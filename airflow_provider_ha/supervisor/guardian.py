"""The process that started this supervisor, when that is a JVM of a cluster: neither outlives the other unnoticed.

A worker of a standalone cluster knows the JVM that it has started, and nothing of the JVM's children. Two bonds make
the end of that JVM that of the driver:

- The supervisor ends when the JVM has ended: our standard input is a pipe from it, whose end the kernel announces. The
  kernel also continues the supervisor when the JVM ends (PDEATHSIG), so that one that was stopped notices as well.
- The JVM, asked to end by its worker (SIGTERM), asks the supervisor to end and waits for that. So what the worker sees
  end is the last process of the submission, and the exit is written by then. A worker waits for some seconds, then
  kills the JVM: the first bond is then what ends the rest.
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
    """End by SIGTERM when the process ends that started this one, also when it has ended already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)
    threading.Thread(target=_await_end_of_starter, name="guardian", daemon=True).start()


def _await_end_of_starter() -> None:
    while os.read(0, 1):  # it writes nothing; the end of the pipe is the end of the process
        pass
    log.warning("the process that started this one has ended")
    os.kill(os.getpid(), signal.SIGTERM)


def hold_jvm() -> None:
    """Make the JVM that started this process wait for its end, when it is asked to end. Once: it survives ``exec``."""
    port, secret = (os.environ.pop(name, "") for name in _GATEWAY)
    if not port:
        return
    try:
        _add_hooks(int(port), secret)
    except Exception:  # any failure of py4j: the pipe is what the death of the driver depends on
        log.exception("the JVM does not wait for this supervisor: a kill of it is not proven by its end")


def _add_hooks(port: int, secret: str) -> None:
    from py4j.java_gateway import GatewayParameters, JavaGateway  # noqa: PLC0415  # Spark brings it, on this path only

    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
    try:
        jvm: Any = gateway.jvm
        us = jvm.java.lang.ProcessHandle.of(os.getpid()).get()
        runnable = jvm.java.lang.Class.forName("java.lang.Runnable")
        for target, action in ((us, "destroy"), (us.onExit(), "join")):  # both run at once: asked to end, and awaited
            run = jvm.java.beans.EventHandler.create(runnable, target, action)
            jvm.java.lang.Runtime.getRuntime().addShutdownHook(jvm.java.lang.Thread(run))
    finally:
        gateway.close()
