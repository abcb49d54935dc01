"""Handles of drivers on a cluster: written by the engine, completed by the driver's supervisor.

A supervisor imports this module and no engine: hosts that only run drivers need no engine client.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import ValidationError

from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, file_uri
from airflow_provider_ha.records import Model


STANDALONE = "standalone"  # name of the engine
_PAGE_VARIABLE = "SPARK_DRIVER_LOG_URL_STDERR"  # set by a worker: its page with the output of the driver's JVM


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
            engine=STANDALONE,
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
            if handle.engine == STANDALONE:
                return cls.model_validate(handle.ref)
        except ValidationError:
            pass
        raise RecordCorruptError(f"the handle {handle.ref} is not that of a driver of a standalone cluster")


def complete_handle(handle: DriverHandle, driver_log: Path) -> DriverHandle:
    """Return the handle of this process, with the facts that only its worker knows.

    :raises RecordCorruptError: As :meth:`StandaloneDriver.of`.
    """
    # A worker runs a driver in a directory named after the master's id of the driver.
    driver = StandaloneDriver.of(handle).model_copy(update={"driver": Path.cwd().name})
    log_uri = file_uri(socket.gethostname(), str(driver_log))
    return driver.handle(log_uri=log_uri, ui_uri=os.environ.get(_PAGE_VARIABLE, ""))


_COMPLETE: Mapping[str, Callable[[DriverHandle, Path], DriverHandle]] = {
    STANDALONE: complete_handle,
}


def own_handle(handle: DriverHandle, driver_log: Path) -> DriverHandle:
    """Return the handle of this process, completed by the rule of its engine; unchanged for an engine without one.

    :param handle: Handle from the environment; the engine wrote it before it knew the process.
    :param driver_log: The driver's log on this host.
    :raises RecordCorruptError: The engine cannot parse the handle.
    """
    complete = _COMPLETE.get(handle.engine)
    return handle if complete is None else complete(handle, driver_log)
